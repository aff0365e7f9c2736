"""The anytime bound: what its bets are worth, coverage over rounds, and power."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import log_ndtr, logsumexp, ndtri

from fl_audit.estimators.anytime import (
    AnytimeBound,
    Bets,
    _shift_of_release,
    censored_bets,
    deviates,
)

CLAIMS = np.array([0.5, 3.0, 10.0, 40.0])
Z = np.linspace(-12, 37, 200_001)
DENSITY = stats.norm.pdf(Z)


def gains(bets: Bets, claim: int, bet: int, z: np.ndarray) -> np.ndarray:
    """log(1 + f) by its definition."""
    line = bets.shift[claim, bet] * (z - bets.start[claim, bet])
    return np.clip(line, 0, bets.log_cap[claim, bet])


@pytest.mark.parametrize("delta", [0.0, 1e-2])
def test_divisors_are_the_largest_means_that_the_claim_allows(delta):
    bets = censored_bets(CLAIMS, delta)
    for claim, bet in itertools.product(range(len(CLAIMS)), range(bets.shift.shape[1])):
        cap = bets.log_cap[claim, bet]
        mean = integrate.trapezoid(np.expm1(gains(bets, claim, bet, Z)) * DENSITY, Z)
        expected = 1 + np.exp(CLAIMS[claim]) * mean + delta * np.expm1(cap)
        assert np.exp(bets.log_divisor[claim, bet]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("delta", [0.0, 1e-250, 1e-5])
def test_divisors_against_large_claims_are_the_means_to_rounding(delta):
    """E f(N) is the integral over v from 0 to the log of the cap of e^v P(log(1 + f(N)) > v)."""
    claims = AnytimeBound(delta).claims[::5]
    bets = censored_bets(claims, delta)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    parts = np.arange(200)
    share = ((parts[:, None] + (1 + nodes) / 2) / 200).ravel()
    v = bets.log_cap[..., None] * share
    log_tail = log_ndtr(-bets.start[..., None] - v / bets.shift[..., None])
    with np.errstate(divide="ignore"):  # a bet that the claim allows has no cap
        log_weights = np.log(np.tile(weights / 400, 200)) + np.log(bets.log_cap)[..., None]
    log_mean = logsumexp(v + log_tail + log_weights, axis=-1)
    expected = np.log1p(np.exp(claims[:, None] + log_mean) + delta * np.expm1(bets.log_cap))
    np.testing.assert_allclose(bets.log_divisor, expected, rtol=0, atol=2e-12)


# The bound over rounds: coverage where the mechanism is exactly as claimed, and its power.


def worst_case(random, epsilon, delta, shape):
    """The law with P(z >= t) = min(1, e^epsilon Phi(-t) + delta): all that the claim allows."""
    tail = random.random(shape)
    null = np.maximum(tail - delta, 0) * math.exp(-epsilon)
    with np.errstate(divide="ignore"):
        return np.minimum(-ndtri(null), 100)


def gaussian_release(random, epsilon, delta, shape):
    """Deviates of included canaries if a Gaussian release is exactly (epsilon, delta)-private."""
    return random.normal(size=shape) + float(_shift_of_release(np.array([[epsilon]]), delta)[0, 0])


def largest_wealth(z, epsilon, delta, num_rounds):
    """Log of the largest wealth after any round, of shape (runs,); z of shape (runs, canaries)."""
    bets = censored_bets(np.array([epsilon]), delta)
    wealth = np.full(z.shape, -np.inf)
    for shift, start, cap, divisor, weight in zip(
        *(a[0] for a in vars(bets).values()), strict=True
    ):
        products = np.cumsum(np.clip(shift * (z - start), 0, cap) - divisor, axis=1)
        wealth = np.logaddexp(wealth, products + weight)
    canaries = z.shape[1]
    ends = np.unique(np.ceil(np.arange(1, num_rounds + 1) * canaries / num_rounds)).astype(int)
    return wealth[:, ends - 1].max(axis=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("distribution", [worst_case, gaussian_release])
@pytest.mark.parametrize(
    "epsilon", [0.5, 5.0, *(pytest.param(e, marks=pytest.mark.slow) for e in (2.0, 16.0))]
)
@pytest.mark.parametrize(("canaries", "runs"), [(25, 2000), (250, 400), (1000, 150)])
def test_true_claims_stand_at_all_rounds_together(distribution, epsilon, canaries, runs):
    """A test has a false alarm in at most 5 % of runs: above the limit with probability 1e-6."""
    random = np.random.default_rng(canaries)
    for delta in (1e-3, 1e-5):
        z = distribution(random, epsilon, delta, (runs, canaries))
        for num_rounds in (1, 100, 2000):
            alarms = int((largest_wealth(z, epsilon, delta, num_rounds) >= math.log(20)).sum())
            assert alarms <= stats.binom.isf(1e-6, runs, 0.05)


def test_the_class_has_the_wealth_of_the_definition():
    """The p-value is 1 over the largest wealth, which the simulation above computes on its own."""
    z = np.random.default_rng(2).normal(2.5, 1, size=60)
    bound = AnytimeBound(1e-4, claim=4.0)
    for canaries in np.split(z, 20):
        bound.add_round(log_ndtr(-canaries))
    wealth = largest_wealth(z[None, :], 4.0, 1e-4, 20)[0]
    assert bound.p_value(4.0) == pytest.approx(math.exp(-wealth), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_what_is_proven_grows_and_stays_below_the_truth(delta):
    """30 rounds of 10 canaries at three shifts; a bound exceeds the truth in 5 % of runs."""
    random = np.random.default_rng(3)
    for epsilon, at_least in ((4.0, 0.8), (6.0, 2.5), (15.0, 6.0)):
        shown, above = [], 0
        for _ in range(20):
            bound, last = AnytimeBound(delta), 0.0
            for _ in range(30):
                bound.add_round(log_ndtr(-gaussian_release(random, epsilon, delta, 10)))
                assert bound.epsilon(0.95) >= last
                last = bound.epsilon(0.95)
            shown.append(last)
            above += last > epsilon
        assert above <= stats.binom.isf(1e-6, 20, 0.05)
        assert np.median(shown) > at_least


def test_a_claim_is_tested_apart_from_smaller_ones():
    bound = AnytimeBound(1e-5, claim=4.123)
    assert bound.epsilon(0.95, at_least=4.123) == 0
    for _ in range(30):
        bound.add_round(np.full(3, -40.0))
    assert bound.p_value(4.123) < 1e-9
    assert bound.epsilon(0.95, at_least=4.123) >= 4.123
    assert bound.epsilon(0.95) == bound.epsilon(0.95, at_least=4.123)


def test_rounds_without_trace_or_canaries_prove_nothing_and_extremes_are_finite():
    bound = AnytimeBound(1e-5, claim=1.0)
    bound.add_round(np.zeros(0))
    assert bound.p_value(1.0) == pytest.approx(1, rel=1e-14)  # a mean of twelve ones
    bound.add_round(np.zeros(50))
    assert bound.p_value(1.0) == pytest.approx(1, rel=1e-14)
    assert bound.epsilon(0.95) == 0
    bound.add_round(np.full(50, -np.inf))
    assert bound.epsilon(0.95) == bound.claims[-1]
    np.testing.assert_allclose(deviates(log_ndtr([-1.0, -30.0])), [1.0, 30.0], rtol=1e-8)
    assert (deviates(log_ndtr([-1.0, -30.0])) < [1.0, 30.0]).all()
