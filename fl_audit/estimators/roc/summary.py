"""The numbers that papers on membership inference report of an attack, all together."""

from dataclasses import dataclass

from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.roc.auc import auc, auc_interval
from fl_audit.estimators.roc.interval import ApproximateInterval
from fl_audit.estimators.roc.roc import allowed_false_positives, balanced_accuracy, tpr_at_fpr
from fl_audit.estimators.roc.tpr_interval import LEAST_FALSE_POSITIVES, tpr_at_fpr_interval
from fl_audit.estimators.scores import CanaryScores

REPORTED_RATES = (0.001, 0.01, 0.1)
"""The false positive rates at which the true positive rate is reported."""


@dataclass(frozen=True)
class OperatingPoint:
    """The best true positive rate at a false positive rate.

    Attributes:
      false_positive_rate: The largest false positive rate allowed.
      false_positives: The number of false positives that this allows; 0 where there are too few
        excluded scores.
      true_positive_rate: The largest true positive rate of a threshold that keeps to it.
      interval: Bias-corrected bootstrap interval; None with fewer than 10 false positives allowed,
        where the bootstrap fails.
    """

    false_positive_rate: float
    false_positives: int
    true_positive_rate: float
    interval: ApproximateInterval | None

    def to_json(self) -> dict[str, object]:
        """The point as a JSON object."""
        return {
            "false_positive_rate": self.false_positive_rate,
            "false_positives": self.false_positives,
            "true_positive_rate": self.true_positive_rate,
            "interval": self.interval and self.interval.to_json(),
        }


@dataclass(frozen=True)
class RocSummary:
    """A summary of how well scores tell included from excluded canaries, no bound on epsilon.

    Attributes:
      num_included: Number of canaries that took part in training.
      num_excluded: Number of canaries that did not.
      confidence: Confidence of each interval, in the limit of many scores.
      auc: Area under the ROC curve; 1/2 for scores that tell nothing.
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
        return {
            "num_included": self.num_included,
            "num_excluded": self.num_excluded,
            "confidence": self.confidence,
            "auc": self.auc,
            "auc_interval": self.auc_interval.to_json(),
            "operating_points": [point.to_json() for point in self.operating_points],
            "balanced_accuracy": self.balanced_accuracy,
        }


def roc_summary(scores: CanaryScores, confidence: float = 0.95, seed: int = 0) -> RocSummary:
    """The usual numbers of a membership inference attack by these scores.

    Args:
      scores: Scores of included and excluded canaries.
      confidence: Confidence of each interval, in (0, 1).
      seed: Seed of the bootstrap; the same seed gives the same intervals.

    Raises:
      InputError: If the confidence is out of range.
      NotApplicableError: If there are no included or no excluded scores.

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
