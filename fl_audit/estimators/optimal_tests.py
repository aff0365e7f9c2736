"""The lower bound by the best threshold, given the number of canaries and both distributions.

By Neyman and Pearson the best test of P against Q on one canary compares the likelihood ratio with
a threshold. An ideal auditor knows both distributions and fixes the best threshold before there is
any score, so selection costs nothing; only the sampling error of the canaries remains.

On many canaries a test may use all scores, not only how many are above one threshold. The best one
multiplies likelihood ratios against the least favourable distribution of the claim (Huber &
Strassen 1973). For a Gaussian release of epsilon 2 or 4 at delta 1e-3, the median bound of this
test exceeds the best threshold's by 2 to 8 % from 100 included canaries on, and with 27 by 23 %
(epsilon 2) and 8 % (epsilon 4).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.distributions import Gaussian, rank_quantile
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions
from fl_audit.estimators.scores import check_confidence, check_delta

NUM_TESTS = 4_000
"""The largest number of thresholds tried."""


@dataclass(frozen=True, eq=False)
class OptimalTests:
    """Rates, of shape (tests,), of tests that decide for P if the ratio of P to Q is large."""

    log_fpr: FloatArray  # log of the probability under Q of deciding for P
    tpr: FloatArray
    tnr: FloatArray
    fnr: FloatArray


def reachable_epsilon(
    tests: OptimalTests, num_included: int, delta: float, confidence: float
) -> float:
    """The median lower bound on epsilon by the best of the tests, from exact distributions.

    The threshold is fixed beforehand: the false positive rate is known, and the true positive rate
    has Clopper and Pearson's limit at the median number of detected included canaries. The same is
    tried with the true negative rate, which is known, and a limit on the false negative rate.

    The median number is an integer. A threshold at a rank of the included scores, as in
    `threshold_valid`, avoids this rounding: such a rank, fixed beforehand, gives up to 5 % more
    (150 included canaries, shifts of 1 and 2, delta 1e-3), so `threshold_valid` may exceed this
    bound.
    """
    check_delta(delta)
    check_confidence(confidence)
    # Thousands of tests share few counts, and inverting the beta distribution is slow.
    detected, of_test = np.unique(_median_count(num_included, tests.tpr), return_inverse=True)
    least = rank_quantile(detected, num_included, 1 - confidence)[of_test]
    missed, of_test = np.unique(_median_count(num_included, tests.fnr), return_inverse=True)
    most = rank_quantile(missed + 1, num_included, confidence)[of_test]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_finding = np.log(least - delta) - tests.log_fpr
        by_missing = np.log(tests.tnr - delta) - np.log(most)
    candidates = np.concatenate([by_finding, by_missing])
    return float(np.max(candidates[~np.isnan(candidates)], initial=0.0))


def _median_count(number: int, chance: FloatArray) -> FloatArray:
    """The median of a binomial count, also for a chance of 1, where SciPy 1.9 gives 0."""
    from scipy import stats  # imported here because it takes half a second

    counts = stats.binom.ppf(0.5, number, np.clip(chance, 0, 1))
    return np.where(chance >= 1, number, counts)


def gaussian_tests(shift: float) -> OptimalTests:
    """Threshold tests of N(shift, 1) against N(0, 1)."""
    thresholds = np.linspace(-8.0, shift + 8.0, NUM_TESTS)
    return OptimalTests(
        log_fpr=special.log_ndtr(-thresholds),
        tpr=special.ndtr(shift - thresholds),
        tnr=special.ndtr(thresholds),
        fnr=special.ndtr(thresholds - shift),
    )


def reachable_epsilon_gaussian(
    shift: float, num_included: int, delta: float, confidence: float
) -> float:
    """`reachable_epsilon` of tests that assume a Gaussian mechanism, delta in (0, 1).

    Such tests use the values of scores, not only the share of scores above a threshold: the best
    one tests the mean. `shift` is the distance of the included mean from the null's, in standard
    deviations.
    """
    # The median lower bound on the distance of two unit Gaussians by a test of the mean.
    least = max(0.0, shift - float(special.ndtri(confidence)) / math.sqrt(num_included))
    if least == 0 or math.isinf(least):
        return least
    return epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(least, 1.0), delta)
