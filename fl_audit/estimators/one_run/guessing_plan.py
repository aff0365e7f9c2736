"""The plan of guesses for `one_run_valid`: their order and numbers, chosen without the coins.

Guesses from both ends of the scores are best if excluded canaries score low; guesses from the top
alone if the scores of included canaries spread far. The best number of guesses also depends on the
distributions. Order and number can be chosen by the scores without the coins, at no cost: **the
tested event may depend on the output of the mechanism in any way.**

Theorem. Let the output T determine the canaries that are guessed, the guesses, their order, an
increasing event f_T about which guesses are right, and an epsilon_T at or above the true epsilon.
Under (epsilon, delta)-DP with fair coins for m canaries

    P(event) <= sup over T of E f_T + m delta sup over T of max g_T,

where E f_T is the chance of f_T if each guess is right independently with probability
e^epsilon_T / (1 + e^epsilon_T), and g_T is (2) of bound.py for f_T and epsilon_T.

Proof. Given T, (1) of bound.py holds for f_T with epsilon_T in place of epsilon, and g >= 0. Write
u_i(S, T) for g_j(c) if canary i is guessed j-th and the guess is right for the coins S, else 0.
With T fixed, a flip of coin i changes only c_j, not f_T, epsilon_T or g_j, and S so flipped is as
likely as S. So the mean over S and T is at most the sum over the m canaries i of

    E u_i(S, M(S)) - e^epsilon E u_i(S, M(S with coin i flipped)) <= delta sup u_i,

since epsilon_T >= epsilon, and for each S, u_i(S, .) is a function of the output alone. QED

The two suprema are separate: they may be attained at different outputs. So a part `spare` of the
failure probability alpha is fixed beforehand for the second, and every plan uses an epsilon_T with
m delta max g_T <= spare and E f_T <= alpha - spare. If the part would be too large
(`spare_for_delta`), the output determines only the order: f_T is then one event, with one
probability and one delta factor.

`one_run_valid` chooses the order from the scores without the coins. `one_run_fdp` tests both, each
at a fixed share of the failure probability: under f-DP, the output may determine which coins are
guessed, but neither their number nor the level, which the proof takes as fixed (Mahloujifar et al.
2024, Theorem 3.2).
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.one_run.guess_orders import GUESS_ORDERS, GuessOrder, orders_of
from fl_audit.estimators.one_run.walk import single_bounds
from fl_audit.estimators.scores import CanaryScores

# The probability of inclusion by the scores without the coins, from a mixture of two distributions.
#
# It is used to plan guesses. Any plan made without the coins is valid, so the mixture need not fit:
# a bad fit only makes the bound smaller.


_MOST_QUANTILES = 300
"""The largest number of scores to fit; more are replaced by evenly spaced quantiles."""

_STEPS = 25
_CLEAR = 3.0
"""The least gain in log likelihood for assuming two distributions."""

_LARGEST_DEVIATION = 1e6
"""The farthest, in median deviations from the median, that a score counts as being."""


@dataclass(frozen=True)
class _Parts:
    """The parts of mixtures: normal or Student's t with 3 degrees of freedom, for some samples."""

    is_normal: bool
    center: FloatArray  # (parts, fits, samples, 1)
    scale: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log of the densities at x, of shape (samples, n): (parts, fits, samples, n)."""
        squares = ((x - self.center) / self.scale) ** 2
        if self.is_normal:
            return np.asarray(-squares / 2 - np.log(self.scale * math.sqrt(2 * math.pi)))
        return np.asarray(
            -2 * np.log1p(squares / 3) - np.log(self.scale * math.pi * math.sqrt(3) / 2)
        )

    def refitted(self, x: FloatArray, share: FloatArray) -> "_Parts":
        """A step of the EM algorithm, from each part's share of each score."""
        pull = share
        if not self.is_normal:
            pull = share * 4 / (3 + ((x - self.center) / self.scale) ** 2)
        total, weight = np.maximum(_sum(share), 1e-9), np.maximum(_sum(pull), 1e-9)
        center = _sum(pull * x) / weight
        scale = np.sqrt(_sum(pull * (x - center) ** 2) / total)
        return _Parts(self.is_normal, center, np.maximum(scale, 1e-3))


