"""The plan of guesses for `one_run_valid`: their order and their numbers, made before any coin.

Guesses from both ends of the scores are best where excluded canaries score low; guesses from the
top alone where the scores of included canaries spread far. And some number of guesses is best. Both
show in the scores without the coins, and what the plan takes from these costs nothing: **the event
that is tested may depend on the output of the mechanism in any way.**

Theorem. Let the output T decide the canaries that are guessed, the guesses, their order, an
increasing event f_T about which of them are right, and an epsilon_T at or above the true epsilon.
Under (epsilon, delta)-DP with fair coins for m canaries

    P(event) <= sup over T of E f_T + m delta sup over T of max g_T,

where E f_T is the chance of f_T if each guess is right independently with probability
e^epsilon_T / (1 + e^epsilon_T), and g_T is (2) of sharp.py for f_T and epsilon_T.

Proof. Given T, (1) of sharp.py holds for f_T with epsilon_T in place of epsilon, and g >= 0. Write
u_i(S, T) for g_j(c) if canary i is guessed j-th and the guess is right for the coins S, else 0. T
being kept, a flip of coin i turns c_j alone and leaves f_T, epsilon_T and g_j as they are, and S
flipped is as likely as S. So the mean over S and T is at most the sum over the m canaries i of

    E u_i(S, M(S)) - e^epsilon E u_i(S, M(S with coin i flipped)) <= delta sup u_i,

since epsilon_T >= epsilon, and for each S the function u_i(S, .) is one of the output alone. QED

The two suprema are taken apart: the delta may sit on other outputs than the rest. So a part `spare`
of the failure probability alpha is fixed beforehand for the second, and every plan takes an
epsilon_T at which m delta max g_T is at most that, and E f_T at most alpha - spare. Where it would
be too large a part (`spare_for_delta`), the output decides on the order alone: f_T is then one
event, and so are its chance and its delta factor.
"""

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.one_run.guess_orders import GUESS_ORDERS, GuessOrder, orders_of
from fl_audit.estimators.one_run.pooled_scores import (
    chances_in_samples,
    chances_included,
    pooled,
)
from fl_audit.estimators.one_run.walk import single_bounds
from fl_audit.estimators.scores import CanaryScores

_PER_DOUBLING = 32
"""Numbers of guesses between r and 2 r. With all of them, the bound would gain less than 1 %."""

_COARSE = 4
"""The same among those of which one is the plan's: few plans then serve many simulated audits."""

_LEVEL = 0.25
"""The level of single numbers of guesses near the plan's, in units of alpha. Any is valid; with
this one the boundary is crossed with a chance of about alpha at the epsilon it was drawn at."""

_EQUAL_LEVEL = 1 / 8
"""The level of all numbers of guesses where the scores do not decide about them."""

_NEAR = 1.6
"""The ratio to the plan's number up to which others have the full level."""

_FALL = 3.0
"""The power of the ratio with which their level falls beyond."""

_FARTHEST = 16
"""The largest ratio."""

_NEXT_TO_NONE = 1e-300


@dataclass(frozen=True)
class GuessPlan:
    """What is guessed, and how the failure probability is spread over numbers of guesses.

    Attributes:
      order: The order of guesses.
      total: The number of guesses that promises most; None if all have one level.
      fewest: The smallest number of guesses that is asked about.
      most: The largest, at least 2.
      spare: The part of the failure probability that is kept for delta; None where each boundary
        takes for delta what it needs.
    """

    order: GuessOrder
    total: int | None
    fewest: int
    most: int
    spare: float | None = None

    def totals(self) -> IntArray:
        """The numbers of guesses that are asked about, ascending, int64 of shape (n,)."""
        numbers = numbers_of_guesses(self.most)
        return np.asarray(numbers[numbers >= min(self.fewest, numbers[-1])])

    def levels(self, totals: IntArray) -> FloatArray:
        """The level of each number of guesses, in units of alpha, float64 of shape (n,)."""
        if self.total is None:
            return np.full(len(totals), _EQUAL_LEVEL)
        ratio = np.maximum(totals / self.total, self.total / totals)
        return np.asarray(_LEVEL * np.minimum(1.0, (_NEAR / ratio) ** _FALL))


