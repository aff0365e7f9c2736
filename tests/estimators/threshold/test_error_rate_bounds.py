"""Jeffreys and Clopper-Pearson bounds against scipy.stats and exact coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.threshold.error_rates import (
    clopper_pearson_upper,
    false_positive_rates,
    jeffreys_upper,
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


@pytest.mark.parametrize(("bound", "a", "b"), BOUNDS)
def test_keep_their_digits_near_one(bound, a, b):
    # 999 errors of 1,000: what is left of 1 is the lower quantile of the other rate.
    rates = bound(np.array([999]), 1000, 1 - 1e-6)
    rest = np.exp(rates.success[0])
    assert stats.beta.cdf(rest, 1 + b, 999 + a) == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_always_covers(rate, confidence):
    # The chance of a bound below the rate, summed exactly.
    k = np.arange(201)
    missed = np.exp(clopper_pearson_upper(k, 200, confidence).error) < rate
    assert stats.binom.pmf(k, 200, rate)[missed].sum() <= 1 - confidence


def test_exact_rates_of_a_known_law():
    rates = false_positive_rates(Gaussian(0, 1), np.array([-40.0, 1.0]))
    assert rates.error == pytest.approx(stats.norm.logsf([-40, 1]), rel=1e-12)
    assert rates.success == pytest.approx(stats.norm.logcdf([-40, 1]), rel=1e-12)