@dataclass(frozen=True)
class _Mixture:
    """The two components of each mixture, and its log likelihood, of shape (fits, samples)."""

    likelihood: FloatArray
    halves: _Parts

    def log_odds_included(self, x: FloatArray) -> FloatArray:
        """The log odds of the component that reaches farther up: (fits, samples, n)."""
        first, second = self.halves.log_density(x)
        first_reach, second_reach = self.halves.center + self.halves.scale
        return np.where(first_reach <= second_reach, second - first, first - second)


def pooled(scores: CanaryScores) -> FloatArray:
    """All scores in ascending order, without their coins."""
    return np.sort(np.concatenate([scores.included, scores.excluded]))


def chances_included(ascending: FloatArray) -> list[FloatArray | None]:
    """The probability that each canary was included, by a mixture fitted to scores without coins.

    Each row of (samples, m) scores has its own mixture of two equal halves, both normal or both
    Student's t with 3 degrees of freedom, whichever is likelier. The included half is the one that
    reaches farther up, by center and scale together. None if one distribution fits about as well.
    """
    x = _standard(ascending)
    num_scores = x.shape[1]
    at = np.linspace(0, num_scores - 1, min(num_scores, _MOST_QUANTILES)).astype(np.int64)
    quantiles = np.ascontiguousarray(x[:, at])
    fits = [_fits(quantiles, is_normal) for is_normal in (False, True)]
    likelihoods = np.concatenate([fit.likelihood for fit in fits])
    best = np.argmax(likelihoods, axis=0)
    single = np.maximum(
        _single_likelihood(quantiles, is_normal=False),
        _single_likelihood(quantiles, is_normal=True),
    )
    gain = (likelihoods.max(axis=0) - single) * num_scores / len(at)
    is_clear = (np.ptp(x, axis=1) > 0) & (gain >= _CLEAR)
    odds = np.concatenate([fit.log_odds_included(x) for fit in fits])
    chances = special.expit(odds[best, np.arange(len(x))])
    return [row if clear else None for row, clear in zip(chances, is_clear, strict=True)]


def _standard(ascending: FloatArray) -> FloatArray:
    """The scores in median deviations from their median, clipped."""
    largest = np.abs(ascending).max(axis=1, keepdims=True)
    x = ascending / np.maximum(largest, np.finfo(float).tiny)
    x = x - np.median(x, axis=1, keepdims=True)
    unit = np.median(np.abs(x), axis=1, keepdims=True)
    unit = np.where(unit > 0, unit, np.abs(x).mean(axis=1, keepdims=True))
    unit = np.where(unit > 0, unit, 1.0)
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(x / unit, -_LARGEST_DEVIATION, _LARGEST_DEVIATION))


def _fits(x: FloatArray, is_normal: bool) -> _Mixture:
    """Two fits: one starts from shifted distributions, the other from a narrow and a wide one."""
    low, high = np.quantile(x, [0.25, 0.75], axis=1, keepdims=True)
    zero, unit = np.zeros_like(low), np.full_like(low, 0.9)
    wide = np.maximum(1.3 * x.std(axis=1, keepdims=True), 1.3)
    halves = _Parts(
        is_normal,
        np.array([[low, zero], [high, zero + 0.7]]),
        np.array([[unit, unit], [unit, wide]]),
    )
    for _ in range(_STEPS):
        first, second = halves.log_density(x)
        share = special.expit(second - first)
        halves = halves.refitted(x, np.stack([1 - share, share]))
    return _Mixture(_sum(np.logaddexp(*halves.log_density(x)))[..., 0], halves)


def _single_likelihood(x: FloatArray, is_normal: bool) -> FloatArray:
    """The log likelihood of one distribution, plus n log 2, as mixtures omit their weights 1/2."""
    part = _Parts(is_normal, np.zeros((1, 1, len(x), 1)), np.ones((1, 1, len(x), 1)))
    for _ in range(_STEPS):
        part = part.refitted(x, np.ones((1, 1, *x.shape)))
    return _sum(part.log_density(x))[0, 0, :, 0] + x.shape[1] * math.log(2)


