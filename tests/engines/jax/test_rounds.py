"""Rounds in JAX: what they depend on, and what they do not."""

import inspect

import jax
import numpy as np
import pytest

from fl_audit.config import RayCluster
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.runtimes import make_runtime
from fl_audit.errors import InputError
from fl_audit.mechanisms.independent import GaussianAdaptive
from fl_audit.participation import Cohort
from tests.engines.jax.conftest import small_run, train, with_keys
from tests.mechanisms.doubled_noise import DoubledNoise, doubled_noise


@pytest.fixture(scope="module")
def engine(run):
    return JaxEngine(with_keys(run, clients_per_block=2), jax.devices()[:2])


@pytest.fixture(scope="module")
def rounds(run, engine):
    return train(run, engine)[0]


@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_the_same_bits_on_one_two_and_four_devices(run, rounds, count):
    engine = JaxEngine(with_keys(run, clients_per_block=2), jax.devices()[:count])
    for ours, theirs in zip(train(run, engine)[0], rounds, strict=True):
        np.testing.assert_array_equal(ours.seen.aggregate, theirs.seen.aggregate)
        np.testing.assert_array_equal(ours.seen.after, theirs.seen.after)
        assert ours.seen.clip_norm == theirs.seen.clip_norm


def test_each_function_is_compiled_once(run, engine, rounds):
    """Clients have from 1 to 6 batches, and cohorts leave up to three of four places empty."""
    for count in range(1, 5):
        clients, canaries = np.arange(3, 3 + count), np.flatnonzero(run.included)[:count]
        cohort = Cohort(clients=clients, canaries=canaries)
        engine.run_round(rounds[0].state, engine.reader(run)(cohort, 0), 0)
    blocks = engine._blocks
    for function in (blocks._begin, blocks._steps, blocks._end, blocks._vectors, blocks._add):
        assert function._cache_size() == 1, function
    assert engine._finish._cache_size() == 1
    evaluator = engine.evaluator(run)
    evaluator(engine.weights(rounds[0].state))  # on 297 examples, 64 at a time
    assert inspect.getclosurevars(evaluator).nonlocals["count"]._cache_size() == 1


def test_a_round_that_nobody_comes_to_changes_nothing(run, engine):
    nobody = Cohort(clients=np.zeros(0, np.int64), canaries=np.zeros(0, np.int64))
    trained = engine.run_round(engine.begin(), engine.reader(run)(nobody, 0), 0)
    np.testing.assert_array_equal(trained.seen.after, trained.seen.before)
    assert not trained.seen.aggregate.any()
    assert trained.train_loss == 0


def test_a_canary_arrives_at_the_length_of_a_clipped_client(run, engine):
    canary = np.flatnonzero(run.included)[:1]
    cohort = Cohort(clients=np.zeros(0, np.int64), canaries=canary)
    trained = engine.run_round(engine.begin(), engine.reader(run)(cohort, 0), 0)
    length = trained.seen.clip_norm / run.schedule.expected_cohort
    expected = run.family.vector(int(canary[0])) * length
    np.testing.assert_allclose(trained.seen.aggregate, expected, atol=1e-7)


@pytest.fixture(scope="module")
def noised():
    """The run with noise, and its engine; four devices take a replay's updates side by side."""
    run = small_run(mechanism=GaussianAdaptive(noise_multiplier=0.5, clip_norm=0.3))
    return run, JaxEngine(run)


def test_noise_has_the_stated_deviation_and_is_new_each_time(noised):
    run, engine = noised
    nobody = Cohort(clients=np.zeros(0, np.int64), canaries=np.zeros(0, np.int64))
    data = engine.reader(run)(nobody, 0)
    first, second = (engine.run_round(engine.begin(), data, 0) for _ in range(2))
    stddev = first.noise_stddev / run.schedule.expected_cohort
    assert first.noise_stddev == pytest.approx(0.3 * run.noise.sum_noise_multiplier, rel=1e-6)
    # 1,210 draws: five standard errors of a standard deviation are 10 % (a chance of 6e-7), and
    # the correlation of two rounds is within 5 / sqrt(1,210).
    assert np.std(first.seen.aggregate) == pytest.approx(stddev, rel=0.1)
    together = np.corrcoef(first.seen.aggregate, second.seen.aggregate)[0, 1]
    assert abs(together) < 5 / np.sqrt(1210)


def test_what_it_does_not_have_is_one_line(run):
    toy = with_keys(run, mechanism=DoubledNoise(noise_multiplier=1.0))
    message = r"^mechanism.kind: 'doubled_noise' is not for runtime 'jax', which cannot"
    with doubled_noise(), pytest.raises(InputError, match=message):
        JaxEngine(toy)


def test_a_cluster_of_ray_is_refused(run):
    for runtime in ("jax", "auto"):
        changed = with_keys(run, runtime=runtime, ray=RayCluster(gpus_per_actor=1))
        with pytest.raises(InputError, match=rf"must be 'ray' for \[ray\] .*, is '{runtime}'"):
            make_runtime(changed, worker_log=None)


def test_the_evaluator_counts_what_is_predicted(run, engine, rounds):
    weights = engine.weights(rounds[-1].state)
    held_out = run.task.held_out
    hidden = np.maximum(held_out.inputs @ weights[0] + weights[1], 0)
    predicted = (hidden @ weights[2] + weights[3]).argmax(axis=1)
    expected = np.mean(predicted == held_out.labels)
    assert engine.evaluator(run)(weights) == pytest.approx(expected, abs=1e-9)


def test_the_first_round_is_replayed(noised, monkeypatch):
    run, engine = noised
    findings = engine.replay(run)
    assert not any(finding.failed for finding in findings), "\n".join(map(str, findings))
    assert {finding.name for finding in findings if finding.is_conclusive} >= {
        "repeatable",
        "one_client",
        "clip",
        "denominator",
        "clip_count",
        "clip_update",
        "count_noise",
        "clip_next",
        "clip_noise",
    }
    clipped = engine._blocks.sum_of

    def unclipped(weights, norms, *participants):
        return clipped(weights, norms._replace(clip=np.float32(np.inf)), *participants)

    monkeypatch.setattr(engine._blocks, "sum_of", unclipped)
    assert "clip" in {finding.name for finding in engine.replay(run) if finding.failed}
