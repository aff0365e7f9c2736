"""The event that a walk of right guesses reaches its boundary, and what that proves."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.one_run.largest_rejected import crossing_point
from fl_audit.estimators.one_run.plan import GuessPlan
from fl_audit.estimators.one_run.walk import Boundary

_NEGLIGIBLE = 1e-9
"""The probability that the walk may lose at each r, in units of alpha."""

_TRIED = 5
"""The epsilons, but for the largest, at which the chance with delta is computed first."""

_FINER = 20
"""The same around the least of these chances, where all are too large."""

_LARGER = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
"""What is added to an epsilon to see whether a larger one is rejected, and it with that."""

_TOLERANCE = 1e-7
"""The amount taken off the bound, so that it errs to the valid side."""


@dataclass(frozen=True)
class RejectedOdds:
    """What an event proves.

    Attributes:
      log_odds: The largest log odds of a right guess that are rejected.
      p_value_at_0: The p-value of epsilon 0.
    """

    log_odds: float
    p_value_at_0: float


@dataclass(frozen=True)
class WalkEvent:
    """The event that the walk crosses the boundary, by the log odds of a right guess.

    With fair coins these are epsilon.

    Attributes:
      m_delta: Number of coins times delta.
      boundary: The boundary drawn through the observed right guesses.
      plan: The plan of the guesses.
      alpha: The failure probability.
    """

    m_delta: float
    boundary: Boundary
    plan: GuessPlan
    alpha: float

    def crossing(self, log_odds: float) -> float:
        """A bound on the probability of the event where delta is 0."""
        return self.boundary.crossing(log_odds, _NEGLIGIBLE * self.alpha)

    def delta_term(self, log_odds: float) -> float:
        """A bound on what delta adds to the probability."""
        factor = self.plan.order.coin_delta(log_odds, self.m_delta)
        return factor * self.boundary.delta_factor(log_odds)

    def chance(self, log_odds: float) -> float:
        """A bound on the probability of the event with delta, possibly above 1."""
        return self.crossing(log_odds) + self.delta_term(log_odds)

    def rejects(self, epsilon: float) -> bool:
        """Whether the event proves more than an epsilon.

        Where nothing is spared for delta, it is asked at this epsilon and at a few larger ones.
        """
        log_odds = self.plan.order.log_odds(epsilon)
        if self.crossing(log_odds) >= self.alpha - (self.plan.spare or 0.0):
            return False
        if self.plan.spare is not None:
            return self.largest_below(start=log_odds).log_odds > log_odds
        return any(
            self.crossing(log_odds + more) < self.alpha
            and self.chance(log_odds + more) < self.alpha
            for more in _LARGER
        )

    def largest_below(self, start: float) -> RejectedOdds:
        """The largest log odds found at which the chance of the event is below alpha.

        Those of epsilon 0 if there are none. Where a part of alpha is spared for delta, it is the
        largest at which the chance without delta is below the rest, if delta adds no more there
        than is spared (the theorem in plan.py).

        At delta = 0 the chance grows with epsilon. With a larger delta it may fall first, and the
        search goes down from where the chance at delta = 0 reaches alpha, the nearer to `start` the
        faster.
        """
        crossing = functools.cache(self.crossing)
        lowest = self.plan.order.log_odds(0.0)
        left = self.alpha - (self.plan.spare or 0.0)
        if crossing(lowest) >= left:
            return RejectedOdds(lowest, min(1.0, self.chance(lowest)))
        low, high, step = lowest, max(start, lowest), 0.1
        while crossing(high) < left:
            low, high, step = high, high + step, 2 * step
        while low < high - step and crossing(high - step) >= left:
            high, step = high - step, 2 * step
        low = max(low, high - step)
        limit = _reaches(left, crossing, low, high)
        if self.m_delta == 0:
            return RejectedOdds(limit, self.boundary.crossing(lowest))
        if self.plan.spare is not None:
            p_value = min(1.0, self.chance(lowest), self.chance((lowest + limit) / 2))
            is_enough = self.delta_term(limit) <= self.plan.spare
            return RejectedOdds(limit if is_enough else lowest, p_value)
        tried, chances = self._tried(limit)
        below = np.flatnonzero(np.array(chances[:-1]) < self.alpha)
        if len(below) == 0:
            return RejectedOdds(lowest, min(1.0, *chances))
        i = int(below[-1])
        log_odds = _reaches(self.alpha, self.chance, float(tried[i]), float(tried[i + 1]))
        return RejectedOdds(log_odds, min(chances))

    def _tried(self, limit: float) -> tuple[FloatArray, list[float]]:
        """Some log odds up to a limit, ascending, and the chances there.

        Where none of them is below alpha, others are tried next to the least chance: with delta
        those whose chance is below alpha may be few.
        """
        lowest = self.plan.order.log_odds(0.0)
        tried = lowest + (limit - lowest) * np.arange(_TRIED + 1) / _TRIED
        chances = [self.chance(log_odds) for log_odds in tried]
        if min(chances[:-1]) < self.alpha:
            return tried, chances
        least = int(np.argmin(chances))
        low, high = tried[max(least - 1, 0)], tried[min(least + 1, _TRIED)]
        finer = np.linspace(low, high, _FINER + 1)
        return finer, [self.chance(log_odds) for log_odds in finer]


def _reaches(alpha: float, chance: Callable[[float], float], low: float, high: float) -> float:
    """The point where a chance below alpha at `low` reaches it; `high` if it does not before."""
    point = crossing_point(chance, alpha, low, high, _TOLERANCE)
    return point if point == high else max(point - _TOLERANCE, low)
