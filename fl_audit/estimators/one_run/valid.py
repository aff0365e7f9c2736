"""The one-run bound, valid although the best number of guesses is chosen on the data.

All numbers of guesses are asked about at once, by the chance that a random walk crosses a boundary.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.one_run.guess_orders import GuessOrder, orders_of
from fl_audit.estimators.one_run.guesses import Counts, Guesses
from fl_audit.estimators.one_run.largest_rejected import crossing_point
from fl_audit.estimators.one_run.walk import Boundary, boundary_at, single_bounds
from fl_audit.estimators.result import Detail, Estimate
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
"""The epsilons, but for the largest, at which the chance with delta is computed first."""

_FINER = 20
"""The same around the least of these chances, where all are too large."""

_TOLERANCE = 1e-7
"""The amount taken off the bound, so that it errs to the valid side."""


def one_run_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that the right guesses reject, over all numbers of guesses at once.

    This is written for fair coins; with coins of another probability (Proposition 5.7) and with
    pairs (appendix A) the orders and the chance of a right guess differ, and nothing else. Of pairs
    it is the epsilon for one client more or less that is bounded, as in every other estimate;
    details have that for replacing one, twice as large.

    There are two orders of guesses, each tested at its share alpha of one minus the confidence, the
    same for all scores (guess_orders.py); the larger epsilon counts. For each even r of
    `numbers_of_guesses`, r guesses are made in that order: at both ends, so that the k+ = r / 2
    largest scores are guessed to be included and the k- = r / 2 smallest to be excluded, or from
    the top, with k+ = r. W_r of these guesses are right.

    The statistic Q is the largest Clopper-Pearson bound of any r at level alpha / 8
    (`single_bounds`). {Q >= q} is the event that the walk W reaches its boundary (`boundary_at`),
    and `Boundary` says how likely that can be at each epsilon. The result is the largest epsilon at
    which {Q >= observed Q} is less likely than alpha.

    It is a valid bound by Steinke et al. (2023), Lemma 4.7: which numbers of guesses are tried and
    the events {Q >= q} are fixed in advance, and these shrink with q whatever epsilon is. Call
    epsilon rejected if {Q >= observed Q} is less likely than alpha at some epsilon' >= epsilon.
    Since epsilon-DP implies epsilon'-DP, that happens with probability below alpha at the true
    epsilon. And whoever rejects epsilon rejects all below it, so the rejection sets are nested,
    even where the bound on the chance does not grow with epsilon, as with delta > 0. By a union
    bound, some order fails with probability at most one minus the confidence.

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
    """
    setting.require(included=2 if setting.scores.inclusion == "pairs" else 1, excluded=1)
    m = setting.scores.num_coins
    found = [
        _rejected_by(setting, order, m, order.share * (1 - setting.confidence))
        for order in orders_of(setting.scores)
    ]
    rejected = max(found, key=lambda one: one.epsilon)
    guesses = rejected.guesses if rejected.epsilon > 0 else Guesses(0, 0, 0)
    return Estimate(
        method="one_run_valid",
        kind="lower_bound",
        epsilon=rejected.epsilon,
        lower=rejected.epsilon,
        valid_for="any mechanism",
        assumes=_assumption(setting.scores),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the number of guesses is chosen on the data, since the test asks about all "
            "numbers at once, and so is their order, which is corrected for."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Proposition 5.1 for a walk that "
            "crosses a boundary; delta as in our one_run/sharp.py"
        ),
        details={
            **guesses.details(m, setting.delta),
            "p_value_at_epsilon_0": rejected.p_value_at_0,
            "num_choices": sum(one.num_choices for one in found),
            **_of_replacement(setting.scores, rejected.epsilon),
        },
    )


def _assumption(scores: CanaryScores) -> str:
    match scores.inclusion:
        case "unequal_coins":
            coin = f"coin of probability {scores.inclusion_probability:g}"
            return f"Each canary was included by an independent {coin}."
        case "pairs":
            return "Of each pair exactly one canary was included, by an independent fair coin."
        case _:
            return "Each canary was included by an independent fair coin, not in fixed numbers."


def _of_replacement(scores: CanaryScores, epsilon: float) -> dict[str, Detail]:
    """The epsilon for replacing one client by another, which is what pairs are about."""
    return {"epsilon_replacement": 2 * epsilon} if scores.inclusion == "pairs" else {}


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


@dataclass(frozen=True)
class _RejectedByOrder:
    epsilon: float
    p_value_at_0: float
    guesses: Guesses
    num_choices: int


