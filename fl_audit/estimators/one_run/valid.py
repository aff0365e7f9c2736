"""The one-run bound, valid although the best number of guesses is chosen on the data.

All numbers of guesses are asked about at once, by the chance that a random walk crosses a boundary.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.one_run.guesses import (
    Counts,
    Guesses,
    correct_among_bottom,
    correct_among_top,
)
from fl_audit.estimators.one_run.largest_rejected import crossing_point
from fl_audit.estimators.one_run.walk import Boundary, boundary_at, single_bounds
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

_LEVEL = 1 / 8
"""The level of the single numbers of guesses, in units of alpha. Any is valid; with this one,
the boundary is crossed with probability about alpha at the epsilon that it was drawn at."""

_PER_DOUBLING = 32
"""Numbers of guesses between r and 2 r. With all of them, the bound would gain less than 1 %."""

_NEGLIGIBLE = 1e-9
"""The probability that the walk may lose at each r, in units of alpha."""

_TRIED = 5
_TOLERANCE = 1e-7
"""The amount taken off the bound, so that it errs to the valid side."""


def one_run_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that the right guesses reject, over all numbers of guesses at once.

    For each even r of `numbers_of_guesses`, the k+ = r / 2 largest scores are guessed to be
    included and the k- = r / 2 smallest to be excluded; W_r of these guesses are right.

    The statistic Q is the largest Clopper-Pearson bound of any r at level alpha / 8
    (`single_bounds`). {Q >= q} is the event that the walk W reaches its boundary (`boundary_at`),
    and `Boundary` says how likely that can be at each epsilon. The result is the largest epsilon at
    which {Q >= observed Q} is less likely than alpha.

    It is a valid bound by Steinke et al. (2023), Lemma 4.7: which numbers of guesses are tried and
    the events {Q >= q} are fixed in advance, and these shrink with q whatever epsilon is. Call
    epsilon rejected if {Q >= observed Q} is less likely than alpha at some epsilon' >= epsilon.
    Since epsilon-DP implies epsilon'-DP, that happens with probability below alpha at the true
    epsilon. And whoever rejects epsilon rejects all below it, so the rejection sets are nested,
    even where the bound on the chance does not grow with epsilon, as with delta > 0.

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
    """
    setting.require(included=1, excluded=1)
    m = setting.scores.num_included + setting.scores.num_excluded
    alpha = 1 - setting.confidence
    totals = numbers_of_guesses(m, setting.delta, alpha)
    correct = _correct(setting.scores, totals)
    bounds = single_bounds(totals, correct, _LEVEL * alpha)
    i = int(np.argmax(bounds))
    rejected = _Rejected(0.0, 1.0)
    if correct[i] > 0:
        boundary = boundary_at(totals, bounds[i], _LEVEL * alpha)
        event = _Event(m * setting.delta, _NEGLIGIBLE * alpha, boundary)
        rejected = event.largest_epsilon_below(alpha, start=bounds[i])
    best = Guesses(int(totals[i]) // 2, int(totals[i]) // 2, int(correct[i]))
    guesses = best if rejected.epsilon > 0 else Guesses(0, 0, 0)
    return Estimate(
        method="one_run_valid",
        kind="lower_bound",
        epsilon=rejected.epsilon,
        lower=rejected.epsilon,
        valid_for="any mechanism",
        assumes="Each canary was included by an independent fair coin, not in fixed numbers.",
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the number of guesses is chosen on the data, since the test asks about all "
            "numbers at once."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Proposition 5.1 for a walk that "
            "crosses a boundary; delta as in our one_run/sharp.py"
        ),
        details={
            **guesses.details(m, setting.delta),
            "p_value_at_epsilon_0": rejected.p_value_at_0,
            "num_choices": len(totals),
        },
    )


