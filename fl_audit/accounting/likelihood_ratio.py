"""The law of a likelihood ratio on a grid, from which epsilon follows as a proven upper bound.

Two laws P and Q are compared through R = dP/dQ. Under Q it has mean 1, and both directions of
differential privacy are means under Q of a convex function of R:

    delta(P, Q) = E (R - e^eps)_+,    delta(Q, P) = E (1 - e^eps R)_+.

So whatever moves mass of R apart without moving its mean (R' is then larger in the convex order)
can only raise both: the pair that belongs to R' dominates (P, Q). Every rounding here is such a
move. A value between two points of the grid goes to both, in the proportion that keeps the mean; a
value below the grid goes to 0 and to the lowest point, one above it to the highest point and to
infinity. The convex order is kept by weighted sums and by products of independent ratios, as a sum
or a product is convex in each one while the others stand still, so that it holds for what these
operations make of rounded laws too. docs/threat_models.md has the argument in full.

All masses are positive and are only added and multiplied, without a Fourier transform, so that
each keeps its relative precision however small it is.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.optimal_tests import OptimalTests

_ROUNDING = 1e-9
"""What floating point may change, relative to delta and in epsilon; 1e-11 as measured."""

_TESTS = 4_000
"""The largest number of thresholds to choose from."""

_NEGLIGIBLE = 40.0
"""The log ratio beyond which the smaller of two summands, 4e-18 of the larger, is rounding."""


@dataclass(frozen=True, eq=False)
class RatioLaw:
    """The law of a likelihood ratio R = dP/dQ under Q, at points of a geometric grid.

    Attributes:
      step: The distance h of two points in log R.
      first: The log of the lowest point.
      masses: The Q-mass of each point e^(first + h i), float64 of shape (points,).
      at_zero: The Q-mass at R = 0, where P has none.
      at_infinity: The P-mass at R = infinity, where Q has none.
    """

    step: float
    first: float
    masses: FloatArray
    at_zero: float
    at_infinity: float

    @functools.cached_property
    def logs(self) -> FloatArray:
        """The logs of the points, float64 of shape (points,)."""
        return self.first + self.step * np.arange(len(self.masses))

    @functools.cached_property
    def p_masses(self) -> FloatArray:
        """The P-mass of each point, float64 of shape (points,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(np.log(self.masses) + self.logs))

    def deltas(self, epsilon: float) -> tuple[float, float]:
        """The smallest deltas with which (P, Q) and (Q, P) are (epsilon, delta)-close."""
        above, below = self.logs > epsilon, self.logs < -epsilon
        forth = -self.p_masses[above] @ np.expm1(epsilon - self.logs[above])
        back = -self.masses[below] @ np.expm1(epsilon + self.logs[below])
        return self.at_infinity + float(forth), self.at_zero + float(back)

    def epsilon(self, delta: float) -> float:
        """An upper bound on epsilon in both directions, infinite where delta is too small.

        Args:
          delta: The delta of differential privacy, in (0, 1).
        """
        allowed = delta * (1 - _ROUNDING)
        if max(self.at_infinity, self.at_zero) >= allowed:
            return math.inf
        least = supremum(lambda epsilon: max(self.deltas(epsilon)) > allowed)
        return least + _ROUNDING if least else 0.0

    def trimmed(self, tail: float) -> "RatioLaw":
        """The law without its ends, which go to 0, infinity and the ends of what is left.

        Args:
          tail: The most Q-mass to move below, and the most P-mass to move above.
        """
        low = int(np.searchsorted(np.cumsum(self.masses), tail, side="right"))
        top = int(np.searchsorted(np.cumsum(self.p_masses[::-1]), tail, side="right"))
        high = len(self.masses) - 1 - top
        if low > high:
            return self
        kept = self.masses[low : high + 1].copy()
        below, above = self.masses[:low], self.masses[high + 1 :]
        of_lowest = self.logs[:low] - self.logs[low]
        of_highest = self.logs[high] - self.logs[high + 1 :]
        kept[0] += below @ np.exp(of_lowest)
        kept[-1] += above.sum()
        return RatioLaw(
            self.step,
            float(self.logs[low]),
            kept,
            self.at_zero - float(below @ np.expm1(of_lowest)),
            self.at_infinity - float(self.p_masses[high + 1 :] @ np.expm1(of_highest)),
        )

    def optimal_tests(self) -> OptimalTests:
        """The tests that tell P from Q by R >= r, for up to `_TESTS` points r of the grid."""
        kept = np.unique(np.linspace(0, len(self.masses) - 1, _TESTS).astype(np.int64))
        with np.errstate(divide="ignore"):
            log_fpr = np.log(np.cumsum(self.masses[::-1])[::-1])
        return OptimalTests(
            log_fpr=log_fpr[kept],
            tpr=self.at_infinity + np.cumsum(self.p_masses[::-1])[::-1][kept],
            tnr=self.at_zero + (np.cumsum(self.masses) - self.masses)[kept],
            fnr=(np.cumsum(self.p_masses) - self.p_masses)[kept],
        )


