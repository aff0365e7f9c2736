"""The right guesses that make `one_run_valid` exceed an epsilon, for many samples of one size.

`one_run_valid` finds a bound for the guesses at hand. A simulation asks many times whether that
bound exceeds one epsilon: the guesses for which it does are a region, found once.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.one_run.guess_orders import GuessOrder, orders_of
from fl_audit.estimators.one_run.valid import totals_in_order
from fl_audit.estimators.one_run.walk import Boundary, boundary_at
from fl_audit.estimators.scores import CanaryScores

_SINGLE_LEVEL = 1 / 8
_NEGLIGIBLE = 1e-9
_STEP = 0.01
_FARTHEST = 8.0
"""How far beyond epsilon a boundary is tried."""


@dataclass(frozen=True, eq=False)
class OneRunRegion:
    """The event that the walk of right guesses in an order reaches a boundary, if any can."""

    order: GuessOrder
    boundary: Boundary | None

    def rejects(self, scores: CanaryScores) -> bool:
        """Whether these scores are in the region."""
        if self.boundary is None or len(self.boundary.totals) == 0:
            return False
        correct = self.order.correct(scores, self.boundary.totals)
        return bool(np.any(correct >= self.boundary.heights))


def one_run_region(
    epsilon: float, delta: float, num_coins: int, level: float, order: GuessOrder
) -> OneRunRegion:
    """The largest region, to 0.01 in the epsilon of its boundary, that is as unlikely as its share.

    Its chance is taken at `epsilon`. `one_run_valid` also tries larger ones, at which the term in
    delta is smaller: with many canaries times delta it rejects a little more.

    Args:
      epsilon: The epsilon to reject, above 0.
      delta: The delta of the claim to reject, in [0, 1).
      num_coins: Number of coins m, one for each canary or pair, at least 2.
      level: One minus the confidence of the bound; the order has its share of it.
      order: The order of guesses.
    """
    alpha = order.share * level
    totals = totals_in_order(order, num_coins, delta, alpha)
    log_odds = order.log_odds(epsilon)
    m_delta = num_coins * order.coin_delta(log_odds, delta)

    def boundary(steps: int) -> Boundary:
        return boundary_at(totals, log_odds + _STEP * steps, _SINGLE_LEVEL * alpha)

    def unlikely(event: Boundary) -> bool:
        if len(event.totals) == 0:
            return True
        chance = event.crossing(log_odds, _NEGLIGIBLE * alpha)
        return chance < alpha and chance + m_delta * event.delta_factor(log_odds) < alpha

    low, high = -1, round(_FARTHEST / _STEP)
    if not unlikely(boundary(high)):
        return OneRunRegion(order, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if unlikely(boundary(middle)) else (middle, high)
    return OneRunRegion(order, boundary(high))


def one_run_rejection(epsilon: float, delta: float, level: float) -> Callable[[CanaryScores], bool]:
    """A test of whether scores make `one_run_valid` exceed epsilon, by regions for each size.

    Args:
      epsilon: The epsilon to reject, above 0.
      delta: The delta of the claim to reject, in [0, 1).
      level: One minus the confidence of the bound.
    """
    region_of = functools.cache(
        lambda num_coins, order: one_run_region(epsilon, delta, num_coins, level, order)
    )

    def rejects(scores: CanaryScores) -> bool:
        is_allowed = scores.num_included > 0 and scores.num_excluded > 0
        return is_allowed and any(
            region_of(scores.num_coins, order).rejects(scores) for order in orders_of(scores)
        )

    return rejects
