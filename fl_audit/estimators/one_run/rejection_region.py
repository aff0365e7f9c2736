"""The right guesses that make `one_run_valid` exceed an epsilon, for many samples of one size.

`one_run_valid` finds a bound for the guesses at hand. A simulation asks many times whether that
bound exceeds one epsilon: the guesses of a plan for which it does are a region, found once.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import BoolArray
from fl_audit.estimators.one_run.plan import GuessPlan, plans_of_samples
from fl_audit.estimators.one_run.walk import Boundary, boundary_at
from fl_audit.estimators.one_run.walk_event import WalkEvent
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.estimators.setting import AuditSetting

_PLANNED = 32
"""Number of samples that are planned for."""

_STEP = 0.01
_FARTHEST = 8.0
"""How far beyond epsilon a boundary is tried."""


@dataclass(frozen=True, eq=False)
class OneRunRegion:
    """The event that the walk of right guesses of a plan reaches a boundary, if any can."""

    plan: GuessPlan
    boundary: Boundary | None

    def rejects(self, scores: CanaryScores) -> bool:
        """Whether these scores, which the plan is for, are in the region."""
        if self.boundary is None or len(self.boundary.totals) == 0:
            return False
        correct = self.plan.order.correct(scores, self.boundary.totals)
        return bool(np.any(correct >= self.boundary.heights))


def one_run_region(epsilon: float, m_delta: float, level: float, plan: GuessPlan) -> OneRunRegion:
    """The largest region, to 0.01 in the log odds of its boundary, that is unlikely enough.

    Args:
      epsilon: The epsilon to reject, above 0.
      m_delta: Number of coins, one for each canary or pair, times the delta of the claim.
      level: One minus the confidence of the bound; the plan's order has its share of it.
      plan: The plan of guesses.
    """
    alpha, totals = plan.order.share * level, plan.totals()
    levels = (alpha - (plan.spare or 0.0)) * plan.levels(totals)
    log_odds = plan.order.log_odds(epsilon)

    def boundary(steps: int) -> Boundary:
        return boundary_at(totals, log_odds + _STEP * steps, levels)

    def rejects(event: Boundary) -> bool:
        return len(event.totals) == 0 or WalkEvent(m_delta, event, plan, alpha).rejects(epsilon)

    low, high = -1, round(_FARTHEST / _STEP)
    if not rejects(boundary(high)):
        return OneRunRegion(plan, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rejects(boundary(middle)) else (middle, high)
    return OneRunRegion(plan, boundary(high))


def one_run_rejection(
    epsilon: float, delta: float, level: float
) -> Callable[[Sequence[AuditSetting]], BoolArray]:
    """A test of whether samples make `one_run_valid` exceed epsilon, by regions for each plan.

    Of more than 32 samples at a time, which then have to be of one law, the others take the plans
    of the first 32: plans differ little, and to make one takes longer than all else.

    Args:
      epsilon: The epsilon to reject, above 0.
      delta: The delta of the claim to reject, in [0, 1).
      level: One minus the confidence of the bound.
    """
    region_of = functools.cache(lambda m_delta, plan: one_run_region(epsilon, m_delta, level, plan))

    def rejects(settings: Sequence[AuditSetting]) -> BoolArray:
        found = np.zeros(len(settings), bool)
        for members in _alike(settings):
            samples = [settings[index].scores for index in members]
            plans = plans_of_samples(samples[:_PLANNED], delta, level)
            for index, scores, tried in zip(members, samples, itertools.cycle(plans), strict=False):
                regions = (region_of(scores.num_coins * delta, plan) for plan in tried)
                found[index] = any(region.rejects(scores) for region in regions)
        return found

    return rejects


def _alike(settings: Sequence[AuditSetting]) -> Iterable[list[int]]:
    """The indices of settings with both kinds of canaries, those of as many coins together."""
    found: dict[tuple[Inclusion, float, int], list[int]] = {}
    for index, setting in enumerate(settings):
        scores = setting.scores
        if scores.num_included and scores.num_excluded:
            key = (scores.inclusion, scores.inclusion_probability, scores.num_coins)
            found.setdefault(key, []).append(index)
    return found.values()