def _sum(x: FloatArray) -> FloatArray:
    return np.asarray(x.sum(axis=-1, keepdims=True))


# The plan: the order and the numbers of guesses, chosen from the scores without the coins.


_PER_DOUBLING = 32
"""How many numbers of guesses between r and 2 r are tested; all would gain less than 1 %."""

_COARSE = 4
"""How many between r and 2 r may be a plan's best; few plans then cover many simulated audits."""

_LEVEL = 0.25
"""The level of each number of guesses near the plan's, in units of alpha. Any level is valid; with
this one the boundary is crossed with probability about alpha at its epsilon.
"""

_EQUAL_LEVEL = 1 / 8
"""The level of all numbers of guesses if the scores do not determine a plan."""

_NEAR = 1.6
"""Numbers within this ratio of the plan's have the full level."""

_FALL = 3.0
"""Beyond `_NEAR`, the level falls with this power of the ratio."""

_FARTHEST = 16
"""The largest ratio of a tested number to the plan's, or the reverse."""

_NEXT_TO_NONE = 1e-300


@dataclass(frozen=True)
class GuessPlan:
    """The order and the tested numbers of guesses, with the level of each number."""

    order: GuessOrder
    alpha: float  # the failure probability
    total: int | None  # the number of largest expected bound; None if all numbers have one level
    fewest: int  # the fewest tested guesses
    most: int  # the most tested guesses, at least 2
    # the part of the failure probability for delta; None if each boundary reserves its own
    spare: float | None = None

    def totals(self) -> IntArray:
        """The tested numbers of guesses, ascending."""
        numbers = numbers_of_guesses(self.most)
        return np.asarray(numbers[numbers >= min(self.fewest, numbers[-1])])

    @property
    def without_delta(self) -> float:
        """The failure probability without the part for delta."""
        return self.alpha - (self.spare or 0.0)

    def levels(self, totals: IntArray) -> FloatArray:
        """The level of each number of guesses."""
        if self.total is None:
            return self.without_delta * np.full(len(totals), _EQUAL_LEVEL)
        ratio = np.maximum(totals / self.total, self.total / totals)
        return self.without_delta * (_LEVEL * np.minimum(1.0, (_NEAR / ratio) ** _FALL))


