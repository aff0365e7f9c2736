"""Right guesses under f-DP: against exact laws, and what it must be able to reject."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from fl_audit.estimators import AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.f_dp import gaussian_trade_off, one_run_fdp, rejects


def mu_rejected(mu, m, r, v, alpha):
    return rejects(gaussian_trade_off(mu), m, r, v, alpha)


MUS = (0.0, 0.3, 1.0, 2.0, 5.0)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 100])
def test_never_rejects_what_independent_gaussian_releases_do(m):
    """m releases of bit * mu + N(0, 1), each guessed by the middle: right guesses are binomial."""
    for mu in MUS:
        for alpha in (1e-9, 1e-3, 0.05, 0.3):
            for v in range(m + 1):
                if mu_rejected(mu, m, m, v, alpha):
                    assert stats.binom.sf(v - 1, m, stats.norm.cdf(mu / 2)) <= alpha


def largest_tail(mu: float, m: int, r: int, v: int) -> float:
    """The largest P(at least v right) that the constraints of all tails allow: a linear program.

    Over p_0, ..., p_r: R_i <= 1 - f(H_{i-1}) by tangents of the concave right side.
    """
    points = np.concatenate([np.geomspace(1e-7, 0.5, 400), 1 - np.geomspace(1e-7, 0.5, 400)])
    values = stats.norm.cdf(stats.norm.ppf(points) + mu)
    slopes = stats.norm.pdf(stats.norm.ppf(points) + mu) / stats.norm.pdf(stats.norm.ppf(points))
    k = np.arange(r + 1)
    rows, limits = [], []
    for i in range(1, r + 1):
        right = np.where(k >= i, k / m, 0.0)
        wrong = np.where(k >= i - 1, (r - k) / m, 0.0)
        rows += [right - slope * wrong for slope in slopes]
        limits += list(values - slopes * points)
    made = optimize.linprog(
        -(k >= v).astype(float), A_ub=rows, b_ub=limits, A_eq=[np.ones(r + 1)], b_eq=[1]
    )
    return -made.fun


@pytest.mark.parametrize(("m", "r"), [(3, 3), (6, 6), (6, 4), (10, 3)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_the_recursion_solves_the_linear_program(m, r, mu):
    for v in range(1, r + 1):
        tail = largest_tail(mu, m, r, v)
        if tail < 0.999:
            # The tangents touch the trade-off curve to about 1e-4.
            assert mu_rejected(mu, m, r, v, tail * 1.002 + 1e-6)
        assert not mu_rejected(mu, m, r, v, tail * 0.998 - 1e-6 if tail > 2e-6 else 1e-9)


def test_at_mu_0_it_is_not_below_the_binomial_tail():
    # f-DP with mu = 0 lets nothing be seen: right guesses are Binomial(r, 1/2).
    assert mu_rejected(0.0, 100, 100, 75, 0.05)
    assert not mu_rejected(0.0, 100, 100, 55, stats.binom.sf(54, 100, 0.5))


def test_a_mechanism_that_rarely_tells_all_is_the_reason_for_its_looseness():
    """Mixtures are mu-GDP too: with chance 0.05 each bit is told with 92 % accuracy, else none.

    Under independent releases 460 of 500 right at mu = 1 would have probability 1e-27; this
    mechanism, which is 1-GDP, reaches it with 2.9 %, so a bound of 1 at 5 % would be wrong.
    """
    x = np.linspace(1e-9, 1, 100_001)
    # Slope 0.92 / 0.08 where it tells "included", 1 where it tells nothing, then the inverse.
    told = np.interp(x, [0, 0.004, 0.954, 1], [0, 0.046, 0.996, 1])
    assert np.all(told <= stats.norm.cdf(stats.norm.ppf(x) + 1) + 1e-9)
    chance = 0.05 * stats.binom.sf(459, 500, 0.92)
    assert 0.025 < chance < 0.05
    assert not mu_rejected(1.0, 500, 500, 460, chance)


@pytest.mark.parametrize("mu", [0.5, 2.0])
@pytest.mark.parametrize("m", [100, 1000])
def test_covers_the_gaussian_mechanism_and_proves_something(mu, m):
    rng = np.random.default_rng(5)
    delta, runs = 1e-5, 300
    truth = epsilon_of_sigma(1 / mu, delta)
    found = []
    for _ in range(runs):
        bits = rng.integers(0, 2, m)
        scores = mu * bits + rng.standard_normal(m)
        canaries = CanaryScores(scores[bits == 1], scores[bits == 0])
        found.append(one_run_fdp(AuditSetting(canaries, delta, 0.95, None, "empirical")).epsilon)
    # More failures than this have probability below 1e-6 at 5 % each.
    assert np.sum(np.array(found) > truth) <= stats.binom.isf(1e-6, runs, 0.05)
    assert np.median(found) > {100: 0.02, 1000: 0.3}[m] * truth


def test_epsilon_is_that_of_mu():
    scores = CanaryScores(np.arange(100, 200.0), np.arange(100.0))
    made = one_run_fdp(AuditSetting(scores, 1e-5, 0.95, None, "empirical"))
    assert made.details["guesses"] == made.details["correct"]
    assert made.epsilon == epsilon_of_sigma(1 / made.details["mu"], 1e-5)
    assert one_run_fdp(AuditSetting(scores, 0.0, 0.95, None, "empirical")).epsilon == math.inf


def test_a_million_canaries_take_a_moment():
    rng = np.random.default_rng(5)
    scores = CanaryScores(rng.normal(1, 1, 500_000), rng.normal(0, 1, 500_000))
    made = one_run_fdp(AuditSetting(scores, 1e-6, 1 - 1e-9, None, "empirical"))
    assert 1 < made.epsilon < epsilon_of_sigma(1.0, 1e-6)
