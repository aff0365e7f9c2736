"""Bets: the divisor against quadrature, and no bet on what the claim allows."""

import itertools

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.anytime import Bets, censored_bets, log_factors

CLAIMS = np.array([0.5, 3.0, 10.0, 40.0])
Z = np.linspace(-12, 37, 200_001)


def gains(bets: Bets, claim: int, bet: int, z: np.ndarray) -> np.ndarray:
    """log(1 + f) by its definition."""
    line = bets.shift[claim, bet] * (z - bets.start[claim, bet])
    return np.clip(line, 0, bets.log_cap[claim, bet])


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_divisors_are_the_largest_means_that_the_claim_allows(delta):
    bets = censored_bets(CLAIMS, delta)
    for claim, bet in itertools.product(range(len(CLAIMS)), range(bets.shift.shape[1])):
        cap = bets.log_cap[claim, bet]
        mean = np.trapz(np.expm1(gains(bets, claim, bet, Z)) * stats.norm.pdf(Z), Z)
        expected = 1 + np.exp(CLAIMS[claim]) * mean + delta * np.expm1(cap)
        assert np.exp(bets.log_divisor[claim, bet]) == pytest.approx(expected, rel=1e-4)


def test_the_stake_is_split_among_bets_that_may_gain():
    bets = censored_bets(CLAIMS, 1e-5)
    np.testing.assert_allclose(np.exp(bets.log_weight).sum(axis=1), 1)
    assert ((bets.log_cap > 0) == np.isfinite(bets.log_weight)).all()
    assert (bets.log_divisor[bets.log_cap == 0] <= 1e-11).all()


def test_sums_over_canaries_are_those_of_single_ones():
    bets = censored_bets(CLAIMS, 1e-4)
    z = np.random.default_rng(1).normal(3, 3, size=57)
    for claim, bet in itertools.product(range(len(CLAIMS)), range(bets.shift.shape[1])):
        expected = gains(bets, claim, bet, z).sum() - 57 * bets.log_divisor[claim, bet]
        assert log_factors(bets, z)[claim, bet] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_pure_privacy_bounds_products_over_dependent_canaries(epsilon):
    """The lemma of docs/live_verdict.md, exactly: a mechanism that ties three canaries together.

    Each canary holds a fair bit; the release is the majority of the bits of those included, a tie
    being a fair coin, and is flipped with probability 1 / (1 + e^epsilon). "Score high" is to agree
    with the release: half of excluded canaries do.
    """
    flip = 1 / (1 + np.exp(epsilon))
    for stake in (0.1, 1.0, 10.0):
        mean = 0.0
        for bits in itertools.product((0, 1), repeat=3):
            majority = int(sum(bits) >= 2)
            for released, chance in ((majority, 1 - flip), (1 - majority, flip)):
                agreeing = sum(bit == released for bit in bits)
                mean += chance * (1 + stake) ** agreeing / 8
        assert mean <= (1 + stake * np.exp(epsilon) / 2) ** 3