def numbers_of_guesses(most: int) -> IntArray:
    """Even numbers of guesses: all to 128, every second to 256, and so on, up to `most` >= 2.

    They are even, so that neither included nor excluded guesses are favoured; the largest is `most`
    or one less.

    >>> numbers_of_guesses(9).tolist()
    [2, 4, 6, 8]
    >>> numbers_of_guesses(200)[-5:].tolist()
    [184, 188, 192, 196, 200]
    """
    octave = np.arange(_PER_DOUBLING, 2 * _PER_DOUBLING)
    octaves = [octave << k for k in range(1, most.bit_length())]
    halves = np.concatenate([np.arange(1, _PER_DOUBLING), octave, *octaves])
    return 2 * np.append(halves[halves < most // 2], most // 2)


def spare_for_delta(m: int, m_delta: float, alpha: float) -> float | None:
    """The part of the failure probability reserved for delta, independent of the scores.

    It is a multiple of m delta that the delta factor of all tested numbers of guesses must not
    exceed. The multiple is 1/10, for which at log odds near 0 the fewest tested guesses are 81
    (`_fixed`). With fewer than 162 canaries the fewest are m / 2, which takes a larger multiple. If
    that makes the part exceed alpha / 3, the multiple is 1/10 again. If the part still exceeds
    alpha / 3, the result is None: the numbers of guesses are then the same for all scores, and each
    boundary reserves its own part.
    """
    parts = (m_delta * max(0.1, _FOR_DELTA / math.sqrt(m / 2)), m_delta / 10)
    return next((part for part in parts if part <= alpha / 3), None)


_FOR_DELTA = 0.9
"""The delta factor of all numbers of guesses from r on at log odds near 0, times the root of r."""


def plans_of_samples(
    samples: Sequence[CanaryScores], delta: float, level: float
) -> list[tuple[GuessPlan, ...]]:
    """The plans to test at shares of `level`: one plan with fair coins, else one per order.

    Samples are of equal size and inclusion; many at once are ten times faster.
    """
    first = samples[0]
    m, m_delta = first.num_coins, first.num_coins * delta
    if first.inclusion == "coins":
        chances = chances_included(np.stack([pooled(scores) for scores in samples]))
        return [(_plan(included, m, m_delta, level),) for included in chances]
    fixed = tuple(
        _fixed(order, m, order.most_guesses(m), m_delta, level) for order in orders_of(first)
    )
    return len(samples) * [fixed]


def _plan(included: FloatArray | None, m: int, m_delta: float, alpha: float) -> GuessPlan:
    """The plan, given the probabilities of inclusion in order of scores, None if unknown."""
    spare = spare_for_delta(m, m_delta, alpha)
    if included is None:
        order = dataclasses.replace(GUESS_ORDERS[0], share=1.0)
        return _fixed(order, m, m, m_delta, alpha, spare=spare)
    right_at_top = np.concatenate([[0.0], np.cumsum(included[::-1])])
    right_at_bottom = np.concatenate([[0.0], np.cumsum(1 - included)])
    expected_bounds = []
    for order in GUESS_ORDERS:
        totals = _coarse(max(order.most_guesses(m), 2))
        top = order.at_top(totals)
        expected = np.floor(right_at_top[top] + right_at_bottom[totals - top] + 1e-9)
        left = alpha - (spare or 0.0)
        bounds = np.maximum(single_bounds(totals, expected.astype(np.int64), left), 0)
        expected_bounds.append((float(bounds.max()), order, totals, bounds))
    _, order, totals, bounds = max(expected_bounds, key=lambda bound: bound[0])
    order = dataclasses.replace(order, share=1.0)
    if spare is None:
        return _fixed(order, m, m, m_delta, alpha)
    return _around(order, totals, bounds, m_delta, alpha=alpha, spare=spare)


def _fixed(
    order: GuessOrder,
    m: int,
    most: int,
    m_delta: float,
    level: float,
    *,
    spare: float | None = None,
) -> GuessPlan:
    """The plan with numbers of guesses that do not depend on scores.

    The fewest are (0.6 m delta / alpha)^2, and at most m / 2: at log odds near 1.4, all r from
    there on together lose up to two thirds of alpha to delta (`Boundary.delta_factor`), and less at
    larger log odds. With a part `spare` for delta they are (0.9 m delta / spare)^2 instead, and
    lose no more than that.
    """
    alpha = order.share * level
    enough = m_delta * (0.6 / alpha if spare is None else _FOR_DELTA / max(spare, _NEXT_TO_NONE))
    return GuessPlan(order, alpha, None, int(np.ceil(min(enough**2, m / 2))), max(most, 2), spare)


@functools.cache
def _coarse(most: int) -> IntArray:
    halves = np.round(2 ** (np.arange(_COARSE * most.bit_length()) / _COARSE)).astype(np.int64)
    return np.asarray(np.unique(2 * np.append(halves[halves < most // 2], most // 2)))


def _around(
    order: GuessOrder,
    totals: IntArray,
    bounds: FloatArray,
    m_delta: float,
    *,
    alpha: float,
    spare: float,
) -> GuessPlan:
    """The plan around the number of guesses with the largest bound that respects delta's part."""
    bounds = np.where(m_delta * _delta_factors(totals, bounds) > spare, 0, bounds)
    at = len(totals) - 1 - int(np.argmax(bounds[::-1]))
    total = int(totals[at])
    is_affordable = m_delta * _delta_factors(totals, bounds[at]) <= spare
    first = int(totals[np.argmax(is_affordable)]) if np.any(is_affordable) else total
    fewest = min(max(first, total // _FARTHEST), total)
    return GuessPlan(order, alpha, total, fewest, min(int(totals[-1]), total * _FARTHEST), spare)


def _delta_factors(totals: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """About max g_T if all numbers of guesses from each of `totals` on are tested, at epsilon.

    It is evaluated at 0.65 epsilon, because a bound may be smaller than planned.
    """
    odds = np.exp(-0.65 * np.asarray(epsilon))
    return np.asarray(np.minimum(odds, 0.8 * np.sqrt(odds / totals)))
