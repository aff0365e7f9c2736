"""The threshold whose bounded error rates prove the largest epsilon."""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.gaussian.best_threshold import Guess
from fl_audit.estimators.rates import log_ratio
from fl_audit.estimators.result import Detail
from fl_audit.estimators.threshold.error_rate_bounds import LogRates


@dataclass(frozen=True)
class ProvenThreshold:
    """A threshold and the epsilon that bounds on its error rates prove.

    Attributes:
      epsilon: The largest epsilon proven, in nats, at least 0, possibly infinite.
      threshold: Threshold above which scores are guessed to be included; equal ones as the method
        says.
      guess: The guess that proves it: "included" by (TPR - delta) / FPR, "excluded" by
        (TNR - delta) / FNR.
      false_negatives: Number of included canaries guessed to be excluded.
      fnr_upper: Upper bound on the false negative rate.
      log_fpr_upper: Log of the (upper bound on the) false positive rate.
      index: Index of the threshold among those compared.
    """

    epsilon: float
    threshold: float
    guess: Guess
    false_negatives: int
    fnr_upper: float
    log_fpr_upper: float
    index: int

    def details(self) -> dict[str, Detail]:
        """The details of an estimate that tell of its threshold."""
        return {
            "threshold": self.threshold,
            "direction": self.guess,
            "false_negatives": self.false_negatives,
            "fnr_upper": self.fnr_upper,
            "log_fpr_upper": self.log_fpr_upper,
        }


def strongest_threshold(
    thresholds: FloatArray,
    false_negatives: IntArray,
    negatives: LogRates,
    positives: LogRates,
    delta: float,
) -> ProvenThreshold:
    """The threshold with the largest max(log((TPR - delta) / FPR), log((TNR - delta) / FNR)).

    Args:
      thresholds: At least one threshold, float64 of shape (t,).
      false_negatives: Numbers of false negatives, int64 of shape (t,).
      negatives: Bounds on the false negative rates, of shape (t,).
      positives: Bounds on the false positive rates, or these rates, of shape (t,).
      delta: The delta of differential privacy, in [0, 1).

    >>> rates = LogRates(error=np.log([0.1, 0.2]), success=np.log([0.9, 0.8]))
    >>> strongest_threshold(np.array([1.0, 2.0]), np.array([0, 0]), rates, rates, 0).threshold
    1.0
    """
    by_included = log_ratio(negatives.success, positives.error, delta)
    by_excluded = log_ratio(positives.success, negatives.error, delta)
    proven = np.maximum(by_included, by_excluded)
    best = int(np.argmax(proven))
    return ProvenThreshold(
        epsilon=max(float(proven[best]), 0.0),
        threshold=float(thresholds[best]),
        guess="included" if by_included[best] >= by_excluded[best] else "excluded",
        false_negatives=int(false_negatives[best]),
        fnr_upper=math.exp(negatives.error[best]),
        log_fpr_upper=float(positives.error[best]),
        index=best,
    )
