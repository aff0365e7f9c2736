"""Jeffreys and Clopper-Pearson bounds against scipy.stats and exact coverage."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.threshold.error_rates import (
    _failure,
    chance_of_crossing,
    clopper_pearson_upper,
    favoured_rank,
    jeffreys_upper,
    true_positive_band,
)

BOUNDS = [(jeffreys_upper, 0.5, 0.5), (clopper_pearson_upper, 1.0, 0.0)]


@pytest.mark.parametrize(("bound", "a", "b"), BOUNDS)
@pytest.mark.parametrize("n", [1, 10, 1000])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
def test_match_scipy(bound, a, b, n, confidence):
    k = np.arange(n + 1)
    rates = bound(k, n, confidence)
    upper = stats.beta.ppf(confidence, k[:-1] + a, n - k[:-1] + b)
    assert np.exp(rates.error[:-1]) == pytest.approx(upper, rel=1e-9)
    rest = stats.beta.ppf(1 - confidence, n - k[:-1] + b, k[:-1] + a)
    assert np.exp(rates.success[:-1]) == pytest.approx(rest, rel=1e-9)
    assert (rates.error[-1], rates.success[-1]) == (0.0, -math.inf)


# Boundary crossing of uniform order statistics against exact integrals in rational numbers.


SEED = 1979


def exact_chance_too_small(n: int, ranks, points) -> Fraction:
    """P(U_(k) < b_k for some k) = 1 - n! times the integral over b_k <= u_k <= u_(k + 1).

    The integrals are polynomials in the next variable, integrated term by term.
    """
    lower, last = {}, Fraction(0)
    bounds = dict(zip((int(k) for k in ranks), map(Fraction, map(float, points)), strict=True))
    for k in range(1, n + 1):
        last = max(last, bounds.get(k, last))
        lower[k] = last
    polynomial = [Fraction(1)]
    for k in range(1, n + 1):
        integral = [Fraction(0)] + [c / (i + 1) for i, c in enumerate(polynomial)]
        integral[0] = -sum(c * lower[k] ** i for i, c in enumerate(integral))
        polynomial = integral
    return 1 - math.factorial(n) * sum(polynomial)


def boundaries(n: int, rng: np.random.Generator):
    ranks = np.sort(rng.choice(np.arange(1, n + 1), rng.integers(1, n + 1), replace=False))
    return ranks, np.sort(rng.uniform(0, 1, len(ranks)) ** rng.uniform(0.5, 4))


@pytest.mark.parametrize("n", range(1, 7))
def test_crossing_matches_rational_numbers(n):
    rng = np.random.default_rng(n)
    ranks, points = boundaries(n, rng)
    expected = float(exact_chance_too_small(n, ranks, points))
    assert chance_of_crossing(n, ranks, points) == pytest.approx(expected, rel=1e-12)
    # Mirrored: the k-th smallest is too large where the (n + 1 - k)-th smallest of 1 - U is small.
    mirror = n, n + 1 - ranks[::-1], 1 - points[::-1]
    mirrored = chance_of_crossing(*mirror, is_too_small=False)
    assert mirrored == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999, 1 - 1e-11])
def test_band_fails_with_the_probability_asked_for(n, confidence):
    band = true_positive_band(n, confidence)
    points = np.exp(band.negatives.success)
    exact = float(exact_chance_too_small(n, band.ranks, points))
    alpha = 1 - confidence
    assert alpha * (1 - 1e-7) <= exact <= alpha


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("n", "favoured", "runs"),
    [(20, None, 200_000), (400, None, 20_000), (150, 5, 20_000), (400, 60, 20_000)],
)
def test_band_covers_uniform_samples(n, favoured, runs):
    # Fails in at most 5 % of samples, and in nearly so many. Each of the two limits is broken by
    # chance with probability below 5e-7.
    band = true_positive_band(n, 0.95, favoured)
    rng = np.random.default_rng(SEED)
    samples = np.sort(rng.random((runs, n)), axis=1)
    failures = np.sum(np.any(samples[:, band.ranks - 1] < np.exp(band.negatives.success), axis=1))
    assert failures <= stats.binom.isf(5e-7, runs, 0.05)
    assert failures >= stats.binom.ppf(5e-7, runs, 0.047)


@pytest.mark.parametrize("n", [7, 29, 120, 121, 3000])
@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-11])
def test_levels_spend_no_more_than_is_allowed(n, confidence):
    band = true_positive_band(n, confidence)
    alpha = 1 - confidence
    assert alpha * (1 - 1e-7) <= _failure(n, band.ranks, band.levels) <= alpha
    # More than a union bound would give, and no rank more than everything.
    assert band.levels.sum() > 1.001 * alpha
    assert band.levels.max() < alpha


@pytest.mark.parametrize(("n", "favoured"), [(120, 1), (150, 300), (3000, 5), (3000, 70)])
def test_a_favoured_rank_has_most_of_the_level_and_the_band_spends_no_more(n, favoured):
    band = true_positive_band(n, 0.95, favoured)
    assert 0.05 * (1 - 1e-7) <= _failure(n, band.ranks, band.levels) <= 0.05
    nearest = np.argmin(np.abs(np.log(band.ranks / favoured)))
    if favoured <= n / 2:
        assert band.levels[nearest] == band.levels.max()
    if favoured in band.ranks[band.ranks <= n / 2]:
        plain = true_positive_band(n, 0.95)
        assert band.levels[nearest] > 2 * plain.levels[nearest]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0, 30.0])
@pytest.mark.parametrize("n", [20, 150, 2000])
def test_the_favoured_rank_is_the_best_single_one_of_many_samples(n, shift, delta):
    # By the median bound of each rank over 4,000 samples: none is better by more than a part in 30.
    ranks = true_positive_band(n, 0.95).ranks
    samples = -np.sort(-np.random.default_rng(SEED).normal(shift, 1, (4000, n)), axis=1)
    positives = stats.beta.ppf(0.05, ranks, n + 1 - ranks)
    with np.errstate(divide="ignore"):
        gain = np.log(np.maximum(positives - delta, 0))
    medians = np.median(gain - stats.norm.logsf(samples[:, ranks - 1]), axis=0)
    favoured = medians[ranks == favoured_rank(n, shift, delta, 0.95)]
    assert favoured >= medians.max() - abs(medians.max()) / 30
