"""Noise that participants add to their uploads, in JAX."""

import jax
import numpy as np
import pytest

from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.participation import Cohort
from tests.engines.jax.conftest import small_run, with_keys
from tests.engines.noised_uploads import (
    AT_CLIENTS,
    SEEN,
    assert_same_rounds,
    check_uploads,
    rounds,
)


@pytest.fixture(scope="module")
def run():
    return small_run(mechanism=AT_CLIENTS, audit=SEEN)


@pytest.fixture(scope="module")
def engine(run):
    return JaxEngine(with_keys(run, clients_per_block=2), jax.devices()[:1])


@pytest.fixture(scope="module")
def whole(run, engine):
    """The rounds of the run."""
    return rounds(run, engine)


def test_uploads_are_clipped_canaries_with_noise_of_their_own(run, whole):
    check_uploads(run, whole)


def test_the_aggregate_is_the_mean_of_the_uploads(run, engine):
    canaries = np.flatnonzero(run.included)[:3]
    cohort = Cohort(clients=np.zeros(0, np.int64), canaries=canaries)
    seen = engine.run_round(engine.begin(), engine.reader(run)(cohort, 0), 0).seen
    assert sorted(seen.uploads) == sorted(canaries)
    mean = sum(seen.uploads.values()) / run.schedule.expected_cohort
    np.testing.assert_allclose(seen.aggregate, mean, atol=1e-6)


def test_a_resumed_run_has_the_same_noise(run, engine, whole):
    """From the parts of a state after a round, as a checkpoint has them, bit for bit."""
    state = engine.from_leaves(engine.begin(), engine.leaves(whole[0][1].state))
    assert_same_rounds(whole[1:], rounds(run, engine, state, 1))


def test_every_run_draws_noise_of_its_own(run, engine, whole):
    data, first = whole[0]
    other = engine.run_round(engine.begin(), data, 0).seen.aggregate
    assert np.abs(other - first.seen.aggregate).max() > 0.01


def test_a_replay_says_why_it_is_not_made(run, engine):
    (finding,) = engine.replay(run)
    assert "clients draw noise from keys" in str(finding)