def product(first: RatioLaw, second: RatioLaw) -> RatioLaw:
    """The law of the product of two independent ratios: of both releases together.

    The points of the product are points of a grid again, so that nothing is rounded.

    Args:
      first: One law.
      second: The other one, of the same step.
    """
    return RatioLaw(
        first.step,
        first.first + second.first,
        np.convolve(first.masses, second.masses),
        first.at_zero + second.at_zero - first.at_zero * second.at_zero,
        first.at_infinity + second.at_infinity - first.at_infinity * second.at_infinity,
    )


def weighted_sum(first: RatioLaw, weight: float, second: RatioLaw) -> RatioLaw:
    """The law of weight R_1 + (1 - weight) R_2 of independent ratios, rounded to the grid.

    The sum of e^x and e^y with x >= y is e^(x + log(1 + e^(y - x))), so that how it is rounded
    depends on the difference x - y alone.

    Args:
      first: The law of R_1.
      weight: The weight of R_1, in (0, 1).
      second: The law of R_2, of the same step. The weighted points of both have to lie on one
        grid, as sums of different numbers of copies of one law do.
    """
    step, low = first.step, first.first + math.log(weight)
    lag = round((second.first + math.log1p(-weight) - low) / step)
    a, b, start = first.masses, second.masses, min(lag, 0)
    end = max(len(a), len(b) + lag) + math.ceil(math.log(2) / step) + 1
    summed = np.zeros(end - start)
    larger, smaller = summed[-start:], summed[lag - start :]
    _add_pairs(larger, a, b, -lag, step, from_difference=0)
    _add_pairs(smaller, b, a, lag, step, from_difference=1)
    larger[: len(a)] += second.at_zero * a
    smaller[: len(b)] += first.at_zero * b
    return RatioLaw(
        step,
        low + step * start,
        summed,
        first.at_zero * second.at_zero,
        weight * first.at_infinity + (1 - weight) * second.at_infinity,
    )


def _add_pairs(
    summed: FloatArray,
    larger: FloatArray,
    smaller: FloatArray,
    lag: int,
    step: float,
    *,
    from_difference: int,
) -> None:
    """Adds the masses of all sums in which one summand is the larger one.

    Args:
      summed: The masses to add to; the first is that of the first point of `larger`.
      larger: The masses of the larger summand.
      smaller: The masses of the other one, whose point j is level with point j - lag of `larger`.
      lag: The place of `smaller` beside `larger`.
      step: The step of the grid.
      from_difference: The least number of points between the two.
    """
    negligible = max(math.ceil(_NEGLIGIBLE / step), from_difference)
    least = max(from_difference, lag - len(smaller) + 1)
    for difference in range(least, min(negligible, len(larger) + lag)):
        first = max(0, difference - lag)
        start = first + lag - difference
        count = min(len(larger) - first, len(smaller) - start)
        pairs = larger[first : first + count] * smaller[start : start + count]
        up, share = _between_points(math.log1p(math.exp(-step * difference)), step)
        above = share * pairs
        summed[first + up : first + up + count] += pairs - above
        summed[first + up + 1 : first + up + 1 + count] += above
    far = np.arange(len(larger)) + lag - negligible
    cumulated = np.concatenate([[0.0], np.cumsum(smaller)])
    summed[: len(larger)] += larger * cumulated[np.clip(far + 1, 0, len(smaller))]


def _between_points(log_value: float, step: float) -> tuple[int, float]:
    """The point below a value, and the share of its mass that goes to the point above."""
    below = math.floor(log_value / step)
    return below, min(math.expm1(log_value - below * step) / math.expm1(step), 1.0)
