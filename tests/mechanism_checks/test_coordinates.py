"""Noise on every coordinate: the tail against binomial tails, and what rounding may do."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.mechanism_checks.coordinates import CoordinateLengths, add_squares, scarcest

ALL = np.ones(5000, bool)


def test_squares_are_in_units_of_the_noise():
    total, one = np.ones(3), np.array([2.0, 0.0, -1.0], np.float32)
    add_squares(total, one, None, 0.5)
    np.testing.assert_allclose(total, [17, 1, 5])
    add_squares(total, one, np.array([2.0, 1.0, 0.0], np.float32), 0.5)
    np.testing.assert_allclose(total, [17, 5, 9])


@pytest.mark.parametrize("rounds", [1, 3, 30])
def test_the_bound_is_above_the_binomial_tail(rounds):
    """With coordinates silenced, at each quantile the exact tail is smaller than what is said."""
    random = np.random.default_rng(rounds)
    total = random.chisquare(rounds, 5000)
    total[:900] = 0
    log_p, ratio, number = scarcest(CoordinateLengths(total, rounds), ALL)
    # Silenced numbers are below every limit, others below the limit without rounding at most.
    quantiles = 10.0 ** -np.arange(1, 13)
    below = [np.count_nonzero(total <= stats.chi2.ppf(q, rounds)) for q in quantiles]
    exact = [stats.binom.logsf(n - 1, 5000, q) for n, q in zip(below, quantiles, strict=True)]
    assert 0 < number <= 12
    assert ratio > 1
    assert log_p >= min(exact) + math.log(number)
    assert log_p < math.log(1e-6)


def test_p_values_of_noise_are_large_enough():
    """Of 2,000 models, the share with p up to 0.1: above it by five standard deviations at 3e-7."""
    random = np.random.default_rng(4)
    found = [
        scarcest(CoordinateLengths(random.chisquare(10, 300), 10), np.ones(300, bool))[0]
        for _ in range(2000)
    ]
    most = 2000 * 0.1 + 5 * math.sqrt(2000 * 0.1 * 0.9)
    assert np.sum(np.array(found) <= math.log(0.1)) <= most


@pytest.mark.parametrize("rounds", [1, 4, 12])
def test_rounding_to_a_quarter_of_the_noise_makes_no_coordinate_short(rounds):
    """Rounded numbers count no more often than those that were rounded would without allowance."""
    random = np.random.default_rng(7)
    noise = random.normal(size=(rounds, 5000))
    total = (np.round(noise * 4) ** 2).sum(axis=0) / 16
    log_p, _, _ = scarcest(CoordinateLengths(total, rounds), ALL)
    assert log_p > math.log(1e-2)


def test_frozen_coordinates_are_not_asked_for_noise():
    total = np.random.default_rng(1).chisquare(9, 5000)
    total[:100] = 0
    assert scarcest(CoordinateLengths(total, 9), ALL)[0] < math.log(1e-6)
    assert scarcest(CoordinateLengths(total, 9), np.arange(5000) >= 100)[0] == 0
    assert scarcest(CoordinateLengths(total, 0), ALL) == (0.0, 1.0, 0)
    assert scarcest(CoordinateLengths(total, 9), ~ALL) == (0.0, 1.0, 0)
