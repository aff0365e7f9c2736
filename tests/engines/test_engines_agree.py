"""The same cohorts and seeds without noise give the same model, whatever runs the rounds.

The reference is TFF's process with one client after another (`local`, 1); every other engine, and
every size of its blocks, trains the same runs.
"""

import dataclasses
import functools

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.config import (
    DigitsTask,
    FedAvg,
    FedProx,
    FedSgd,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.engines.runtimes import make_runtime
from fl_audit.formats.folders import RunFolder
from fl_audit.mechanisms.independent import GaussianAdaptive, GaussianFixed, NoPrivacy
from fl_audit.mechanisms.tree_aggregation import TreeAggregation
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, FixedZeroing
from fl_audit.participation import Cohort
from fl_audit.run.folder_and_checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from tests.engines.jax.conftest import small_run, train, with_images, with_keys, with_sentences
from tests.engines.jax.test_jax_run import STATISTICS
from tests.small_configs import TINY_RUN

pytest.importorskip("tensorflow_federated")
pytestmark = pytest.mark.tff

SAME = 1e-5  # of what training changed; float32 rounds at 6e-8, and below 1e-6 came out

REFERENCE, NATIVE = ("local", 1), ("native", None)
ENGINES = [
    ("jax", 2),
    ("local", 2),
    *(pytest.param("jax", size, marks=pytest.mark.slow) for size in (1, 7)),
    *(pytest.param("local", size, marks=pytest.mark.slow) for size in (5, 7)),
    NATIVE,
]
"""Engines, and how many clients of cohorts of 9 train at once: some divide them and some do not."""


@pytest.fixture(scope="module")
def run():
    """Five rounds of clients with 1 to 22 examples, canaries in some, and a clip that moves.

    With momentum a batch of padding alone would move a client on. The model is linear, as graphs
    of deeper ones take longer to build; below and in tests/tasks/test_jax_networks.py are others.
    """
    client = FedAvg(learning_rate=0.1, batch_size=4, momentum=0.5)
    return small_run(task=DigitsTask(num_clients=60, hidden=()), client=client)


class Engines:
    """The engines of a run, each compiled and trained once; `native`, the slowest, two rounds."""

    def __init__(self, run, worker_log):
        few = dataclasses.replace(run, schedule=dataclasses.replace(run.schedule, num_rounds=2))

        def made(name, size):
            keys = with_keys(run, runtime=name, clients_per_block=size)
            return make_runtime(keys, worker_log=worker_log)

        self.engine = functools.cache(made)
        self.rounds = functools.cache(
            lambda name, size: train(run if name != "native" else few, self.engine(name, size))[0]
        )


@pytest.fixture(scope="module")
def engines(run, tmp_path_factory):
    return Engines(run, tmp_path_factory.mktemp("worker") / "worker.log")


def rounds_by(run, name, size, folder):
    keys = with_keys(run, runtime=name, clients_per_block=size)
    return train(run, make_runtime(keys, worker_log=folder / "worker.log"))[0]


def distance(vector, expected):
    return np.linalg.norm(vector - expected) / np.linalg.norm(expected)


def assert_same(rounds, expected):
    for ours, theirs in zip(rounds, expected, strict=True):
        assert distance(ours.seen.aggregate, theirs.seen.aggregate) < SAME
        assert ours.seen.clip_norm == pytest.approx(theirs.seen.clip_norm, rel=1e-6)
        assert ours.noise_stddev == theirs.noise_stddev == 0
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=SAME)
    start, last, expected_last = rounds[0].seen.before, rounds[-1].seen, expected[-1].seen
    np.testing.assert_allclose(start, expected[0].seen.before, atol=1e-5)
    # That training moved the model, not the weights that it began with, makes it the same.
    assert distance(last.after - start, expected_last.after - start) < SAME


def test_the_run_holds_what_makes_engines_differ(run, engines):
    cohorts = [run.schedule.cohort(index) for index in range(5)]
    assert sum(len(cohort.canaries) for cohort in cohorts) > 2
    sizes = {run.task.population.num_examples(c) for cohort in cohorts for c in cohort.clients}
    assert min(sizes) < 4
    assert max(sizes) > 16
    assert {size % run.config.client.batch_size for size in sizes} >= {0, 3}
    assert len({seen.seen.clip_norm for seen in engines.rounds(*REFERENCE)}) == 5


