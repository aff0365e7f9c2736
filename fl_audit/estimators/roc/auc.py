"""The area under the ROC curve, and how precisely the scores determine it."""

import math

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.roc.interval import ApproximateInterval
from fl_audit.estimators.roc.roc import require_both_classes
from fl_audit.estimators.scores import CanaryScores


def auc(scores: CanaryScores) -> float:
    """The chance that a random included score exceeds a random excluded one, with ties as a half.

    It is the Mann-Whitney statistic over the number of pairs: the area under the ROC curve.

    Raises:
      NotApplicableError: If there are no included or no excluded scores.

    >>> auc(CanaryScores(included=[1.0, 2.0], excluded=[0.0, 1.0]))
    0.875
    """
    require_both_classes(scores)
    return float(np.mean(_shares_below(scores.included, scores.excluded)))


def auc_interval(scores: CanaryScores, confidence: float) -> ApproximateInterval:
    """A two-sided interval for the area under the ROC curve, in O(n log n).

    The interval is by the variance of DeLong, DeLong & Clarke-Pearson (1988), "Comparing the areas
    under two or more correlated receiver operating characteristic curves", Biometrics 44, from the
    ranks (Sun & Xu 2014), and a normal approximation of the area's log odds (Pepe 2003, "The
    statistical evaluation of medical tests", chapter 5), which stays within [0, 1].

    That variance is 0 exactly if all pairs of an included and an excluded score come out the same
    way: w = 1, 0 or, all tied, 1/2. Then the smaller class gives m disjoint pairs, all of that
    outcome, and its chance is at least q = (1 - confidence)^(1 / m) (Clopper & Pearson 1934): the
    interval is [w q, w q + 1 - q]. With a single canary on either side there is no variance, and
    it is [0, 1].

    Args:
      scores: Scores of included and excluded canaries.
      confidence: Confidence in (0, 1), which holds in the limit of many scores.

    Raises:
      InputError: If the confidence is out of range.
      NotApplicableError: If there are no included or no excluded scores.

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
    """Shares of the others below each point, ties half, in the order of size, of shape (n,)."""
    points, others = np.sort(points), np.sort(others)
    below = np.searchsorted(others, points, "left") + np.searchsorted(others, points, "right")
    return np.asarray(below / (2 * len(others)))
