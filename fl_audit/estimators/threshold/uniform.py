"""Bounds and tests at many thresholds at once, so that one may be chosen on the data."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.laws import NullTail
from fl_audit.estimators.result import Detail
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.band import true_positive_band
from fl_audit.estimators.threshold.error_rate_bounds import LogRates, bounded_false_positives
from fl_audit.estimators.threshold.rank_tests import (
    LargestRate,
    largest_rejected_claim,
    rank_tests,
)


@dataclass(frozen=True, eq=False)
class BoundedThresholds:
    """Included scores as thresholds, where the null is known: all bounds hold at once.

    Attributes:
      thresholds: Thresholds, float64 of shape (t,); scores at least this are guessed to be
        included.
      false_negatives: Numbers of included scores below the thresholds, int64 of shape (t,).
      negatives: Bounds on the false negative rates, of shape (t,).
      positives: Upper bounds on the false positive rates, which hold with certainty, of shape (t,).
      levels: Probabilities with which each single bound may fail, float64 of shape (t,).
    """

    thresholds: FloatArray
    false_negatives: IntArray
    negatives: LogRates
    positives: LogRates
    levels: FloatArray


@dataclass(frozen=True)
class RejectedThreshold:
    """The excluded score that, as a threshold, rejects the largest claim of privacy.

    Attributes:
      claim: The largest claim rejected, such as epsilon; 0 if none is.
      threshold: Threshold above which scores are guessed to be included.
      rank: Rank of the threshold among the excluded scores, 1 for the largest.
      num_excluded: Number of excluded scores.
      false_negatives: Number of included scores not above the threshold.
      false_positives: Number of excluded scores above the threshold.
      level: The probability with which the test at this rank may fail.
      num_tests: Number of ranks tested.
    """

    claim: float
    threshold: float
    rank: int
    num_excluded: int
    false_negatives: int
    false_positives: int
    level: float
    num_tests: int

    def details(self) -> dict[str, Detail]:
        """The details of an estimate that tell of its threshold."""
        return {
            "threshold": self.threshold,
            "excluded_rank": self.rank,
            "false_negatives": self.false_negatives,
            "false_positives": self.false_positives,
            "local_level": self.level,
            "num_thresholds": self.num_tests,
        }


def bounded_thresholds(
    scores: CanaryScores, confidence: float, null: NullTail
) -> BoundedThresholds:
    """The thresholds of the true positive band (band.py), with their error rates.

    Args:
      scores: Scores with at least one included one.
      confidence: Confidence of all bounds together, in (0, 1).
      null: What is known of an excluded canary's score.
    """
    included = np.sort(scores.included)
    band = true_positive_band(len(included), confidence)
    thresholds = included[len(included) - band.ranks]
    return BoundedThresholds(
        thresholds=thresholds,
        false_negatives=np.searchsorted(included, thresholds),
        negatives=band.negatives,
        positives=bounded_false_positives(null, thresholds),
        levels=band.levels,
    )


def strongest_rejection(setting: AuditSetting, largest_rate: LargestRate) -> RejectedThreshold:
    """The largest claim that a test at some excluded score rejects (rank_tests.py).

    Args:
      setting: Setting with at least one included and one excluded score.
      largest_rate: The largest true positive rates that a claim allows.
    """
    included, excluded = np.sort(setting.scores.included), np.sort(setting.scores.excluded)
    tests = rank_tests(len(excluded), setting.confidence)
    thresholds = excluded[len(excluded) - tests.ranks]
    not_above = np.searchsorted(included, thresholds, side="right")
    above = len(included) - not_above
    rejected = largest_rejected_claim(tests, above, len(included), largest_rate)
    best = rejected.index
    threshold = thresholds[best]
    return RejectedThreshold(
        claim=rejected.claim,
        threshold=float(threshold),
        rank=int(tests.ranks[best]),
        num_excluded=len(excluded),
        false_negatives=int(not_above[best]),
        false_positives=int(np.sum(excluded > threshold)),
        level=float(tests.levels[best]),
        num_tests=len(tests.ranks),
    )
