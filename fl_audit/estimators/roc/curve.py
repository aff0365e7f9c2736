"""The ROC curve of canary scores, the area under it, and other statistics.

"score >= threshold" is the guess that the canary participated. No threshold separates equal scores,
so the curve passes ties in one step. An `ApproximateInterval` reaches its confidence only in the
limit of many scores.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.counts.bayes import RocCounts
from fl_audit.estimators.counts.confusion_counts import ConfusionCounts, Interval
from fl_audit.estimators.scores import CanaryScores, check_confidence
from fl_audit.estimators.setting import NotApplicableError


class ApproximateInterval(Interval):
    """A two-sided interval of a statistic, with asymptotic confidence.

    It is no bound on epsilon, and shows nothing about privacy.

    Attributes:
      lower: Lower end of the interval.
      upper: Upper end of the interval, at least `lower`.
    """


@dataclass(frozen=True, eq=False)
class RocCurve:
    """The error rates at every threshold that separates some scores.

    Attributes:
      thresholds: Infinity and every distinct score, descending, float64 of shape (t,).
      false_positive_rates: False positive rates, ascending from 0 to 1, float64 of shape (t,).
      true_positive_rates: True positive rates, ascending from 0 to 1, float64 of shape (t,).
    """

    thresholds: FloatArray
    false_positive_rates: FloatArray
    true_positive_rates: FloatArray

    @classmethod
    def from_scores(cls, scores: CanaryScores) -> "RocCurve":
        """The curve of a set of scores.

        Raises:
          NotApplicableError: There are no included or no excluded scores.

        >>> curve = RocCurve.from_scores(CanaryScores(included=[1.0, 3.0], excluded=[0.0, 1.0]))
        >>> curve.thresholds.tolist(), curve.true_positive_rates.tolist()
        ([inf, 3.0, 1.0, 0.0], [0.0, 0.5, 1.0, 1.0])
        """
        require_both_classes(scores)
        counts = RocCounts.from_scores(scores)
        return cls(
            thresholds=counts.thresholds[::-1],
            false_positive_rates=counts.false_positives[::-1] / counts.non_members,
            true_positive_rates=1 - counts.false_negatives[::-1] / counts.members,
        )


def require_both_classes(scores: CanaryScores) -> None:
    """Raise NotApplicableError for scores of one class only, which have no ROC curve."""
    for name, number in (("included", scores.num_included), ("excluded", scores.num_excluded)):
        if number == 0:
            raise NotApplicableError(f"a ROC curve needs at least 1 {name} score, got 0")


def counts_at(scores: CanaryScores, threshold: float) -> ConfusionCounts:
    """The counts of correct and wrong guesses by "score >= threshold".

    Raises:
      NotApplicableError: There are no included or no excluded scores.

    >>> counts_at(CanaryScores(included=[1.0, 3.0], excluded=[0.0, 1.0]), 1.0)
    ConfusionCounts(false_negatives=0, true_positives=2, false_positives=1, true_negatives=1)
    """
    require_both_classes(scores)
    true_positives = int(np.count_nonzero(scores.included >= threshold))
    false_positives = int(np.count_nonzero(scores.excluded >= threshold))
    return ConfusionCounts(
        false_negatives=scores.num_included - true_positives,
        true_positives=true_positives,
        false_positives=false_positives,
        true_negatives=scores.num_excluded - false_positives,
    )


def tpr_at_fpr(scores: CanaryScores, false_positive_rate: float) -> float:
    """The largest true positive rate among thresholds with at most this false positive rate.

    There is no interpolation, as in Carlini et al. (2022), "Membership inference attacks from first
    principles", arXiv:2112.03570. With fewer than 1 / false_positive_rate excluded scores, it is
    the rate without any false positive.

    Args:
      scores: Scores of included and excluded canaries.
      false_positive_rate: The false positive rate allowed, in [0, 1].

    Raises:
      InputError: The rate is out of range.
      NotApplicableError: There are no included or no excluded scores.

    >>> tpr_at_fpr(CanaryScores(included=[1.0, 2.0, 3.0, 4.0], excluded=[0.0, 2.0]), 0.01)
    0.5
    """
    require_both_classes(scores)
    allowed = allowed_false_positives(false_positive_rate, scores.num_excluded)
    if allowed == scores.num_excluded:
        return 1.0
    # A threshold at this score has one false positive too many; any higher threshold is allowed.
    limit = np.partition(scores.excluded, -allowed - 1)[-allowed - 1]
    return float(np.mean(scores.included > limit))


def allowed_false_positives(false_positive_rate: float, num_excluded: int) -> int:
    """The largest number of false positives whose rate is at most this one, which is in [0, 1].

    >>> allowed_false_positives(0.29, 100)  # 0.29 * 100 is below 29 in floating point
    29
    """
    if not 0 <= false_positive_rate <= 1:
        raise InputError(f"false_positive_rate must be in [0, 1], got {false_positive_rate}")
    count = int(false_positive_rate * num_excluded)
    return count + ((count + 1) / num_excluded <= false_positive_rate)


def balanced_accuracy(scores: CanaryScores) -> float:
    """The best mean of true positive and true negative rate over all thresholds.

    It is (1 + max(TPR - FPR)) / 2, at least 1/2. The threshold is chosen on the same scores, so its
    accuracy on fresh ones is lower, and even uninformative scores give a value above 1/2.

    Raises:
      NotApplicableError: There are no included or no excluded scores.

    >>> balanced_accuracy(CanaryScores(included=[1.0, 2.0], excluded=[0.0, 1.0]))
    0.75
    """
    curve = RocCurve.from_scores(scores)
    advantage = curve.true_positive_rates - curve.false_positive_rates
    return float(1 + np.max(advantage)) / 2


def auc(scores: CanaryScores) -> float:
    """The probability that a random included score exceeds a random excluded one, ties as a half.

    It is the Mann-Whitney statistic over the number of pairs: the area under the ROC curve.

    Raises:
      NotApplicableError: There are no included or no excluded scores.

    >>> auc(CanaryScores(included=[1.0, 2.0], excluded=[0.0, 1.0]))
    0.875
    """
    require_both_classes(scores)
    return float(np.mean(_shares_below(scores.included, scores.excluded)))


def auc_interval(scores: CanaryScores, confidence: float) -> ApproximateInterval:
    """A two-sided interval for the area under the ROC curve, in O(n log n).

    The interval uses the variance of DeLong, DeLong & Clarke-Pearson (1988), "Comparing the areas
    under two or more correlated receiver operating characteristic curves", Biometrics 44, computed
    from ranks (Sun & Xu 2014), and a normal approximation of the area's log odds (Pepe 2003, "The
    statistical evaluation of medical tests", chapter 5), which stays within [0, 1].

    That variance is 0 exactly if all pairs of an included and an excluded score have the same
    outcome: w = 1, 0 or, all tied, 1/2. Then the smaller class gives m disjoint pairs, all of that
    outcome, so with this confidence its probability is at least q = (1 - confidence)^(1 / m)
    (Clopper & Pearson 1934): the interval is [w q, w q + 1 - q]. With a single canary in either
    class the variance cannot be estimated, and the interval is [0, 1].

    Args:
      scores: Scores of included and excluded canaries.
      confidence: Confidence in (0, 1), in the limit of many scores.

    Raises:
      InputError: The confidence is out of range.
      NotApplicableError: There are no included or no excluded scores.

    >>> rng = np.random.default_rng(1)
    >>> scores = CanaryScores(included=rng.normal(1, 1, 500), excluded=rng.normal(0, 1, 500))
    >>> interval = auc_interval(scores, 0.95)  # the true area is 0.760
    >>> round(interval.lower, 3), round(interval.upper, 3)
    (0.741, 0.799)
    """
    require_both_classes(scores)
    check_confidence(confidence)
    smaller = min(scores.num_included, scores.num_excluded)
    if smaller == 1:
        return ApproximateInterval(0.0, 1.0)
    included = _shares_below(scores.included, scores.excluded)
    excluded = _shares_below(scores.excluded, scores.included)
    area = float(np.mean(included))
    if np.ptp(included) == 0 and np.ptp(excluded) == 0:
        chance = (1 - confidence) ** (1 / smaller)
        return ApproximateInterval(area * chance, area * chance + (1 - chance))
    variance = np.var(included, ddof=1) / len(included) + np.var(excluded, ddof=1) / len(excluded)
    log_odds = float(special.logit(area))
    margin = -special.ndtri((1 - confidence) / 2) * math.sqrt(variance) / (area * (1 - area))
    return ApproximateInterval(
        float(special.expit(log_odds - margin)), float(special.expit(log_odds + margin))
    )


def _shares_below(points: FloatArray, others: FloatArray) -> FloatArray:
    """For each point, ascending, the share of `others` below it; equal ones count half."""
    points, others = np.sort(points), np.sort(others)
    below = np.searchsorted(others, points, "left") + np.searchsorted(others, points, "right")
    return np.asarray(below / (2 * len(others)))
