"""The runtime `ray` against `local`, and against itself when actors and nodes are lost."""

import threading
import time

import msgspec
import numpy as np
import pytest

from fl_audit.config import RayCluster
from fl_audit.engines.engine import as_vector
from fl_audit.engines.runtimes import make_runtime
from fl_audit.errors import InputError
from tests.engines.jax.conftest import with_keys

pytest.importorskip("ray.util")
pytestmark = [pytest.mark.slow, pytest.mark.tff]

SAME = 1e-6


@pytest.fixture(scope="module")
def run(dense_run):
    """Five rounds of 40 clients: eleven shards each."""
    from fl_audit.config import Shuffle
    from fl_audit.engines.prepare import prepare

    rounds = Shuffle(rounds=5, clients_per_round=40)
    return prepare(msgspec.structs.replace(dense_run.config, participation=rounds))


def _with(run, runtime, block=1, **cluster):
    ray = RayCluster(**cluster) if cluster else None
    return with_keys(run, runtime=runtime, clients_per_block=block, ray=ray)


def _train(run, between_rounds=lambda index, runtime: None):
    """The model and the aggregates of all rounds."""
    runtime = make_runtime(run, worker_log=None)
    aggregates = []
    with runtime.session():
        state, read = runtime.begin(), runtime.reader(run)
        for index in range(run.schedule.num_rounds):
            between_rounds(index, runtime)
            trained = runtime.run_round(state, read(run.schedule.cohort(index), index), index)
            state = trained.state
            aggregates.append(trained.seen.aggregate)
    return as_vector(runtime.weights(state)), np.array(aggregates)


@pytest.fixture(scope="module")
def on_one(run):
    """The run on one actor, of a Ray that is started for it."""
    return _train(_with(run, "ray", actors=1))


def _assert_same_bits(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


def _assert_close(ours, theirs, run):
    start = as_vector(run.task.classifier.initial_weights)
    assert np.linalg.norm(ours[0] - theirs[0]) < SAME * np.linalg.norm(theirs[0] - start)
    np.testing.assert_allclose(ours[1], theirs[1], atol=SAME * np.abs(theirs[1]).max())


def test_as_local(run, on_one):
    _assert_close(on_one, _train(_with(run, "local")), run)


@pytest.mark.parametrize("actors", [2, 5])
def test_the_same_bits_on_any_number_of_actors(run, on_one, actors):
    _assert_same_bits(_train(_with(run, "ray", actors=actors)), on_one)


def test_an_actor_that_is_killed_costs_nothing_but_time(run, on_one):
    import ray

    def kill(index, runtime):
        if index == 2:
            actors = runtime.context.on_ray.actors
            threading.Timer(0.05, lambda: ray.kill(actors.all[0])).start()

    _assert_same_bits(_train(_with(run, "ray", actors=2), kill), on_one)


def test_a_node_that_is_killed_in_mid_round_costs_nothing_but_time(run, on_one, cluster, node_of):
    nodes = [node_of(2), node_of(1)]  # the first one's two actors merge among themselves

    def kill(index, runtime):
        if index == 2:
            _wait_until(lambda: len(runtime.context.on_ray.actors.all) == 3)
            lost = {"allow_graceful": False}
            other = _without_this_program(nodes)
            threading.Timer(0.05, cluster.remove_node, [other], lost).start()

    ours = _train(_with(run, "ray", address=cluster.address), kill)
    _assert_same_bits(ours, on_one)


def _without_this_program(nodes):
    """A node to which this program is not attached: Ray attaches it to any of the machine's nodes.

    With its own node a program ends, and pytest with it, without a word.
    """
    import ray

    own = ray.get_runtime_context().get_node_id()
    return next(node for node in nodes if node.node_id != own)


def test_without_room_the_run_ends_and_says_so(run, cluster, node_of):
    node_of(1)
    asked = _with(run, "ray", address=cluster.address, cpus_per_actor=3, wait_seconds=1.0)
    with pytest.raises(InputError, match=r"^ray: no actor is left \(0 lost, 1 not sta"):
        _train(asked)


@pytest.mark.parametrize(
    ("policy", "message"), [("stop", "an actor was lost"), ("do_without", "no")]
)
def test_a_loss_may_end_the_run(run, policy, message):
    import ray

    def kill(index, runtime):
        if index == 1:
            ray.kill(runtime.context.on_ray.actors.all[0])

    with pytest.raises(InputError, match=rf"^ray: {message}[^\n]*--resume continues"):
        _train(_with(run, "ray", actors=1, lost_actors=policy), kill)


def test_what_an_actor_cannot_read_is_told_in_one_line(run, next_word_run, tmp_path):
    gone = msgspec.structs.replace(next_word_run.config.task, path=str(tmp_path / "gone.csv"))
    asked = _with(with_keys(next_word_run, task=gone), "ray", actors=1)
    with pytest.raises(InputError, match=r"gone\.csv"):
        _train(asked)


def _wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