def numbers_of_guesses(most: int) -> IntArray:
    """Even numbers of guesses: all to 128, each second to 256, and so on, up to `most` >= 2.

    They are even, so that neither the included nor the excluded are favoured; the largest is `most`
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


def spare_for_delta(m_delta: float, alpha: float) -> float | None:
    """The part of the failure probability that is kept for delta, whatever the scores are.

    It is None where it would be too large a part. Then the numbers of guesses are the same for all
    scores, and each boundary takes for delta what it needs.

    Args:
      m_delta: Number of canaries times delta.
      alpha: The failure probability, in (0, 1).
    """
    return m_delta / 10 if m_delta / 10 <= alpha / 3 else None


def plans_of(scores: CanaryScores, delta: float, level: float) -> tuple[GuessPlan, ...]:
    """The plans that are tried, each at its order's share of the failure probability.

    With fair coins it is one; with other coins one for each order, the same for all scores.

    Args:
      scores: The scores.
      delta: The delta of differential privacy.
      level: The failure probability of the bound.
    """
    m_delta = scores.num_coins * delta
    if scores.inclusion == "coins":
        return (plan_guesses(scores, m_delta, level),)
    return tuple(
        _fixed(order, scores.num_coins, order.most_guesses(scores.num_coins), m_delta, level)
        for order in orders_of(scores)
    )


def plan_guesses(scores: CanaryScores, m_delta: float, alpha: float) -> GuessPlan:
    """The plan for fair coins that promises most by the scores without their coins.

    For both orders and some numbers of guesses, the right guesses that the mixture of
    pooled_scores.py lets expect are turned into an epsilon. Numbers of guesses so small that delta
    would take more than what is spared for it are left out.

    Args:
      scores: The scores, at least two together; only all together are looked at.
      m_delta: Number of canaries times delta.
      alpha: The failure probability of the bound.
    """
    m = scores.num_coins
    return _plan(chances_included(pooled(scores)), m, m_delta, alpha)


def plans_of_samples(
    samples: Sequence[CanaryScores], delta: float, level: float
) -> list[tuple[GuessPlan, ...]]:
    """`plans_of` for each of several samples of as many canaries, in a tenth of the time.

    Args:
      samples: The scores of each sample; of all the same number, included in the same way.
      delta: The delta of differential privacy.
      level: The failure probability of the bound.
    """
    first = samples[0]
    if first.inclusion != "coins":
        return len(samples) * [plans_of(first, delta, level)]
    m, m_delta = first.num_coins, first.num_coins * delta
    chances = chances_in_samples(np.stack([pooled(scores) for scores in samples]))
    return [(_plan(included, m, m_delta, level),) for included in chances]


def _plan(included: FloatArray | None, m: int, m_delta: float, alpha: float) -> GuessPlan:
    """The plan by the chances that each of m canaries, in order of scores, was included."""
    spare = spare_for_delta(m_delta, alpha)
    if included is None:
        order = dataclasses.replace(GUESS_ORDERS[0], share=1.0)
        return _fixed(order, m, m, m_delta, alpha, spare=spare)
    right_at_top = np.concatenate([[0.0], np.cumsum(included[::-1])])
    right_at_bottom = np.concatenate([[0.0], np.cumsum(1 - included)])
    promises = []
    for order in GUESS_ORDERS:
        totals = _coarse(max(order.most_guesses(m), 2))
        top = order.at_top(totals)
        expected = np.floor(right_at_top[top] + right_at_bottom[totals - top] + 1e-9)
        left = alpha - (spare or 0.0)
        bounds = np.maximum(single_bounds(totals, expected.astype(np.int64), left), 0)
        promises.append((float(bounds.max()), order, totals, bounds))
    _, order, totals, bounds = max(promises, key=lambda promise: promise[0])
    order = dataclasses.replace(order, share=1.0)
    if spare is None:
        return _fixed(order, m, m, m_delta, alpha)
    return _around(order, totals, bounds, m_delta, spare)


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
    there on together then lose up to two thirds of alpha to delta (`Boundary.delta_factor`), and
    less at larger ones. Of what is spared for delta they take no more than there is.
    """
    for_delta = 0.6 / (order.share * level) if spare is None else 0.9 / max(spare, _NEXT_TO_NONE)
    enough = m_delta * for_delta
    return GuessPlan(order, None, int(np.ceil(min(enough**2, m / 2))), max(most, 2), spare)


@functools.cache
def _coarse(most: int) -> IntArray:
    halves = np.round(2 ** (np.arange(_COARSE * most.bit_length()) / _COARSE)).astype(np.int64)
    return np.asarray(np.unique(2 * np.append(halves[halves < most // 2], most // 2)))


def _around(
    order: GuessOrder, totals: IntArray, bounds: FloatArray, m_delta: float, spare: float
) -> GuessPlan:
    """The plan for the number of guesses with the largest bound, and those around it.

    Left out are numbers so small that delta would take more than is spared for it.
    """
    bounds = np.where(m_delta * _delta_factors(totals, bounds) > spare, 0, bounds)
    at = len(totals) - 1 - int(np.argmax(bounds[::-1]))
    total = int(totals[at])
    is_affordable = m_delta * _delta_factors(totals, bounds[at]) <= spare
    first = int(totals[np.argmax(is_affordable)]) if np.any(is_affordable) else total
    fewest = min(max(first, total // _FARTHEST), total)
    return GuessPlan(order, total, fewest, min(int(totals[-1]), total * _FARTHEST), spare)


def _delta_factors(totals: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """About max g_T for numbers of guesses from each of these on, where the bound is epsilon.

    It is taken at 0.65 epsilon, as a bound may come out smaller than a plan promises.
    """
    odds = np.exp(-0.65 * np.asarray(epsilon))
    return np.asarray(np.minimum(odds, 0.8 * np.sqrt(odds / totals)))
