"""Noise at the client: what single uploads and sums of uploads give away.

Everything is held against closed forms, so that nothing here is random, but for one simulated
deviation whose failure probability is stated there.
"""

import dataclasses
import math

import numpy as np
import pytest

from fl_audit.account import Source, accounted
from fl_audit.accounting import (
    Denominator,
    FixedRounds,
    Noise,
    Party,
    PoissonSampling,
    Release,
    UnknownRounds,
    account,
    attacker_bounds,
    effective_noise_multiplier,
    noise_on_sum,
    of_uploads,
)
from fl_audit.accounting.upper_bounds import Attacker
from tests.gaussian_profile import delta_of_mu

DELTA = 1e-4
Z = 0.8


def noise(multiplier=Z, distribution="client_gaussian"):
    return Noise(distribution, multiplier, effective_noise_multiplier(multiplier, 0.0))


def release(client, canary=None, rounds=12, multiplier=Z):
    return Release(
        rounds=rounds,
        noise=noise(multiplier),
        denominator=Denominator("expected_cohort", 20.0),
        client=client,
        canary=canary or client,
        fewest=10,
    )


@pytest.mark.parametrize(
    ("uploads", "sensitivity"), [(1, 1.0), (1, 2.0), (4, 1.0)], ids=["one", "replaced", "four"]
)
def test_an_upload_is_a_gaussian_mechanism(uploads, sensitivity):
    bound = of_uploads(Z, uploads, DELTA, sensitivity=sensitivity)
    shift = sensitivity * math.sqrt(uploads) / Z
    assert bound.pair.shift == pytest.approx(shift)
    epsilon = bound.guarantee.epsilon
    assert delta_of_mu(shift, epsilon) == pytest.approx(DELTA, rel=1e-5)


def test_a_sum_of_uploads_is_noised_by_the_root_of_their_number():
    counts = np.array([1.0, 4.0, 30.0])
    assert noise_on_sum(noise(), counts) == pytest.approx(Z * np.sqrt(counts))
    assert noise_on_sum(noise(distribution="gaussian"), counts) == pytest.approx([Z] * 3)
    drawn = np.random.default_rng(5).normal(0, Z, (200_000, 4)).sum(axis=1)
    # The standard error of the deviation is 0.16 %; 1 % is six of them (2e-9).
    assert float(noise_on_sum(noise(), 4)) == pytest.approx(drawn.std(), rel=0.01)


def test_aggregates_are_accounted_at_the_cohorts_they_had():
    """Rounds of 10 and 40 participants are Gaussian mechanisms of multipliers z sqrt(n)."""
    party = Party(FixedRounds(2), squared_sensitivity=1 / 10 + 1 / 40)
    made = release(party)
    shifts = [1 / (Z * math.sqrt(n)) for n in (10, 40)]
    shift = math.hypot(*shifts)  # two independent Gaussian coordinates
    epsilon = account(made, DELTA).client.epsilon
    assert delta_of_mu(shift, epsilon) == pytest.approx(DELTA, rel=1e-5)
    bounds = attacker_bounds(made, party, DELTA)
    assert bounds.knowing_rounds.guarantee.epsilon == epsilon
    assert bounds.not_knowing_rounds.guarantee.epsilon == epsilon
    assert bounds.seeing_uploads.pair.shift == pytest.approx(math.sqrt(2) / Z)
    assert bounds.seeing_uploads.guarantee.epsilon > epsilon


def test_secret_rounds_are_not_counted_on():
    """Every round may be one of the party's: nothing is gained from the draw."""
    party = Party(PoissonSampling(0.1), squared_sensitivity=12 / 20)
    bounds = attacker_bounds(release(party), party, DELTA)
    assert bounds.knowing_rounds.pair.shift == pytest.approx(math.sqrt(12 / 20) / Z)
    assert bounds.seeing_uploads.pair.shift == pytest.approx(math.sqrt(12) / Z)


def test_who_is_in_no_round_gives_nothing_away():
    party = Party(FixedRounds(0), squared_sensitivity=0.0)
    bounds = attacker_bounds(release(party), party, DELTA)
    assert bounds.knowing_rounds.guarantee.epsilon == pytest.approx(0, abs=1e-6)
    assert bounds.seeing_uploads.guarantee.epsilon == pytest.approx(0, abs=1e-6)


def test_without_noise_nothing_is_guaranteed():
    party = Party(FixedRounds(1), squared_sensitivity=0.05)
    made = release(party, multiplier=0.0)
    assert account(made, DELTA).client.epsilon == math.inf
    bounds = attacker_bounds(made, party, DELTA)
    assert of_uploads(0.0, 1, DELTA).guarantee.epsilon == math.inf
    assert bounds.seeing_uploads.guarantee.epsilon == math.inf
    assert bounds.knowing_rounds.pair.shift == math.inf


@pytest.mark.parametrize(
    ("uploading", "bound"),
    [
        (FixedRounds(40), of_uploads(Z, 40, DELTA).guarantee.epsilon),
        (FixedRounds(3), of_uploads(Z, 3, DELTA).guarantee.epsilon),
        (UnknownRounds(), None),
    ],
)
def test_uploads_may_differ_where_rounds_are_the_same(uploading, bound):
    alike = Party(FixedRounds(40))
    made = dataclasses.replace(release(alike, rounds=40), noise=noise(distribution="gaussian"))
    uploads = release(Party(uploading), Party(FixedRounds(3)), rounds=40)
    record = accounted(Source("a log", made, DELTA, uploads))
    both = record.bounds[Attacker.SEES_UPLOADS]
    of_canary = of_uploads(Z, 3, DELTA).guarantee.epsilon
    assert [one.guarantee.epsilon for one in both] == [bound, of_canary]
    assert record.is_alike == (bound == of_canary)
    assert len(both[0].full.found) == (0 if bound is None else 3)


def test_a_server_that_adds_noise_protects_no_upload():
    party = Party(FixedRounds(1))
    made = Release(
        rounds=3,
        noise=noise(distribution="gaussian"),
        denominator=Denominator("expected_cohort", 20.0),
        client=party,
        canary=party,
    )
    assert attacker_bounds(made, party, DELTA).seeing_uploads is None
