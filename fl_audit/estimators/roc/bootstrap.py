"""Bias-corrected bootstrap intervals for any statistic of the scores.

scipy.stats.bootstrap corrects the bias of statistics of one sample only (scipy 1.9), and scores
are two: the canaries that were included and those that were not.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.roc.interval import ApproximateInterval
from fl_audit.estimators.scores import CanaryScores

Statistic = Callable[[CanaryScores], float]


def bootstrap_interval(
    scores: CanaryScores,
    statistic: Statistic,
    *,
    confidence: float,
    seed: int,
    resamples: int = 2000,
) -> ApproximateInterval:
    """A bias-corrected percentile interval for a statistic of the scores.

    Included and excluded scores are each drawn with replacement, as many as there are. The
    interval is approximate: right in the limit of many scores and for smooth statistics. It is
    not a valid bound: for a few scores, for extremes (a largest score, a rate at next to no false
    positives) and for what is maximised on the scores it covers less than it says. In particular
    an interval of an epsilon proves nothing; `threshold_valid` does.

    Args:
      scores: The canaries' scores.
      statistic: A function of scores, such as `auc`, that is not NaN.
      confidence: Confidence of the interval, in (0, 1).
      seed: Seed of the resampling; the same seed gives the same interval.
      resamples: Number of draws, at least 1.

    Raises:
      InputError: If the confidence or the number of resamples is out of range.
      ValueError: If the statistic is NaN.

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
    """Refuse a bootstrap without any resample.

    Raises:
      InputError: If the number of resamples is below 1.
    """
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, got {resamples}")


def bias_corrected_interval(
    estimate: float, replicates: npt.ArrayLike, confidence: float
) -> ApproximateInterval:
    """The interval from an estimate and its bootstrap replicates.

    With z0 the normal quantile of the share of replicates below the estimate (equal ones half),
    its ends are the replicates' quantiles at Phi(2 z0 -+ z), z that of the confidence: the BC
    interval of Efron (1987), "Better bootstrap confidence intervals", JASA 82, 171-185. The
    acceleration of BCa is left out, as it needs the statistic without each score in turn.

    Args:
      estimate: The statistic of the scores themselves.
      replicates: The statistic of each resample, possibly infinite, float64 of shape (r,).
      confidence: Confidence of the interval, in (0, 1).

    Raises:
      ValueError: If a value is NaN.
    """
    values = np.sort(np.asarray(replicates, dtype=np.float64))
    count = len(values)
    if np.isnan(values[-1]) or np.isnan(estimate):
        raise ValueError("the statistic must be a number, got NaN")
    below = (np.sum(values < estimate) + np.sum(values <= estimate)) / (2 * count)
    # Within half a replicate of the ends, so that the quantile is finite.
    shift = 2 * special.ndtri(np.clip(below, 0.5 / count, 1 - 0.5 / count))
    half_width = -special.ndtri((1 - confidence) / 2)
    levels = special.ndtr(np.array([shift - half_width, shift + half_width]))
    lower, upper = values[np.clip(np.ceil(levels * count).astype(int) - 1, 0, count - 1)]
    return ApproximateInterval(float(lower), float(upper))


def _resampled(scores: CanaryScores, rng: np.random.Generator) -> CanaryScores:
    def drawn(values: FloatArray) -> FloatArray:
        return np.asarray(rng.choice(values, len(values))) if len(values) else values

    return CanaryScores(drawn(scores.included), drawn(scores.excluded))
