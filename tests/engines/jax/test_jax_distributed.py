"""Runs in JAX whose clients add Skellam noise to integers, and their audit."""

import dataclasses
import importlib
import json

import jax
import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.mechanisms.distributed import Distributed
from fl_audit.participation import Cohort
from tests.engines.jax.conftest import small_run, train, with_keys

SKELLAM = Distributed(noise_multiplier=0.01)


@pytest.fixture(scope="module")
def run():
    return small_run(mechanism=SKELLAM)


def keys(index):
    return np.array([7, 7, 7, index], np.uint32)


def engine_on(run, count):
    devices = jax.devices()[:count]
    return JaxEngine(with_keys(run, clients_per_block=2), devices, noise_keys=keys)


@pytest.fixture(scope="module")
def engine(run):
    return engine_on(run, 1)


@pytest.fixture(scope="module")
def rounds(run, engine):
    return train(run, engine)[0]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_any_number_of_devices_gives_the_same_bits(run, rounds, count):
    """Sums of integers are exact, and noise follows from participants' places in the cohort."""
    for ours, theirs in zip(train(run, engine_on(run, count))[0], rounds, strict=True):
        np.testing.assert_array_equal(ours.seen.aggregate, theirs.seen.aggregate)
        np.testing.assert_array_equal(ours.seen.after, theirs.seen.after)
        assert ours.seen.clip_norm == theirs.seen.clip_norm


def test_what_is_told_of_rounds(run, rounds):
    assert rounds[0].seen.clip_norm == np.float32(0.1)
    assert len({trained.seen.clip_norm for trained in rounds}) == 5
    for trained in rounds:
        stddev = run.noise.sum_noise_multiplier * trained.seen.clip_norm
        assert trained.noise_stddev == pytest.approx(stddev)
        assert not trained.seen.uploads


def test_a_checkpoint_holds_no_noise_and_no_key(run, engine, rounds):
    """A round's key is drawn when the round begins: the state has model, optimizer and norms."""
    leaves = engine.leaves(rounds[2].state)
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    sizes = [array.size for array in run.task.classifier.initial_weights]
    assert sum(leaf.size for leaf in leaves) == 2 * sum(sizes) + 2
    state = engine.from_leaves(engine.begin(), leaves)
    again = engine.run_round(state, engine.reader(run)(run.schedule.cohort(3), 3), 3)
    np.testing.assert_array_equal(again.seen.after, rounds[3].seen.after)


def test_every_round_draws_noise_by_its_key(run, engine, rounds):
    data = engine.reader(run)(run.schedule.cohort(0), 0)
    other = engine.run_round(engine.begin(), data, 1).seen.aggregate
    difference = other - rounds[0].seen.aggregate
    shares = len(data.clients) + len(data.canaries)
    of_one = 0.1 * run.noise.sum_noise_multiplier / run.schedule.expected_cohort**0.5
    # 1,210 differences: five standard errors of a standard deviation are 10 % (a chance of 6e-7).
    assert np.std(difference) == pytest.approx(of_one * (2 / shares) ** 0.5, rel=0.1)


def test_a_canary_arrives_at_the_clip_norm(run, engine):
    """Alone, up to its noise, one of the cohort's shares."""
    canary = np.flatnonzero(run.included)[:1]
    cohort = Cohort(clients=np.zeros(0, np.int64), canaries=canary)
    seen = engine.run_round(engine.begin(), engine.reader(run)(cohort, 0), 0).seen
    expected = 0.1 * run.family.vector(int(canary[0]))
    stddev = 0.1 * run.noise.sum_noise_multiplier / run.schedule.expected_cohort**0.5
    error = seen.aggregate - expected
    assert abs(error @ expected) / 0.1 < 5 * stddev < 0.003
    assert np.linalg.norm(error) < 1.2 * stddev * run.family.dim**0.5


def test_a_replay_says_why_it_is_not_made(run, engine):
    (finding,) = engine.replay(run)
    assert "clients draw shares of the noise" in str(finding)


AUDITED = """
runtime = "jax"
seed = 4
[task]
kind = "digits"
num_clients = 400
hidden = [256]
[mechanism]
kind = "distributed"
noise_multiplier = 0.8
clip_norm = 0.3
[participation]
kind = "shuffle"
rounds = 40
clients_per_round = 10
[canaries]
count = 800
[audit]
claimed_epsilon = 5.5
claimed_delta = 1e-3
"""


def report_of(tmp_path):
    path, out = tmp_path / "config.toml", tmp_path / "run"
    path.write_text(AUDITED)
    start_run(load_config(path), out)
    return json.loads((out / "report.json").read_text())


@pytest.mark.slow
def test_an_audited_run_holds_its_accounted_noise(tmp_path):
    """Its claim is what accounting says of the noise, rounded up."""
    report = report_of(tmp_path)
    assert report["run"]["runtime"].startswith("jax, on ")
    assert 5.4 < report["analytical"]["client"]["epsilon"] < 5.5
    assert "discrete noise" in report["checks"]["not_checked"]
    assert report["checks"]["passed"]
    assert report["arrival"]["state"] == "arrived"
    assert report["verdict"]["outcome"] != "contradicted"


@pytest.mark.slow
def test_half_the_noise_is_contradicted(tmp_path, monkeypatch):
    """Six such runs had p-values of 2e-12 for the claim's curve."""
    used = importlib.import_module(JaxEngine.__module__)  # as a runtime finds it
    made, halved = used.aggregation_of, []

    def half(*arguments):
        right = made(*arguments)
        noise = dataclasses.replace(
            right.noise, sum_noise_multiplier=right.noise.sum_noise_multiplier / 2
        )
        halved.append(noise.sum_noise_multiplier)
        return dataclasses.replace(right, noise=noise)

    monkeypatch.setattr(used, "aggregation_of", half)
    report = report_of(tmp_path)
    assert halved == [0.4]
    assert report["arrival"]["state"] == "arrived"
    assert report["verdict"]["outcome"] == "contradicted", report["verdict"]
