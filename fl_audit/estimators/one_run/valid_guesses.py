"""`one_run_valid`: a one-run bound that is valid although guesses are chosen on the data.

The scores without their coins determine a plan of the guesses (guessing_plan.py). One event, a
random walk crossing a boundary, covers many numbers of guesses (walk.py).
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.estimators.one_run.bound import crossing_point
from fl_audit.estimators.one_run.guess_orders import GuessOrder
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.guessing_plan import GuessPlan, plans_of_samples
from fl_audit.estimators.one_run.walk import Boundary, boundary_at, single_bounds
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.estimators.setting import AuditSetting

_NEGLIGIBLE = 1e-9
"""The probability that the walk may drop at each r, in units of alpha."""

_TRIED = 5
"""The number of log odds, without the largest, where the chance with delta is computed first."""

_FINER = 20
"""The number of further log odds near the one of least chance, if all these chances reach alpha."""

_TOLERANCE = 1e-7
"""Subtracted from the bound, to err on the valid side."""


@dataclass(frozen=True)
class WalkEvent:
    """The event that the walk crosses the boundary; its chance by log odds of a correct guess."""

    m_delta: float  # number of coins times delta
    boundary: Boundary  # in `one_run_valid`, through the observed correct guesses
    plan: GuessPlan
    start: float  # the start of the search for the largest rejected log odds

    def crossing(self, log_odds: float) -> float:
        """An upper bound on the probability of the event if delta is 0."""
        return self.boundary.crossing(log_odds, _NEGLIGIBLE * self.plan.alpha)

    def delta_terms(self, log_odds: npt.ArrayLike) -> FloatArray:
        """Upper bounds on what delta adds to the probability."""
        deltas = self.plan.order.coin_delta(np.asarray(log_odds), self.m_delta)
        return np.asarray(deltas * self.boundary.delta_factor(log_odds))

    def chance(self, log_odds: float) -> float:
        """An upper bound on the probability of the event with delta, possibly above 1."""
        return self.crossing(log_odds) + float(self.delta_terms(log_odds))

    def rejects(self, epsilon: float) -> bool:
        """Whether the event rejects epsilon or a larger epsilon, so that the bound is larger."""
        log_odds = self.plan.order.log_odds(epsilon)
        # The first condition follows from the second, but is fast.
        return self.crossing(log_odds) < self.plan.without_delta and (
            self.largest_rejected > log_odds
        )

    @functools.cached_property
    def largest_rejected(self) -> float:
        """The largest log odds found that are rejected; the log odds of epsilon 0 if none are.

        Without a part of alpha spared for delta, these are the largest with an event probability
        below alpha. At delta = 0 the probability grows with epsilon. With a larger delta it may
        fall first, and the search goes down from where the probability at delta = 0 reaches alpha.

        With a spared part, the probability at delta = 0 must be below alpha less this part, and
        delta must add at most the part (the theorem in guessing_plan.py).
        """
        if self._limit is None:
            return self._lowest
        if self.m_delta == 0:
            return self._limit
        if self.plan.spare is not None:
            return max(self._affordable, default=self._lowest)
        tried, chances = self._tried
        if min(chances[:-1]) >= self.plan.alpha:
            tried, chances = self._finer
        below = np.flatnonzero(chances[:-1] < self.plan.alpha)
        if len(below) == 0:
            return self._lowest
        i = int(below[-1])
        return _reaches(self.plan.alpha, self.chance, float(tried[i]), float(tried[i + 1]))

    @property
    def p_value_at_0(self) -> float:
        """The smallest alpha found at which this event rejects epsilon 0: its p-value."""
        if self.m_delta == 0:
            return self.boundary.crossing(self._lowest)
        if (spare := self.plan.spare) is not None:
            return min([1.0, *(self.crossing(x) + spare for x in self._affordable)])
        if self._limit is None:
            return min(1.0, self.chance(self._lowest))
        chances = self._tried[1]
        if min(chances[:-1]) >= self.plan.alpha:
            chances = self._finer[1]
        return min(1.0, float(min(chances)))

    @property
    def _lowest(self) -> float:
        return self.plan.order.log_odds(0.0)

    @functools.cached_property
    def _limit(self) -> float | None:
        """Log odds where the chance at delta 0 reaches its part; None if epsilon 0 reaches it."""
        crossing, lowest, left = self.crossing, self._lowest, self.plan.without_delta
        if crossing(lowest) >= left:
            return None
        low, high, step = lowest, max(self.start, lowest), 0.1
        while crossing(high) < left:
            low, high, step = high, high + step, 2 * step
        while low < high - step and crossing(high - step) >= left:
            high, step = high - step, 2 * step
        return _reaches(left, crossing, max(low, high - step), high)

    @functools.cached_property
    def _affordable(self) -> list[float]:
        """Log odds up to the limit at which delta adds at most its part."""
        tried = np.linspace(self._lowest, self._limit or self._lowest, 3)
        return [float(x) for x in tried[self.delta_terms(tried) <= (self.plan.spare or 0.0)]]

    @functools.cached_property
    def _tried(self) -> tuple[FloatArray, FloatArray]:
        """Some log odds up to the limit, ascending, and the chances there."""
        return self._with_chances(self._lowest, self._limit or self._lowest, _TRIED)

    @functools.cached_property
    def _finer(self) -> tuple[FloatArray, FloatArray]:
        """Log odds near the least chance, and chances: only a narrow range may be below alpha."""
        tried, chances = self._tried
        least = int(np.argmin(chances))
        low, high = tried[max(least - 1, 0)], tried[min(least + 1, _TRIED)]
        return self._with_chances(low, high, _FINER)

    def _with_chances(self, low: float, high: float, steps: int) -> tuple[FloatArray, FloatArray]:
        tried = low + (high - low) * np.arange(steps + 1) / steps
        crossings = np.array([self.crossing(log_odds) for log_odds in tried])
        return tried, crossings + self.delta_terms(tried)


def _reaches(alpha: float, chance: Callable[[float], float], low: float, high: float) -> float:
    """The point where a chance below alpha at `low` reaches alpha; at most `high`."""
    point = crossing_point(chance, alpha, low, high, _TOLERANCE)
    return point if point == high else max(point - _TOLERANCE, low)


def one_run_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that the correct guesses reject, over all numbers of guesses at once.

    The following is for fair coins; with coins of another probability (Steinke et al. 2023,
    Proposition 5.7) and with pairs (appendix A) only the orders and the probability of a correct
    guess differ. For pairs, too, the bound is on the epsilon for adding or removing one client; the
    details also have the bound for replacing a client, twice as large.

    With fair coins the scores without their coins determine a plan (guessing_plan.py): the order of
    guesses, either at both ends, so that the k+ = r / 2 largest scores are guessed to be included
    and the k- = r / 2 smallest to be excluded, or from the top, with k+ = r; the tested even
    numbers r; and the level of each. With other coins the numbers and levels are fixed, and each
    order has a share of the failure probability alpha. W_r of r guesses are right.

    The statistic Q is the largest Clopper-Pearson bound of any r at its level (`single_bounds`).
    {Q >= q} is the event that the walk W reaches the boundary of q (`boundary_at`), and `WalkEvent`
    turns it into a bound.

    The bound is valid by the theorem in guessing_plan.py. Given the output, the events {Q >= q}
    shrink with q. Let q be the least for which the bound exceeds the true epsilon. Whenever the
    bound exceeds the true epsilon, Q is at least q; and {Q >= q} has probability at most alpha, as
    it rejects an epsilon above the true one. Without a part for delta, the numbers and levels, and
    so these events, are the same for all outputs, which determine only the order (Steinke et al.
    2023, Lemma 4.7).
    """
    setting.require(included=_fewest(setting.scores.inclusion), excluded=1)
    scores = setting.scores
    (plans,) = plans_of_samples([scores], setting.delta, 1 - setting.confidence)
    bounds = [_tested_plan(scores, plan, setting.delta) for plan in plans]
    best = max(bounds, key=lambda bound: bound.epsilon)
    guesses = best.guesses if best.epsilon > 0 else Guesses(0, 0, 0)
    return Estimate(
        method="one_run_valid",
        kind="lower_bound",
        epsilon=best.epsilon,
        lower=best.epsilon,
        valid_for="any mechanism",
        assumes=_assumption(scores),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the number of guesses is chosen on the data, since the test covers many "
            "numbers at once, and scores choose these and the order of guesses without the coins."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Proposition 5.1 for a walk that "
            "crosses a boundary; our one_run/guessing_plan.py for delta and for what the scores "
            "decide"
        ),
        details={
            **guesses.details(scores.num_coins),
            "p_value_at_epsilon_0": min(bound.p_value_at_0 for bound in bounds),
            "num_choices": sum(bound.num_choices for bound in bounds),
            # Pairs measure replacing one client by another.
            **({"epsilon_replacement": 2 * best.epsilon} if scores.inclusion == "pairs" else {}),
        },
    )


