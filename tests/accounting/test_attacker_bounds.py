"""Bounds by what an attacker knows of rounds, for every participation pattern."""

import math
import types

import numpy as np
import pytest

from fl_audit.accounting import (
    AccountedEpsilon,
    AttackerBound,
    FixedRounds,
    FixedSizeSampling,
    GaussianPair,
    Guarantee,
    MinSeparationSampling,
    OneRoundPerBlock,
    PoissonSampling,
    Sampling,
    TruncatedPoissonSampling,
    UnknownRounds,
    account,
    attacker_bounds,
    canaries_to_prove,
    reachable_bound,
)
from fl_audit.accounting.privacy_curve import full_guarantee
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.estimators.optimal_tests import OptimalTests, reachable_epsilon
from tests.accounting.releases import release
from tests.gaussian_profile import epsilon_of_mu

DELTA = 1e-3
ONCE, TWICE = OneRoundPerBlock(1, ((100, 1),)), OneRoundPerBlock(2, ((50, 2),))
POISSON, FIXED_SIZE = PoissonSampling(1 / 15), FixedSizeSampling(20, 300)


def bounds(sampling: Sampling, noise: float = 0.3, **facts):
    made = release(noise, sampling, **facts)
    return attacker_bounds(made, made.canary, DELTA)


def epsilons(sampling: Sampling, noise: float = 0.3, **facts):
    found = bounds(sampling, noise, **facts)
    return (
        found.knowing_rounds.guarantee.epsilon,
        found.not_knowing_rounds.guarantee.epsilon,
    )


# The quickstart: 15.2 to whoever knows the round, less the log of 100 to whoever does not.
def test_an_unknown_round_of_many_hides_a_canary():
    known, unknown = epsilons(ONCE)
    assert known == pytest.approx(15.153, abs=1e-3)
    assert unknown == pytest.approx(known - math.log(100), abs=1e-3)


def test_several_blocks_compose():
    known, unknown = epsilons(TWICE)
    assert known == pytest.approx(24.913, abs=1e-3)
    assert unknown == pytest.approx(known - 2 * math.log(50), abs=0.1)


@pytest.mark.parametrize(
    ("sampling", "facts"),
    [
        (FixedRounds(5), {}),  # replay, every round, last rounds
        (OneRoundPerBlock(5, ((1, 5),)), {}),
        (ONCE, {"noise": 0.02}),
        (FixedRounds(1), {"distribution": "tree", "canary_squared": 7}),
        (ONCE, {"distribution": "tree", "canary_squared": 7}),
    ],
)
def test_without_a_proof_the_bound_is_that_of_known_rounds(sampling, facts):
    known, unknown = epsilons(sampling, **facts)
    assert known is not None
    assert known == unknown


@pytest.mark.parametrize("sampling", [POISSON, FIXED_SIZE])
def test_an_attacker_who_knows_the_rounds_faces_no_sampling(sampling):
    known, unknown = epsilons(sampling)
    assert known == pytest.approx(96.70, abs=0.01)
    assert unknown <= known
    if sampling is POISSON:
        assert unknown < 0.7 * known


def test_sampling_everybody_is_every_round():
    assert epsilons(PoissonSampling(1.0)) == epsilons(FixedRounds(100))


def test_no_noise_guarantees_nothing_and_hides_nothing():
    found = bounds(FixedRounds(1), 0.0)
    for bound in (found.knowing_rounds, found.not_knowing_rounds):
        assert bound.guarantee.epsilon == math.inf
        reachable = reachable_bound(bound, 10, 1e-3, 0.95)
        assert reachable is not None
        assert reachable.epsilon == math.inf