@pytest.mark.parametrize(("name", "size"), ENGINES)
def test_an_engine_gives_the_same_rounds(engines, name, size):
    rounds = engines.rounds(name, size)
    assert_same(rounds, engines.rounds(*REFERENCE)[: len(rounds)])


def a_round(run, engine, clients, canaries):
    """The first round with other participants."""
    cohort = Cohort(np.array(clients, np.int64), np.array(canaries, np.int64))
    with engine.session():
        return engine.run_round(engine.begin(), engine.reader(run)(cohort, 0), 0)


def test_a_canary_adds_its_vector_at_the_clip_norm_and_no_loss(run, engines):
    engine = engines.engine(*REFERENCE)
    without, again, both = (a_round(run, engine, [0, 1, 2], of) for of in ([], [], [7]))
    np.testing.assert_array_equal(again.seen.aggregate, without.seen.aggregate)
    added = (both.seen.aggregate - without.seen.aggregate) * run.schedule.expected_cohort
    np.testing.assert_allclose(added, 0.3 * run.family.vector(7), atol=1e-6)
    moved = both.seen.after - both.seen.before
    np.testing.assert_allclose(moved, 0.9 * both.seen.aggregate, atol=1e-6)
    assert both.train_loss == without.train_loss > 0


@pytest.mark.parametrize(
    ("of", "to"),
    [
        pytest.param(REFERENCE, NATIVE, marks=pytest.mark.slow),
        pytest.param(NATIVE, REFERENCE, marks=pytest.mark.slow),
        (NATIVE, ("local", 2)),
    ],
)
def test_a_checkpoint_of_one_goes_on_under_another(run, engines, tmp_path, of, to):
    """From the state after round 2, round 3."""
    path, engine = tmp_path / "checkpoint.npz", engines.engine(*to)
    state = engines.rounds(*of)[1].state
    save_checkpoint(path, Checkpoint(2, engines.engine(*of).leaves(state)))
    with engine.session():
        begun = engine.begin()
        resumed = engine.from_leaves(begun, load_checkpoint(path, engine.leaves(begun)).leaves)
        found = engine.run_round(resumed, engine.reader(run)(run.schedule.cohort(2), 2), 2)
    assert_same([found], engines.rounds(*REFERENCE)[2:3])