def _fewest(inclusion: Inclusion) -> int:
    """The fewest included canaries to which the method applies: one, or one each of two pairs."""
    return 2 if inclusion == "pairs" else 1


def _assumption(scores: CanaryScores) -> str:
    match scores.inclusion:
        case "unequal_coins":
            coin = f"coin of probability {scores.inclusion_probability:g}"
            return f"Each canary was included by an independent {coin}."
        case "pairs":
            return "Of each pair exactly one canary was included, by an independent fair coin."
        case _:
            return "Each canary was included by an independent fair coin, not in fixed numbers."


@dataclass(frozen=True)
class _TestedPlan:
    """The event of a plan, given its guesses."""

    guesses: Guesses  # of the number of guesses whose own bound is largest
    num_choices: int
    order: GuessOrder
    event: WalkEvent | None  # None if no guess is right

    @functools.cached_property
    def epsilon(self) -> float:
        """The largest epsilon that is rejected, or 0."""
        return self.order.epsilon(self.event.largest_rejected) if self.event else 0.0

    @property
    def p_value_at_0(self) -> float:
        """The p-value of epsilon 0, divided by the order's share of the level."""
        return min(1.0, self.event.p_value_at_0 / self.order.share) if self.event else 1.0


def _tested_plan(scores: CanaryScores, plan: GuessPlan, delta: float) -> _TestedPlan:
    """The event of a plan, given its guesses."""
    order, totals = plan.order, plan.totals()
    levels = plan.levels(totals)
    correct = order.correct(scores, totals)
    bounds = single_bounds(totals, correct, levels)
    i = int(np.argmax(bounds))
    event = None
    if correct[i] > 0:
        boundary = boundary_at(totals, bounds[i], levels)
        event = WalkEvent(scores.num_coins * delta, boundary, plan, start=bounds[i])
    return _TestedPlan(order.guesses(int(totals[i]), int(correct[i])), len(totals), order, event)