def _rejected_by(
    setting: AuditSetting, order: GuessOrder, m: int, alpha: float
) -> _RejectedByOrder:
    """The largest epsilon that guesses in one order reject at level alpha."""
    totals = totals_in_order(order, m, setting.delta, alpha)
    correct = order.correct(setting.scores, totals)
    bounds = single_bounds(totals, correct, _LEVEL * alpha)
    i = int(np.argmax(bounds))
    lowest = order.log_odds(0.0)
    rejected = _Rejected(lowest, 1.0)
    if correct[i] > 0:
        boundary = boundary_at(totals, bounds[i], _LEVEL * alpha)
        event = _Event(m * setting.delta, _NEGLIGIBLE * alpha, boundary, order)
        rejected = event.largest_below(alpha, start=bounds[i])
    guesses = order.guesses(int(totals[i]), int(correct[i]))
    epsilon = max(order.epsilon(rejected.log_odds), 0.0)
    return _RejectedByOrder(epsilon, rejected.p_value_at_0, guesses, len(totals))


def totals_in_order(order: GuessOrder, m: int, delta: float, alpha: float) -> Counts:
    """The `numbers_of_guesses` that an order makes, at least one of them."""
    totals = numbers_of_guesses(m, delta, alpha)
    within = totals[totals <= order.most_guesses(m)]
    return within if len(within) else totals[:1]


@dataclass(frozen=True)
class _Rejected:
    log_odds: float
    p_value_at_0: float


@dataclass(frozen=True)
class _Event:
    """The event that the walk crosses the boundary, by the log odds of a right guess.

    With fair coins these are epsilon.

    Attributes:
      m_delta: Number of coins times delta.
      negligible: Probability of walks to drop, as in `Boundary.crossing`.
      boundary: The boundary drawn through the observed right guesses.
      order: The order of the guesses.
    """

    m_delta: float
    negligible: float
    boundary: Boundary
    order: GuessOrder

    def crossing(self, log_odds: float) -> float:
        """A bound on the probability of the event where delta is 0."""
        return self.boundary.crossing(log_odds, self.negligible)

    def chance(self, log_odds: float) -> float:
        """A bound on the probability of the event with delta, possibly above 1."""
        factor = self.order.coin_delta(log_odds, self.m_delta)
        return self.crossing(log_odds) + factor * self.boundary.delta_factor(log_odds)

    def largest_below(self, alpha: float, start: float) -> _Rejected:
        """The largest log odds found at which the chance of the event is below alpha.

        Those of epsilon 0 if there are none.

        At delta = 0 the chance grows with epsilon. With a larger delta it may fall first, and the
        search goes down from where the chance at delta = 0 reaches alpha, the nearer to `start` the
        faster.
        """
        crossing = functools.cache(self.crossing)
        lowest = self.order.log_odds(0.0)
        if crossing(lowest) >= alpha:
            return _Rejected(lowest, min(1.0, self.chance(lowest)))
        low, high, step = lowest, max(start, lowest), 0.1
        while crossing(high) < alpha:
            low, high, step = high, high + step, 2 * step
        while low < high - step and crossing(high - step) >= alpha:
            high, step = high - step, 2 * step
        low = max(low, high - step)
        limit = _reaches(alpha, crossing, low, high)
        if self.m_delta == 0:
            return _Rejected(limit, self.boundary.crossing(lowest))
        tried, chances = self._tried(limit, alpha)
        below = np.flatnonzero(np.array(chances[:-1]) < alpha)
        if len(below) == 0:
            return _Rejected(lowest, min(1.0, *chances))
        i = int(below[-1])
        log_odds = _reaches(alpha, self.chance, float(tried[i]), float(tried[i + 1]))
        return _Rejected(log_odds, min(chances))

    def _tried(self, limit: float, alpha: float) -> tuple[FloatArray, list[float]]:
        """Some log odds up to a limit, ascending, and the chances there.

        Where none of them is below alpha, others are tried next to the least chance: with delta
        those whose chance is below alpha may be few.
        """
        lowest = self.order.log_odds(0.0)
        tried = lowest + (limit - lowest) * np.arange(_TRIED + 1) / _TRIED
        chances = [self.chance(log_odds) for log_odds in tried]
        if min(chances[:-1]) < alpha:
            return tried, chances
        least = int(np.argmin(chances))
        low, high = tried[max(least - 1, 0)], tried[min(least + 1, _TRIED)]
        finer = np.linspace(low, high, _FINER + 1)
        return finer, [self.chance(log_odds) for log_odds in finer]


def _reaches(alpha: float, chance: Callable[[float], float], low: float, high: float) -> float:
    """The point where a chance below alpha at `low` reaches it; `high` if it does not before."""
    point = crossing_point(chance, alpha, low, high, _TOLERANCE)
    return point if point == high else max(point - _TOLERANCE, low)
