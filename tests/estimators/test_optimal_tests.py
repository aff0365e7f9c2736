"""What an ideal auditor proves, against its own simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions
from fl_audit.estimators.optimal_tests import (
    gaussian_tests,
    reachable_epsilon,
    reachable_epsilon_gaussian,
)


def bound_by_threshold(threshold: float, found: int, included: int, delta: float) -> float:
    rate = stats.beta.ppf(0.05, found, included - found + 1) if found else 0.0
    return math.log(rate - delta) - stats.norm.logsf(threshold) if rate > delta else 0.0


# The best of 2,001 thresholds at the exact median number of found canaries. Such numbers are whole,
# and where few canaries are found, the thresholds of both differ by what 0.02 is worth.
@pytest.mark.parametrize("shift", [1.0, 3.3])
def test_the_best_threshold_proves_so_much_in_the_median(shift):
    included, thresholds = 250, np.linspace(shift - 2, shift + 3, 2_001)
    medians = stats.binom.median(included, stats.norm.sf(thresholds - shift)).astype(int)
    bounds = [
        bound_by_threshold(*one, included, 1e-5) for one in zip(thresholds, medians, strict=True)
    ]
    found = reachable_epsilon(gaussian_tests(shift), included, 1e-5, 0.95)
    assert found == pytest.approx(max(bounds), abs=0.03)


def test_infinitely_many_canaries_prove_the_whole_epsilon_of_a_gaussian_mechanism():
    truth = epsilon_over_all_regions(Gaussian(0, 1), Gaussian(2, 1), 1e-5)
    found = reachable_epsilon_gaussian(2.0, 10**12, 1e-5, 0.95)
    assert found == pytest.approx(truth, 1e-5)