def one_run_epsilons(settings: Sequence[AuditSetting]) -> list[float | None]:
    """The bounds of samples with one delta and confidence, three times faster than single ones.

    None where the method does not apply.
    """
    epsilons: list[float | None] = [None] * len(settings)
    for members in _by_size(settings):
        samples = [settings[index].scores for index in members]
        first = settings[members[0]]
        plans = plans_of_samples(samples, first.delta, 1 - first.confidence)
        for index, scores, tried in zip(members, samples, plans, strict=True):
            epsilons[index] = max(_tested_plan(scores, plan, first.delta).epsilon for plan in tried)
    return epsilons


# For simulations of many samples of one size: whether `one_run_valid` exceeds one epsilon. The
# correct guesses of a plan for which it does are a region, which is computed once.


_PLANNED = 8
"""The number of samples for which plans are made; further samples reuse these plans."""

_STEP = 0.01
_FARTHEST = 8.0
"""Boundaries are tried up to this distance above and below the log odds of epsilon."""


@dataclass(frozen=True, eq=False)
class OneRunRegion:
    """The event that the walk of correct guesses reaches `boundary`, None if no event rejects."""

    plan: GuessPlan
    boundary: Boundary | None

    def rejects(self, scores: CanaryScores) -> bool:
        """Whether these scores, for which the plan was made, are in the region."""
        if self.boundary is None or len(self.boundary.totals) == 0:
            return False
        correct = self.plan.order.correct(scores, self.boundary.totals)
        return bool(np.any(correct >= self.boundary.heights))


def one_run_region(epsilon: float, m_delta: float, plan: GuessPlan) -> OneRunRegion:
    """The largest region that rejects epsilon, to 0.01 log odds."""
    totals = plan.totals()
    levels = plan.levels(totals)
    log_odds = plan.order.log_odds(epsilon)

    def boundary(steps: int) -> Boundary:
        return boundary_at(totals, log_odds + _STEP * steps, levels)

    def rejects(event: Boundary) -> bool:
        walk = WalkEvent(m_delta, event, plan, start=log_odds)
        return len(event.totals) == 0 or walk.rejects(epsilon)

    high = round(_FARTHEST / _STEP)
    low = -high - 1
    if not rejects(boundary(high)):
        return OneRunRegion(plan, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rejects(boundary(middle)) else (middle, high)
    return OneRunRegion(plan, boundary(high))


def one_run_rejection(
    epsilon: float, delta: float, level: float
) -> Callable[[Sequence[AuditSetting]], BoolArray]:
    """Whether bounds of samples exceed epsilon; samples of one size and inclusion share 8 plans."""
    cached_region = functools.cache(functools.partial(one_run_region, epsilon))

    def rejects(settings: Sequence[AuditSetting]) -> BoolArray:
        rejected = np.zeros(len(settings), bool)
        for members in _by_size(settings):
            samples = [settings[index].scores for index in members]
            plans = plans_of_samples(samples[:_PLANNED], delta, level)
            for index, scores, tried in zip(members, samples, itertools.cycle(plans), strict=False):
                regions = (cached_region(scores.num_coins * delta, plan) for plan in tried)
                rejected[index] = any(region.rejects(scores) for region in regions)
        return rejected

    return rejects


def _by_size(settings: Sequence[AuditSetting]) -> Iterable[list[int]]:
    """Groups, by inclusion and number of coins, of indices of settings that the method allows."""
    groups: dict[tuple[Inclusion, float, int], list[int]] = {}
    for index, setting in enumerate(settings):
        scores = setting.scores
        if scores.num_included >= _fewest(scores.inclusion) and scores.num_excluded:
            key = (scores.inclusion, scores.inclusion_probability, scores.num_coins)
            groups.setdefault(key, []).append(index)
    return groups.values()