CONFIGS = {
    "fixed clip, adam": {
        "mechanism": GaussianFixed(noise_multiplier=0.0, clip_norm=0.2),
        "server": ServerAdam(),
    },
    "fed_prox with momentum, zeroing that adapts": {
        "client": FedProx(learning_rate=0.1, batch_size=4, momentum=0.5, proximal_strength=0.4),
        "mechanism": GaussianAdaptive(
            noise_multiplier=0.0,
            clip_norm=0.3,
            zeroing=AdaptiveZeroing(
                initial_estimate=0.05, target_quantile=0.8, multiplier=1.5, increment=0.0
            ),
        ),
    },
    "fed_sgd, yogi, fixed zeroing": {
        "client": FedSgd(batch_size=4),
        "server": ServerYogi(),
        "mechanism": GaussianFixed(
            noise_multiplier=0.0, clip_norm=2.0, zeroing=FixedZeroing(norm=0.3)
        ),
    },
    "fed_avg with adam, adagrad": {
        "client": FedAvg(learning_rate=0.01, batch_size=4, optimizer="adam", epochs=2),
        "server": ServerAdagrad(),
    },
    "fed_avg with adagrad, no clip": {
        "client": FedAvg(learning_rate=0.05, batch_size=4, optimizer="adagrad"),
        "server": ServerSgd(momentum=0.9),
        "mechanism": NoPrivacy(canary_norm=0.3),
    },
    "a tree": {
        "mechanism": TreeAggregation(noise_multiplier=0.0, clip_norm=0.3, restart_every=2),
    },
    "fed_prox with yogi, adam": {
        "client": FedProx(
            learning_rate=0.01, batch_size=4, optimizer="yogi", proximal_strength=1.0
        ),
        "server": ServerAdam(learning_rate=0.1, tau=0.01, beta_1=0.5),
    },
}
"""Clients, servers and mechanisms of every kind."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_algorithm_and_mechanism(name, tmp_path):
    run = small_run(**CONFIGS[name])
    reference = rounds_by(run, *REFERENCE, tmp_path)
    for engine in (("jax", None), ("local", 3), ("native", None)):
        assert_same(rounds_by(run, *engine, tmp_path), reference)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "cnn"])
def test_every_model_in_blocks(run, model, tmp_path):
    run = with_sentences(tmp_path) if model == "lstm" else with_images(run)
    reference = rounds_by(run, *REFERENCE, tmp_path)
    # TensorFlow cannot train several CNNs with weights of their own at once.
    others = [("local", 2), ("local", 5)] if model == "lstm" else []
    for engine in (("jax", 1), ("jax", 2), ("jax", 7), ("native", None), *others):
        assert_same(rounds_by(run, *engine, tmp_path), reference)


def test_participants_of_blocks_are_trained_when_asked_for(run, engines, monkeypatch):
    runtime, trained = engines.engine("local", 2), []
    train = runtime.client_inputs.trainer.train

    def counted(weights, block):
        trained.append(len(block.labels))
        return train(weights, block)

    monkeypatch.setattr(runtime.client_inputs.trainer, "train", counted)
    with runtime.session():
        state = runtime.begin()
    data = run.cohort_data.round_data(run.schedule.cohort(0), 0)
    cohort = dataclasses.replace(data, canaries=np.array([4, 0]))
    participants = runtime.participants(state, cohort)
    assert trained == []
    next(participants)
    next(participants)
    assert trained == [2]
    assert len(list(participants)) == len(cohort.clients) + len(cohort.canaries) - 2
    assert sum(trained) == len(cohort.clients)
    assert trained[-1] == len(cohort.clients) % 2 or 2


# Scores of whole runs.


@pytest.fixture
def config_path(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('runtime = "jax"\nseed = 1\n' + TINY_RUN)
    return path


def scores(folder):
    arrays = [np.genfromtxt(RunFolder(folder).scores(s), delimiter=",")[1:, 2] for s in STATISTICS]
    return np.stack(arrays)


@pytest.mark.slow
def test_scores_of_canaries_that_hold_examples_are_those_of_local(config_path, tmp_path):
    """Likelihood ratios and signals have no fixed size, and float32's rounding is of theirs.

    A signal is gᵀ K⁻¹ (y - m), up to 82 here, of vectors whose lengths' product is up to 226. In
    float64, from the arrays that each engine had, signals differ from the float32 ones by up to
    5.4e-5 (jax) and 5.1e-5 (local), 6.5e-7 of the largest, and from each other by up to 1.6e-5. The
    engines' float32 signals differ by up to 2.3e-5, ratios by 1.6e-5, 1.8e-7 of the largest.
    """
    table = 'kind = "examples"\nsource = "in_distribution"\ncount = 8\nexamples_per_canary = 9'
    text = config_path.read_text().replace("count = 8", table)
    found = {}
    for runtime in ("jax", "local"):
        config_path.write_text(text.replace('"jax"', f'"{runtime}"'))
        out = tmp_path / runtime
        start_run(load_config(config_path), out)
        paths = sorted(out.glob("scores_*.csv"))
        found[runtime] = {path.name: np.genfromtxt(path, delimiter=",")[1:, 2] for path in paths}
    assert len(found["local"]) >= 4
    for name, expected in found["local"].items():
        assert np.ptp(expected) > 1e-3, name
        size = np.abs(expected).max() if "ratio" in name or "own_rounds" in name else 1.0
        np.testing.assert_allclose(
            found["jax"][name], expected, rtol=0, atol=1e-6 * size, err_msg=name
        )


@pytest.mark.slow
def test_all_scores_are_those_of_local(config_path, tmp_path):
    start_run(load_config(config_path), tmp_path / "jax")
    config_path.write_text(config_path.read_text().replace('"jax"', '"local"'))
    start_run(load_config(config_path), tmp_path / "local")
    ours, theirs = scores(tmp_path / "jax"), scores(tmp_path / "local")
    assert np.ptp(theirs, axis=1).min() > 1e-3
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