def numbers_of_guesses(m: int, delta: float, alpha: float) -> Counts:
    """Even numbers of guesses for m >= 2 canaries: from r0 all to 128, each 2nd to 256, and so on.

    They are even, so that neither the included nor the excluded are favoured; the largest is m or m
    - 1. r0 = (0.6 m delta / alpha)^2, at least 2 and at most m / 2: at epsilon near 1.4, all r >=
    r0 together then lose up to two thirds of alpha to delta (`Boundary.delta_factor`), and less at
    a larger epsilon.

    >>> numbers_of_guesses(9, delta=0.0, alpha=0.05).tolist()
    [2, 4, 6, 8]
    >>> numbers_of_guesses(200, delta=0.0, alpha=0.05)[-5:].tolist()
    [184, 188, 192, 196, 200]
    """
    fewest = (0.6 * m * delta / alpha) ** 2
    octave = np.arange(_PER_DOUBLING, 2 * _PER_DOUBLING)
    octaves = [octave << k for k in range(1, m.bit_length())]
    halves = np.concatenate([np.arange(1, _PER_DOUBLING), octave, *octaves])
    halves = halves[(2 * halves >= min(fewest, m / 2)) & (halves < m // 2)]
    return 2 * np.append(halves, m // 2)


def _correct(scores: CanaryScores, totals: Counts) -> Counts:
    """Right guesses if half of each total is guessed from either end of the scores."""
    halves = totals // 2
    return np.asarray(correct_among_top(scores)[halves] + correct_among_bottom(scores)[halves])


@dataclass(frozen=True)
class _Rejected:
    epsilon: float
    p_value_at_0: float


@dataclass(frozen=True)
class _Event:
    """The event that the walk crosses the boundary.

    Attributes:
      m_delta: Number of canaries times delta.
      negligible: Probability of walks to drop, as in `Boundary.crossing`.
      boundary: The boundary drawn through the observed right guesses.
    """

    m_delta: float
    negligible: float
    boundary: Boundary

    def crossing(self, epsilon: float) -> float:
        """A bound on the probability of the event under epsilon-DP."""
        return self.boundary.crossing(epsilon, self.negligible)

    def chance(self, epsilon: float) -> float:
        """A bound on the probability of the event under (epsilon, delta)-DP, possibly above 1."""
        return self.crossing(epsilon) + self.m_delta * self.boundary.delta_factor(epsilon)

    def largest_epsilon_below(self, alpha: float, start: float) -> _Rejected:
        """The largest epsilon found at which the chance of the event is below alpha, or 0.

        At delta = 0 the chance grows with epsilon. With a larger delta it may fall first, and the
        search goes down from where the chance at delta = 0 reaches alpha, the nearer to `start` the
        faster.
        """
        crossing = functools.cache(self.crossing)
        if crossing(0.0) >= alpha:
            return _Rejected(0.0, min(1.0, self.chance(0.0)))
        low, high, step = 0.0, max(start, 0.0), 0.1
        while crossing(high) < alpha:
            low, high, step = high, high + step, 2 * step
        while low < high - step and crossing(high - step) >= alpha:
            high, step = high - step, 2 * step
        low = max(low, high - step)
        limit = _reaches(alpha, crossing, low, high)
        if self.m_delta == 0:
            return _Rejected(limit, self.boundary.crossing(0.0))
        tried = limit * np.arange(_TRIED + 1) / _TRIED
        chances = [self.chance(epsilon) for epsilon in tried]
        below = np.flatnonzero(np.array(chances[:-1]) < alpha)
        if len(below) == 0:
            return _Rejected(0.0, min(1.0, *chances))
        i = int(below[-1])
        epsilon = _reaches(alpha, self.chance, float(tried[i]), float(tried[i + 1]))
        return _Rejected(epsilon, min(chances))


def _reaches(alpha: float, chance: Callable[[float], float], low: float, high: float) -> float:
    """The point where a chance below alpha at `low` reaches it; `high` if it does not before."""
    point = crossing_point(chance, alpha, low, high, _TOLERANCE)
    return point if point == high else max(point - _TOLERANCE, low)
