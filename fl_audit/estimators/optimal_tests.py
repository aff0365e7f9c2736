"""What the best threshold proves with so many canaries, when both distributions are known exactly.

By Neyman and Pearson no test tells P from Q better on one canary than one that compares the
likelihood ratio with a threshold. An ideal auditor knows both distributions, picks the best
threshold before there is any score, and pays for no choice; what is left is the chance of the
canaries themselves.

On many canaries a test may use all scores, not only how many are above one threshold. The best one
multiplies likelihood ratios against the least favourable distribution of the claim (Huber &
Strassen 1973). For a Gaussian release of epsilon 2 or 4 at delta 1e-3 its median bound is 2 to 8 %
larger from 100 included canaries on, and 23 and 8 % larger with 27.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_confidence, check_delta
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_over_all_regions


@dataclass(frozen=True, eq=False)
class OptimalTests:
    """The rates of tests that say P where the likelihood ratio of P to Q is large.

    Attributes:
      log_fpr: The log of the chance under Q that a test says P, float64 of shape (tests,).
      tpr: The chance under P that it says P, float64 of shape (tests,).
      tnr: The chance under Q that it says Q, float64 of shape (tests,).
      fnr: The chance under P that it says Q, float64 of shape (tests,).
    """

    log_fpr: FloatArray
    tpr: FloatArray
    tnr: FloatArray
    fnr: FloatArray


def reachable_epsilon(
    tests: OptimalTests, num_included: int, delta: float, confidence: float
) -> float:
    """The median lower bound on epsilon of the best of the tests, with exact distributions.

    The bound is that of one threshold chosen beforehand: the false positive rate is known, and the
    true positive rate has Clopper and Pearson's limit at the median number of included canaries
    that are found. The other direction, canaries that are not found, is tried too.

    Counts are whole numbers, which a threshold at a rank of the included scores, such as
    `threshold_valid` takes, need not round: such a rank, chosen beforehand, proves up to 5 % more
    (150 included canaries, shifts of 1 and 2, delta 1e-3), so that a bound may be above this one.

    Args:
      tests: The tests to choose from.
      num_included: The number of included canaries, at least 1.
      delta: The delta of differential privacy, in [0, 1).
      confidence: The confidence of the lower bound, in (0, 1).

    Raises:
      InputError: Delta or the confidence is out of range.
    """
    check_delta(delta)
    check_confidence(confidence)
    # Thousands of tests have few different counts, and inverting the beta distribution is slow.
    detected, of_test = np.unique(_median_count(num_included, tests.tpr), return_inverse=True)
    least = special.betaincinv(np.maximum(detected, 1), num_included - detected + 1, 1 - confidence)
    least = np.where(detected > 0, least, 0.0)[of_test]
    missed, of_test = np.unique(_median_count(num_included, tests.fnr), return_inverse=True)
    most = special.betaincinv(missed + 1, np.maximum(num_included - missed, 1), confidence)
    most = np.where(missed < num_included, most, 1.0)[of_test]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_finding = np.log(least - delta) - tests.log_fpr
        by_missing = np.log(tests.tnr - delta) - np.log(most)
    candidates = np.concatenate([by_finding, by_missing])
    return max(0.0, float(np.max(candidates[~np.isnan(candidates)], initial=0.0)))


def _median_count(number: int, chance: FloatArray) -> FloatArray:
    """The median of a binomial count; SciPy 1.9 says 0 where the chance is 1."""
    from scipy import stats  # here, for it takes half a second

    counts = stats.binom.ppf(0.5, number, np.clip(chance, 0, 1))
    return np.where(chance >= 1, number, counts)


def gaussian_tests(shift: float) -> OptimalTests:
    """The thresholds that tell N(shift, 1) from N(0, 1)."""
    thresholds = np.linspace(-8.0, shift + 8.0, 4000)
    return OptimalTests(
        log_fpr=special.log_ndtr(-thresholds),
        tpr=special.ndtr(shift - thresholds),
        tnr=special.ndtr(thresholds),
        fnr=special.ndtr(thresholds - shift),
    )


def reachable_shift(shift: float, num_included: int, confidence: float) -> float:
    """The median lower bound on the distance of two Gaussians by the best test, of their mean.

    Args:
      shift: The true distance, in standard deviations.
      num_included: The number of included canaries, at least 1.
      confidence: The confidence of the lower bound, in (0, 1).
    """
    return max(0.0, shift - float(special.ndtri(confidence)) / math.sqrt(num_included))


def reachable_epsilon_gaussian(
    shift: float, num_included: int, delta: float, confidence: float
) -> float:
    """The `reachable_epsilon` of tests that may rely on the mechanism being Gaussian.

    Then every score counts, not only the share above a threshold: the best test is of the mean.

    Args:
      shift: The distance of the included scores' mean from the null's, in standard deviations.
      num_included: The number of included canaries, at least 1.
      delta: The delta of differential privacy, in (0, 1).
      confidence: The confidence of the lower bound, in (0, 1).
    """
    least = reachable_shift(shift, num_included, confidence)
    if least == 0 or math.isinf(least):
        return least
    return epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(least, 1.0), delta)
