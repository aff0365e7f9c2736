"""The engine in JAX with its clients on Ray's actors, against the engine on one machine."""

import dataclasses

import jax
import msgspec
import numpy as np
import pytest

from fl_audit.config import DigitsTask, ExampleCanaries, RayCluster, Shuffle
from fl_audit.config.file import config_to_toml
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.jax.jax_on_ray import JaxOnRay
from fl_audit.engines.jax.jax_worker import JaxWorker, added
from fl_audit.engines.prepare import prepare
from fl_audit.engines.ray import worker
from fl_audit.engines.ray.actors import UnreadRound
from fl_audit.engines.ray.tree_sum import Subtree, shards_of
from fl_audit.engines.ray.worker import Sent, WorkerSetup
from fl_audit.engines.runtimes import make_runtime
from fl_audit.errors import InputError
from fl_audit.mechanisms.distributed import Distributed
from fl_audit.mechanisms.independent import GaussianAdaptive
from fl_audit.version import __version__
from tests.engines.jax.conftest import small_config, train, with_keys

SAME = 1e-5


@pytest.fixture(scope="module")
def run():
    """Five rounds of 17 clients and some canaries: five or six shards."""
    return prepare(small_config(participation=Shuffle(rounds=5, clients_per_round=17)))


def setup_of(run, **keys):
    config = config_to_toml(msgspec.structs.replace(run.config, clients_per_block=4))
    return WorkerSetup(
        **{"version": __version__, "config": config, "cpus": 1, "gpus": 0.0, "parts": {}, **keys}
    )


@pytest.fixture
def load(monkeypatch):
    """Loads an actor in this process."""
    monkeypatch.setattr(worker, "end_with_parent", lambda: None)
    monkeypatch.setattr(worker, "node_of_this_process", lambda: "here")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")

    def loaded(setup):
        actor = JaxWorker()
        assert actor.load(setup) == "here"
        return actor

    return loaded


def test_an_actor_sums_its_shards_as_the_engine_does(run, load):
    actor = load(setup_of(run))
    engine = JaxEngine(with_keys(run, clients_per_block=4), jax.devices()[:1])
    cohort, state = run.schedule.cohort(0), engine.begin()
    shards = shards_of(cohort, 4)
    weights = engine.weights(state)
    norms = [np.asarray(norm) for norm in state.norms]
    sent = Sent(0, norms, weights, canary_norm=0.3, num_shards=len(shards))
    root = Subtree((len(shards) - 1).bit_length(), 0)
    reached, total = actor.total(sent, root, shards)
    assert reached == root
    expected = engine.sum_of(weights, state.norms, engine.reader(run)(cohort, 0), 0.3)
    parts = [*expected.updates, *expected[1:]]
    for ours, theirs in zip(total, parts, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=1e-6)
    assert total[-4] == len(cohort.clients) + len(cohort.canaries)
    # Its parts, summed by two, have the same bits.
    half = Subtree(root.level - 1, 0)
    first = actor.total(sent, half, shards[:4])[1]
    rest = actor.total(sent, Subtree(root.level - 1, 1), shards[4:])[1]
    for ours, theirs in zip(actor.merge(first, rest), total, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert added([np.float32(1)], [np.float32(2)]) == [np.float32(3)]


def test_an_actor_of_another_version_says_so(run, load):
    with pytest.raises(InputError, match=r"^ray: .* has fl-audit .* and this program is 0\.0\.0;"):
        load(setup_of(run, version="0.0.0"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"cpus_per_actor": 2}, r"^key `ray\.cpus_per_actor`: must be 1, as each actor of engine"),
        ({"gpus_per_actor": 2.0}, r"^key `ray\.gpus_per_actor`: must be at most 1, as each actor"),
    ],
)
def test_an_actor_has_one_device(run, keys, message):
    asked = with_keys(run, runtime="ray", ray=RayCluster(engine="jax", **keys))
    with pytest.raises(InputError, match=message):
        make_runtime(asked, worker_log=None)


def test_shares_of_noise_are_not_for_actors_in_jax(run):
    table = Distributed(noise_multiplier=1.0, clip_norm=1.0)
    ray = RayCluster(engine="jax")
    asked = with_keys(run, mechanism=table, runtime="ray", ray=ray)
    with pytest.raises(InputError, match=r"^mechanism.kind: 'distributed' is not for ray.engine"):
        make_runtime(asked, worker_log=None)


# With Ray.


def on_ray(run, **cluster):
    pytest.importorskip("ray.util")
    ray = RayCluster(engine="jax", **cluster)
    engine = make_runtime(with_keys(run, runtime="ray", ray=ray), worker_log=None)
    assert isinstance(engine, JaxOnRay)
    return engine


def models(run, engine):
    return np.array([trained.seen.after for trained in train(run, engine)[0]])


@pytest.fixture(scope="module")
def on_one(run):
    return models(run, on_ray(run, actors=1))


@pytest.mark.slow
def test_rounds_as_on_one_machine(run, on_one):
    engine = JaxEngine(with_keys(run, clients_per_block=4))
    rounds, _ = train(run, engine)
    moved = np.linalg.norm(rounds[-1].seen.after - rounds[0].seen.before)
    for ours, theirs in zip(on_one, rounds, strict=True):
        assert np.linalg.norm(ours - theirs.seen.after) < SAME * moved


@pytest.mark.slow
@pytest.mark.parametrize("actors", [2, 3])
def test_the_same_bits_on_any_number_of_jax_actors(run, on_one, actors):
    np.testing.assert_array_equal(models(run, on_ray(run, actors=actors)), on_one)


@pytest.mark.slow
def test_canaries_that_hold_examples_train_on_actors():
    run = prepare(small_config(canaries=ExampleCanaries(source="in_distribution", count=6)))
    ours = models(run, on_ray(run, actors=2))
    theirs = models(run, JaxEngine(with_keys(run, clients_per_block=4)))
    moved = np.linalg.norm(
        theirs[-1]
        - np.concatenate([np.ravel(array) for array in run.task.classifier.initial_weights])
    )
    assert np.linalg.norm(ours[-1] - theirs[-1]) < SAME * moved


@pytest.mark.slow
def test_noise_is_added_here_once(run):
    mechanism = GaussianAdaptive(noise_multiplier=0.5, clip_norm=0.3)
    noised = prepare(
        small_config(mechanism=mechanism, task=DigitsTask(num_clients=60, hidden=(64,)))
    )
    engine = on_ray(noised, actors=2)
    nobody = dataclasses.replace(
        noised.schedule.cohort(0), clients=np.zeros(0, np.int64), canaries=np.zeros(0, np.int64)
    )
    with engine.session():
        trained = engine.run_round(engine.begin(), UnreadRound(nobody, 0), 0)
    stddev = trained.noise_stddev / noised.schedule.expected_cohort
    # 4,810 draws: five standard errors of a standard deviation are 5.1 % (a chance of 6e-7).
    assert np.std(trained.seen.aggregate) == pytest.approx(stddev, rel=0.051)
