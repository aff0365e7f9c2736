"""`roc_summary`: the usual measures of membership inference, with intervals."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.counts.confusion_counts import ConfusionCounts
from fl_audit.estimators.distributions import rank_quantile
from fl_audit.estimators.gaussian.fit import Guess
from fl_audit.estimators.null import NullTail
from fl_audit.estimators.roc.curve import (
    ApproximateInterval,
    allowed_false_positives,
    auc,
    auc_interval,
    balanced_accuracy,
    require_both_classes,
    tpr_at_fpr,
)
from fl_audit.estimators.scores import CanaryScores, check_confidence
from fl_audit.estimators.setting import NotApplicableError
from fl_audit.json_records import fields_to_json

Statistic = Callable[[CanaryScores], float]


# Bias-corrected bootstrap intervals for any statistic of the scores.
#
# scipy.stats.bootstrap corrects the bias of statistics of one sample only (scipy 1.9), and scores
# are two samples: included and excluded canaries.


def bootstrap_interval(
    scores: CanaryScores,
    statistic: Statistic,
    *,
    confidence: float,
    seed: int,
    resamples: int = 2000,
) -> ApproximateInterval:
    """A bias-corrected percentile interval for a statistic of the scores.

    Included and excluded scores are each resampled with replacement, to the same size; pairs are
    resampled whole. How canaries were included stays the same. The interval is approximate: right
    in the limit of many scores and for smooth statistics. It is not a valid bound: for few scores,
    for extremes (a largest score, a rate at next to no false positives) and for statistics that are
    maximised on the scores it covers less often than stated. In particular its lower end for an
    epsilon is no lower bound; `threshold_valid` is one.

    Args:
      scores: The canaries' scores.
      statistic: A function of scores, such as `auc`, whose value is never NaN.
      confidence: Confidence of the interval, in (0, 1).
      seed: Seed of the resampling; the same seed gives the same interval.
      resamples: Number of draws, at least 1.

    Raises:
      InputError: The confidence or the number of resamples is out of range.
      ValueError: The statistic is NaN.

    >>> scores = CanaryScores(included=np.arange(3.0, 203.0), excluded=[0.0])
    >>> interval = bootstrap_interval(
    ...     scores, lambda s: float(np.mean(s.included)), confidence=0.95, seed=1
    ... )  # by the central limit theorem 102.5 +- 8.0
    >>> round(interval.lower, 1), round(interval.upper, 1)
    (94.4, 110.3)
    """
    check_confidence(confidence)
    check_resamples(resamples)
    rng = np.random.default_rng(seed)
    replicates = np.array([statistic(_resampled(scores, rng)) for _ in range(resamples)])
    return bias_corrected_interval(statistic(scores), replicates, confidence)


def check_resamples(resamples: int) -> None:
    """Raise InputError if the number of resamples is below 1."""
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}")


def bias_corrected_interval(
    estimate: float, replicates: npt.ArrayLike, confidence: float
) -> ApproximateInterval:
    """The interval from an estimate and its bootstrap replicates; ValueError for NaN.

    With z0 the normal quantile of the share of replicates below the estimate (equal ones count
    half) and z the normal quantile of (1 + confidence) / 2, the limits are the replicates'
    quantiles at Phi(2 z0 -+ z): the BC interval of Efron (1987), "Better bootstrap confidence
    intervals", JASA 82, 171-185. The acceleration of BCa is omitted, because it needs leave-one-out
    statistics.
    """
    values = np.sort(np.asarray(replicates, dtype=np.float64))
    count = len(values)
    if np.isnan(values[-1]) or np.isnan(estimate):
        raise ValueError("the statistic must be a number, got NaN")
    below = (np.sum(values < estimate) + np.sum(values <= estimate)) / (2 * count)
    # At least half a replicate away from 0 and from 1, so that the quantile is finite.
    shift = 2 * special.ndtri(np.clip(below, 0.5 / count, 1 - 0.5 / count))
    half_width = -special.ndtri((1 - confidence) / 2)
    levels = special.ndtr(np.array([shift - half_width, shift + half_width]))
    lower, upper = values[np.clip(np.ceil(levels * count).astype(int) - 1, 0, count - 1)]
    return ApproximateInterval(float(lower), float(upper))


def _resampled(scores: CanaryScores, rng: np.random.Generator) -> CanaryScores:
    included = rng.choice(scores.num_included, scores.num_included)
    in_pairs = scores.inclusion == "pairs"
    excluded = included if in_pairs else rng.choice(scores.num_excluded, scores.num_excluded)
    return dataclasses.replace(
        scores, included=scores.included[included], excluded=scores.excluded[excluded]
    )


LEAST_FALSE_POSITIVES = 10
"""With fewer allowed false positives the bootstrap covers less often than stated."""


def tpr_at_fpr_interval(
    scores: CanaryScores,
    false_positive_rate: float,
    *,
    confidence: float,
    seed: int,
    resamples: int = 2000,
) -> ApproximateInterval:
    """The bias-corrected bootstrap interval of `tpr_at_fpr`, in O(n log n) for any n.

    The replicates are distributed exactly as in `bootstrap_interval`, whose caveats apply, but both
    scores of a pair are drawn apart. For Gaussian scores with a shift of 2, intervals at 95 % cover
    92 to 96 % if 10 or more false positives are allowed, 74 to 82 % if 1 is, and 31 % if none is
    (100 to 10,000 scores a class, 400 trials). So with fewer than 10 there is no interval.

    Args:
      scores: Scores of included and excluded canaries.
      false_positive_rate: The false positive rate allowed, in [0, 1].
      confidence: Confidence in (0, 1), in the limit of many scores.
      seed: Seed of the resampling; the same seed gives the same interval.
      resamples: Number of draws, at least 1.

    Raises:
      InputError: A number is out of range.
      NotApplicableError: There are no included scores, or too few excluded ones for 10 false
        positives.
    """
    require_both_classes(scores)
    check_confidence(confidence)
    check_resamples(resamples)
    allowed = allowed_false_positives(false_positive_rate, scores.num_excluded)
    if allowed < LEAST_FALSE_POSITIVES:
        raise NotApplicableError(
            f"a bootstrap interval needs {LEAST_FALSE_POSITIVES} false positives or more to be "
            f"allowed, got {allowed} (of {scores.num_excluded} excluded scores)"
        )
    rng = np.random.default_rng(seed)
    replicates = tpr_at_fpr_replicates(scores, false_positive_rate, resamples, rng)
    estimate = tpr_at_fpr(scores, false_positive_rate)
    return bias_corrected_interval(estimate, replicates, confidence)


def tpr_at_fpr_replicates(
    scores: CanaryScores, false_positive_rate: float, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """`tpr_at_fpr` of scores drawn with replacement, simulated without drawing single scores.

    Among n excluded scores in descending order, a drawn one has index floor(n U) with U uniform. So
    the (k + 1)-th largest of n drawn scores, the threshold if k false positives are allowed, has
    index floor(n U_(k + 1)) with U_(k + 1) ~ Beta(k + 1, n - k), and the number of drawn included
    scores above it is binomial.
    """
    n = scores.num_excluded
    allowed = allowed_false_positives(false_positive_rate, n)
    if allowed == n:
        return np.ones(resamples)
    index = (n * rng.beta(allowed + 1, n - allowed, size=resamples)).astype(np.int64)
    limits = np.sort(scores.excluded)[::-1][np.minimum(index, n - 1)]
    members = scores.num_included
    above = members - np.searchsorted(np.sort(scores.included), limits, "right")
    return np.asarray(rng.binomial(members, above / members) / members)


# Epsilon from the confidence interval of a ratio of rates, as in tensorflow-privacy.
#
# That library's epsilon_lower_bound has five intervals: KATZ_LOG, ADJUSTED_LOG, BAILEY, INV_SINH
# and CLOPPER_PEARSON. The module is not in release 0.9.0, and it needs statsmodels. Here scipy
# computes the first, and `threshold_clopper_pearson` is the last. The other three are left out:
# they are approximate like Katz's, and `threshold_valid` is exact.


@dataclass(frozen=True)
class RatioBound:
    """An approximate lower bound on epsilon at delta 0, from a ratio of rates.

    Attributes:
      method: Name of the interval of the ratio.
      guess: The guess whose rates form the ratio: "included" for TPR / FPR, "excluded" for TNR /
        FNR.
      epsilon: Log of the lower end of the ratio's interval, in nats, at least 0.
      log_ratio: Log of the observed ratio; negative if the guesses are worse than chance.
      confidence: Confidence that epsilon is no more than the true one, in the limit of large
        counts.
      guarantee: What the bound guarantees, and what it does not, in words.
    """

    method: str
    guess: Guess
    epsilon: float
    log_ratio: float
    confidence: float
    guarantee: str

    def to_json(self) -> dict[str, object]:
        """The bound as a JSON object; infinities as words."""
        return fields_to_json(self)


def katz_log_bound(counts: ConfusionCounts, guess: Guess, confidence: float) -> RatioBound:
    """The log of the lower end of Katz's interval for TPR / FPR or TNR / FNR.

    Katz, Baptista, Azen & Pike (1978), "Obtaining confidence intervals for the risk ratio in
    cohort studies", Biometrics 34, method C, one-sided, by scipy.stats.contingency.relative_risk.
    A mechanism that is (epsilon, 0)-private has both ratios at most e^epsilon. Lu et al. (2022), "A
    general framework for auditing differentially private machine learning", arXiv:2210.08643, audit
    with this interval.

    By the exact distribution of the ratio, the bound at 95 % exceeds log(TPR / FPR) in 7.2 % of
    audits with 100 members, 10,000 others and a TPR and FPR of 0.002 and 0.001, and in 6.1 % with
    0.05 and 0.01. With 100 of each and rates of 0.5 and 0.01 it does so in none, but 37 % of audits
    have no bound at all.

    Args:
      counts: Counts at one threshold, such as those of `counts_at`.
      guess: The guess whose rates form the ratio: "included" for TPR / FPR, "excluded" for TNR /
        FNR.
      confidence: Confidence of the bound, in [0.5, 1).

    Raises:
      InputError: The confidence is out of range.
      NotApplicableError: No guess of this kind is wrong: the interval is not defined.

    >>> bound = katz_log_bound(ConfusionCounts(10, 1000, 10, 10000), "included", 0.95)
    >>> round(math.exp(bound.epsilon), 2), round(math.exp(bound.log_ratio), 2)
    (589.27, 991.09)
    """
    from scipy.stats import contingency  # imported here because it takes half a second

    check_confidence(confidence)
    if confidence < 0.5:
        raise InputError(f"confidence of a ratio bound must be at least 0.5, got {confidence}")
    if guess == "included":
        right, right_class = counts.true_positives, counts.members
        wrong, wrong_class = counts.false_positives, counts.non_members
    else:
        right, right_class = counts.true_negatives, counts.non_members
        wrong, wrong_class = counts.false_negatives, counts.members
    if wrong == 0:
        name = "false positive" if guess == "included" else "false negative"
        raise NotApplicableError(f"the Katz log interval needs at least 1 {name}, got 0")
    risk = contingency.relative_risk(right, right_class, wrong, wrong_class)
    # Two-sided at 1 - 2 alpha: the lower end alone fails with alpha.
    lower = float(risk.confidence_interval(2 * confidence - 1).low)
    return RatioBound(
        method="katz_log",
        guess=guess,
        epsilon=math.log(max(lower, 1.0)),
        log_ratio=math.log(risk.relative_risk) if right else -math.inf,
        confidence=confidence,
        guarantee=(
            f"Approximate: in the limit of large counts and for one threshold fixed in advance, "
            f"true epsilon at delta 0 is at least this with {100 * confidence:g} % confidence. It "
            "is not valid for counts near 0 or for a threshold chosen on the same scores."
        ),
    )


REPORTED_RATES = (0.001, 0.01, 0.1)
"""The false positive rates at which the true positive rate is reported."""


@dataclass(frozen=True)
class OperatingPoint:
    """The best true positive rate at a false positive rate.

    Attributes:
      false_positive_rate: The largest false positive rate allowed.
      false_positives: The allowed number of false positives; 0 with too few excluded scores.
      true_positive_rate: The largest true positive rate of a threshold within the allowed rate.
      interval: Bias-corrected bootstrap interval; None with fewer than 10 allowed false positives,
        for which the bootstrap fails.
    """

    false_positive_rate: float
    false_positives: int
    true_positive_rate: float
    interval: ApproximateInterval | None


@dataclass(frozen=True)
class RocSummary:
    """Measures of how well scores separate included from excluded canaries; no bound on epsilon.

    Attributes:
      num_included: Number of canaries that participated in training.
      num_excluded: Number of canaries that did not participate.
      confidence: Confidence of each interval, in the limit of many scores.
      auc: Area under the ROC curve; 1/2 for uninformative scores.
      auc_interval: DeLong's interval of the area.
      operating_points: The best true positive rate at each of REPORTED_RATES.
      balanced_accuracy: Balanced accuracy of the best threshold, which is chosen on the same
        scores.
    """

    num_included: int
    num_excluded: int
    confidence: float
    auc: float
    auc_interval: ApproximateInterval
    operating_points: tuple[OperatingPoint, ...]
    balanced_accuracy: float

    def to_json(self) -> dict[str, object]:
        """The summary as a JSON object."""
        return fields_to_json(self)


def roc_summary(scores: CanaryScores, confidence: float = 0.95, seed: int = 0) -> RocSummary:
    """The usual measures of a membership inference attack by these scores.

    Args:
      scores: Scores of included and excluded canaries.
      confidence: Confidence of each interval, in (0, 1).
      seed: Seed of the bootstrap; the same seed gives the same intervals.

    Raises:
      InputError: The confidence is out of range.
      NotApplicableError: There are no included or no excluded scores.

    >>> summary = roc_summary(CanaryScores(included=[1.0, 2.0], excluded=[0.0, 1.0]))
    >>> summary.auc, summary.balanced_accuracy
    (0.875, 0.75)
    """
    check_confidence(confidence)
    return RocSummary(
        num_included=scores.num_included,
        num_excluded=scores.num_excluded,
        confidence=confidence,
        auc=auc(scores),
        auc_interval=auc_interval(scores, confidence),
        operating_points=tuple(
            _operating_point(scores, rate, confidence, seed) for rate in REPORTED_RATES
        ),
        balanced_accuracy=balanced_accuracy(scores),
    )


def _operating_point(
    scores: CanaryScores, rate: float, confidence: float, seed: int
) -> OperatingPoint:
    allowed = allowed_false_positives(rate, scores.num_excluded)
    interval = None
    if allowed >= LEAST_FALSE_POSITIVES:
        interval = tpr_at_fpr_interval(scores, rate, confidence=confidence, seed=seed)
    return OperatingPoint(
        false_positive_rate=rate,
        false_positives=allowed,
        true_positive_rate=tpr_at_fpr(scores, rate),
        interval=interval,
    )


# Detection under a known null distribution, without excluded scores.


@dataclass(frozen=True)
class DetectionRate:
    """The share of included canaries that are detected at a false positive rate of a known null."""

    false_positive_rate: float
    true_positive_rate: float
    lower: float  # Clopper and Pearson's two-sided interval, if scores are independent
    upper: float


def detection_rates(
    included: FloatArray, null: NullTail, confidence: float
) -> tuple[DetectionRate, ...]:
    """The detection rate at each of REPORTED_RATES, with thresholds from the null's tail.

    A score is above the threshold of a rate if an excluded canary scores as high with probability
    at most the rate. So the rate may be arbitrarily small, whereas n excluded scores cannot measure
    rates below 1 / n. `included` holds at least one score.

    >>> from fl_audit.estimators.null import GaussianCanaryNull
    >>> included = np.arange(10) / 100  # the standard deviation of the null is 0.01
    >>> rates = detection_rates(included, GaussianCanaryNull(10_000), 0.95)
    >>> [point.true_positive_rate for point in rates]
    [0.6, 0.7, 0.8]
    """
    log_tails = null.log_tail_upper(included)
    return tuple(
        _detected_at(rate, int(np.sum(log_tails <= math.log(rate))), len(included), confidence)
        for rate in REPORTED_RATES
    )


def _detected_at(rate: float, detected: int, num_included: int, confidence: float) -> DetectionRate:
    miss = (1 - confidence) / 2
    lower = float(rank_quantile(detected, num_included, miss))
    upper = float(rank_quantile(detected + 1, num_included, 1 - miss))
    return DetectionRate(rate, detected / num_included, lower, upper)
