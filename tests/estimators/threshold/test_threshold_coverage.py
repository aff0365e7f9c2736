"""The valid threshold bounds on mechanisms of known epsilon, at the sizes and epsilons of audits.

A valid 95 % bound exceeds the truth in at most 5 % of runs; more failures than the limit have
probability below 1e-6.
"""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators import AuditSetting, CanaryScores, GaussianCanaryNull
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma, sigma_of_epsilon
from fl_audit.estimators.null import Null
from fl_audit.estimators.threshold.published import threshold_clopper_pearson
from fl_audit.estimators.threshold.valid_threshold import threshold_gdp, threshold_valid

RUNS = 200
LIMIT = stats.binom.isf(1e-6, RUNS, 0.05)
EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0]


@functools.cache
def mu_of(epsilon):
    return 1 / sigma_of_epsilon(epsilon, 1e-3)


def laplace(rng, n, epsilon):
    return epsilon + rng.laplace(size=n), rng.laplace(size=n)


def randomised_response(rng, n, epsilon):
    truth = 1 / (1 + math.exp(-epsilon))
    return (rng.random(n) < truth).astype(float), (rng.random(n) >= truth).astype(float)


def rounded_gaussian(rng, n, epsilon):
    """Cosines in dimension 10,000 with (epsilon, 1e-3), some of them tied."""
    mu = mu_of(epsilon)
    return tuple(rng.normal(mean, 1, n).round(1) / 100 for mean in (mu, 0))


def lowered_gaussian(rng, n, epsilon):
    """The same, rounded down: no score is larger than under the law it is held against."""
    mu = mu_of(epsilon)
    return tuple(np.floor(rng.normal(mean, 1, n) * 10) / 1000 for mean in (mu, 0))


def bounds(method, release, epsilon, *, n, delta=0.0, dim=None):
    rng = np.random.default_rng(1996)
    null = "empirical" if dim is None else "closed_form"
    tail = None if dim is None else GaussianCanaryNull(dim)
    found = []
    for _ in range(RUNS):
        scores = CanaryScores(*release(rng, n, epsilon))
        found.append(method(AuditSetting(scores, delta, 0.95, Null(null, tail, dim))).epsilon)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("release", [laplace, randomised_response])
def test_valid_covers_pure_mechanisms(release, epsilon, n):
    found = bounds(threshold_valid, release, epsilon, n=n)
    assert np.sum(found > epsilon) <= LIMIT
    # n scores a side tell epsilon up to about log(2 n / 5), and as much as this of smaller ones.
    within_reach = min(epsilon, math.log(0.4 * n) - 0.5)
    assert np.median(found) > 0.7 * within_reach - 4 / math.sqrt(n)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [None, 10_000])
@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("method", [threshold_valid, threshold_gdp])
def test_both_cover_the_gaussian_mechanism(method, epsilon, n, dim):
    assert epsilon_of_sigma(1 / mu_of(epsilon), 1e-3) == pytest.approx(epsilon)
    # Rounding makes ties and is post-processing: it cannot raise the true epsilon. Against the
    # closed-form law it has to be downwards, so that no false positive rate is above that law's.
    release = rounded_gaussian if dim is None else lowered_gaussian
    found = bounds(method, release, epsilon, n=n, delta=1e-3, dim=dim)
    assert np.sum(found > epsilon) <= LIMIT


@pytest.mark.slow
def test_selection_voids_separate_clopper_pearson_bounds():
    # The best of many thresholds by bounds for one each: it fails much more often than 5 %.
    found = bounds(threshold_clopper_pearson, laplace, 1.0, n=1000)
    assert np.sum(found > 1) > LIMIT
