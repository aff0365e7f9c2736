"""Whether many samples make `threshold_valid` exceed one epsilon, as simulations ask.

`threshold_valid` finds the largest bound of a sample. Whether that exceeds one epsilon takes no
search: with a known null, a bound at each threshold; without one, a count of included scores above
each excluded one that is looked at, against a critical count that is found once.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from fl_audit.array_types import BoolArray, IntArray
from fl_audit.estimators.beta_cdf import beta_cdf
from fl_audit.estimators.laws import NullTail
from fl_audit.estimators.rates import log_ratio
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.band import true_positive_band
from fl_audit.estimators.threshold.error_rate_bounds import bounded_false_positives
from fl_audit.estimators.threshold.rank_tests import largest_rate, rank_tests


def threshold_rejection(
    epsilon: float, delta: float, level: float
) -> Callable[[Sequence[AuditSetting]], BoolArray]:
    """A test of whether samples make `threshold_valid` exceed epsilon.

    A known null is taken for true: the scores are not asked whether they refute it.

    Args:
      epsilon: The epsilon to reject, at least 0.
      delta: The delta of the claim to reject, in [0, 1).
      level: One minus the confidence of the bound.
    """

    def by_band(samples: Sequence[CanaryScores], tail: NullTail) -> BoolArray:
        included = np.sort(np.stack([scores.included for scores in samples]), axis=1)
        band = true_positive_band(included.shape[1], 1 - level)
        positives = bounded_false_positives(tail, included[:, included.shape[1] - band.ranks])
        by_included = log_ratio(band.negatives.success, positives.error, delta)
        by_excluded = log_ratio(positives.success, band.negatives.error, delta)
        return np.asarray((np.maximum(by_included, by_excluded) > epsilon).any(axis=1))

    @functools.cache
    def enough_above(num_included: int, num_excluded: int) -> IntArray:
        return _enough_above(num_included, num_excluded, epsilon, delta, level)

    def by_ranks(samples: Sequence[CanaryScores]) -> BoolArray:
        ranks = rank_tests(samples[0].num_excluded, 1 - level).ranks
        enough = enough_above(samples[0].num_included, samples[0].num_excluded)
        return np.array([np.any(_above(scores, ranks) >= enough) for scores in samples], bool)

    def rejects(settings: Sequence[AuditSetting]) -> BoolArray:
        groups: dict[tuple[NullTail | None, int, int], list[int]] = {}
        for index, setting in enumerate(settings):
            sizes = setting.scores.num_included, setting.scores.num_excluded
            groups.setdefault((setting.known_tail(), *sizes), []).append(index)
        found = np.zeros(len(settings), bool)
        for (tail, num_included, num_excluded), members in groups.items():
            samples = [settings[index].scores for index in members]
            if num_included and tail is not None:
                found[members] = by_band(samples, tail)
            elif num_included and num_excluded > 1:
                found[members] = by_ranks(samples)
        return found

    return rejects


def _above(scores: CanaryScores, ranks: IntArray) -> IntArray:
    """How many included scores are above the excluded ones of these ranks."""
    thresholds = np.sort(scores.excluded)[scores.num_excluded - ranks]
    not_above = np.searchsorted(np.sort(scores.included), thresholds, side="right")
    return np.asarray(scores.num_included - not_above)


def _enough_above(n1: int, n0: int, epsilon: float, delta: float, level: float) -> IntArray:
    """The fewest included scores above each excluded one that reject epsilon; n1 + 1 if none do."""
    tests = rank_tests(n0, 1 - level)
    rates = largest_rate(delta)(tests.cells, epsilon)
    low, high = np.ones(len(tests.ranks), np.int64), np.full(len(tests.ranks), n1 + 1)
    while np.any(low < high):
        middle = ((low + high) // 2)[:, None]
        tails = beta_cdf(middle, np.maximum(n1 - middle + 1, 1), rates) @ tests.masses
        rejected = (tails < tests.levels) & (middle[:, 0] <= n1)
        low = np.where(rejected, low, middle[:, 0] + 1)
        high = np.where(rejected, middle[:, 0], high)
        low = np.minimum(low, high)
    return np.asarray(low)