STRATEGY = Toeplitz.from_column(sqrt_column(8), 100)
UNDER_MATRIX = {"distribution": "matrix", "correlation": STRATEGY}
SQUARED = STRATEGY.min_separation(100, 1)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"zeroing": "adaptive"},
        {"distribution": "skellam"},
        {"distribution": "client_gaussian"},
        {"distribution": "tree"},
        UNDER_MATRIX,
        UNDER_MATRIX | {"client_squared": SQUARED, "canary_squared": SQUARED},
    ],
)
@pytest.mark.parametrize(
    "sampling", [POISSON, FIXED_SIZE, MinSeparationSampling(0.9, 10, 100), UnknownRounds(), ONCE]
)
def test_no_noise_is_an_infinite_bound_against_everybody(sampling, facts):
    made = release(0.0, sampling, **facts)
    found = attacker_bounds(made, made.canary, DELTA)
    against = [found.knowing_rounds, found.not_knowing_rounds, found.seeing_uploads]
    assert {bound.guarantee.epsilon for bound in against if bound} == {math.inf}
    assert account(made, DELTA).epsilon == math.inf


@pytest.mark.parametrize("sampling", [POISSON, FIXED_SIZE, TruncatedPoissonSampling(0.1, 300, 40)])
def test_correlated_noise_takes_away_what_independent_rounds_give(sampling):
    """All rounds are one Gaussian release, whose sensitivity is that of a party in every round."""
    facts = UNDER_MATRIX | {"client_squared": SQUARED, "canary_squared": SQUARED}
    made = release(10.0, sampling, **facts)
    truth = epsilon_of_mu(math.sqrt(SQUARED) / 10, DELTA)
    assert epsilons(sampling, 10.0, **facts) == pytest.approx((truth, truth), rel=1e-9)
    assert account(made, DELTA).epsilon == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    "facts", [{"distribution": "skellam"}, {"zeroing": "adaptive"}, {"distribution": "tree"}]
)
def test_where_nothing_is_guaranteed_nothing_is_provable(facts):
    found = bounds(ONCE, **facts)
    for bound in (found.knowing_rounds, found.not_knowing_rounds):
        assert bound.guarantee.epsilon is None
        assert reachable_bound(bound, 250, 1e-3, 0.95) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("sampling", [ONCE, TWICE, POISSON, FIXED_SIZE])
def test_more_canaries_prove_more_and_never_more_than_the_guarantee(sampling, knows):
    bound = bounds(sampling).against(knows)
    limit = bound.guarantee.epsilon
    found = [reachable_bound(bound, count, 1e-3, 0.95).epsilon for count in (10, 100, 10**4, 10**7)]
    assert found == sorted(found)
    assert found[0] < 0.9 * limit
    assert 0.97 * limit < found[-1] <= limit


def test_the_canaries_that_reach_a_share_reach_it():
    bound = bounds(ONCE).knowing_rounds
    assert isinstance(bound.pair, GaussianPair)
    count = canaries_to_prove(bound, 0.8, 1e-3, 0.95)
    assert count is not None
    limit = bound.guarantee.epsilon
    assert reachable_bound(bound, count // 2, 1e-3, 0.95).epsilon >= 0.8 * limit
    assert reachable_bound(bound, int(0.9 * count) // 2, 1e-3, 0.95).epsilon < 0.8 * limit


@pytest.mark.parametrize(("included", "is_found"), [(42_000_000, True), (60_000_000, False)])
def test_a_hundred_million_canaries_are_tried(included, is_found):
    one = OptimalTests(*(np.array([number]) for number in (-3.0, 0.5, 0.5, 0.5)))
    limit = 2 * reachable_epsilon(one, included, DELTA, 0.95)
    guarantee = Guarantee(1, (AccountedEpsilon("exact", limit),))
    bound = AttackerBound(guarantee, types.SimpleNamespace(optimal_tests=lambda: one))
    count = canaries_to_prove(bound, 0.5, DELTA, 0.95)
    assert count == (pytest.approx(2 * included, rel=0.01) if is_found else None)


@pytest.mark.slow
def test_coins_with_rests_have_the_better_pair_at_every_delta():
    """Epsilon does not grow with delta, and is at most that of known rounds at each."""
    made = release(1.0, MinSeparationSampling(0.9, 10, 100))
    found = attacker_bounds(made, made.canary, 1e-5)
    secret, known = (
        full_guarantee(made, made.canary, found, 1e-5, knows_rounds).profile
        for knows_rounds in (False, True)
    )
    epsilons = [point.epsilon for point in secret]
    assert epsilons == sorted(epsilons)
    assert all(s.epsilon <= k.epsilon + 1e-6 for s, k in zip(secret, known, strict=True))
