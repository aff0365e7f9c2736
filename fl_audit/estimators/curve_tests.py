"""Tests of a claimed trade-off curve by the scores of canaries.

**The sum of scores.** Let u be the p-value of an included canary's score under its known null, and
z = -Phi^-1(u). The claim is a curve T, the largest power at each false positive rate: T = 1 - f for
a trade-off function f. An excluded canary's z exceeds t with probability at most Phi(-t), so under
the claim an included canary's z exceeds t with probability at most

    S(t) = T(Phi(-t)),                                                                        (1)

that is, z is stochastically at most Z*, with P(Z* >= t) = S(t). Let g be a non-decreasing function
that is fixed before scores are seen. Then

    P(sum over canaries of g(z) >= s) <= P(sum of as many independent g(Z*) >= s),            (2)

if (1) holds for each canary given the scores of earlier canaries, which it does if scores are
independent given inclusion. Proof: by induction. Given the previous scores, g(z) of the last canary
is stochastically at most g(Z*). Replacing this g(z) by an independent copy of g(Z*) therefore does
not lower the left side. Given that copy, (2) for one canary fewer, at s - g(Z*), bounds it. QED

The right side is computed exactly: g has values on a grid, so the sum has finitely many values,
and the probabilities of a sum of n are the coefficients of the n-th power of a polynomial.

By Neyman and Pearson the best g against canaries with z from N(m, 1) is the log of the ratio of
that density to the density of Z*. It rises with z for a Gaussian curve; otherwise the nearest
rising ratio is taken (isotonic regression). m is the smallest shift that such a test detects in 80
% of audits (`likely_shift`). A z below the 2 % quantile of N(m, 1) counts as that quantile, so a
few canaries that left no trace in the model cost little power. With more than 102,300 canaries, g
has 41 values, and a z above the quantile 1 - 1 / (10 n) of N(m, 1) counts as that quantile: the few
values are spread over the z that occur, not up to z where the ratio is rounding noise.

**Canary by canary.** Under the claim, e^g(z) / E e^g(Z*) has a mean of at most 1, given the scores
of earlier canaries. So the product over canaries, started at 1, is a nonnegative supermartingale,
and ever reaches 1 / alpha with probability at most alpha (Ville 1939): its value may be inspected
after every round (`CurveWealth`). Several such products, each with a g that is optimal against
another shift, start at equal shares of 1; their sum is the wealth.

**Correct guesses.** For arbitrarily dependent scores, the guesses of Mahloujifar et al. (2024) test
the curve (one_run/f_dp.py).
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.trade_off import TradeOff, lower_hull

_STEP = 0.01
"""Width of the cells of z in which g is constant."""

_LOWEST, _BEYOND = -6.0, 12.0
"""The lowest edge, and the distance of the highest one from where the claim's tail becomes flat."""

_NEGLIGIBLE = 1e-12

_VALUES = 1_000
"""The largest number of values of g on its grid."""

_LEAST_VALUES = 41
"""The number of values of g for the most canaries."""

_MOST_VALUES_OF_SUM = 1 << 22
"""A sum with more values is computed on a window, which bounds the memory: about 200 MB."""

_REACH = 4.0
"""Half the window, in units of (values of g - 1) sqrt(canaries): by Hoeffding's inequality the sum
is outside with a probability of at most 2 e^-32 < 3e-14, far below `ROUNDING`.
"""

_UNSEEN = 0.1
"""The expected number of canaries of the alternative above the highest z that is distinguished."""

_EXACT_UP_TO = 300_000
"""Power is computed exactly for sums with at most this many values."""

_LOST = 0.02
"""Scores below this quantile of the alternative are not distinguished."""

_ALIKE = 1e-9
"""If g varies by less than this, the alternative's tail nowhere exceeds the claimed one, so nothing
can be detected.
"""

_POWER = 0.8
_NEARLY_ALL = 0.999
_HIGHEST = 60.0
"""The search for a flat tail ends at this z."""

ROUNDING = 1e-12
"""Added to p-values, and once more per 1,000 canaries, to cover rounding of the FFT."""


@dataclass(frozen=True, eq=False)
class SumTest:
    """The test of a curve by the sum of g(z) over a number of included canaries."""

    edges: FloatArray  # between the cells of z, rising, (cells - 1,)
    values: IntArray  # g in each cell as a multiple of its grid's step, from 0 on
    masses: FloatArray  # the probability of each value of g(Z*) under the claim
    num_included: int
    shift: float  # m of the alternative for which g is optimal

    def statistic(self, z: FloatArray) -> IntArray:
        """The sum of g(z), in steps of its grid, along the last axis, of length num_included."""
        return np.asarray(self.values[np.searchsorted(self.edges, z, side="right")].sum(axis=-1))

    def p_value(self, z: FloatArray) -> float:
        """An upper bound on the probability, under the claim, of a sum at least this large."""
        return float(self.p_value_of_sum(self.statistic(z)))

    def p_value_of_sum(self, sums: IntArray) -> FloatArray:
        """The p-value of each value of the statistic."""
        at = np.asarray(sums) - self._window.start
        return np.where(at < 0, 1.0, self._tail[np.clip(at, 0, len(self._tail) - 1)])

    def critical_value(self, level: float) -> int:
        """The least sum with a p-value of at most `level`; if none, the largest plus one."""
        at = int(np.searchsorted(-self._tail, -level, side="left"))
        return self._window[at] if at < len(self._tail) else self._largest + 1

    def under(self, curve: TradeOff) -> "SumTest":
        """The test of another curve with the same g."""
        return dataclasses.replace(
            self, masses=self._masses(-np.expm1(claimed_tail(curve, self.edges)))
        )

    def power(self, critical_value: int, groups: Sequence[tuple[int, FloatArray]]) -> float:
        """The probability that the sum reaches a value; a normal approximation for many canaries.

        A group is a number of canaries and the distribution of their z, as probabilities below each
        of `edges`; the numbers add up to num_included.
        """
        numbers = [number for number, _ in groups]
        masses = [self._masses(below) for _, below in groups]
        if self.num_included * len(self.masses) <= _EXACT_UP_TO:
            tail = _tail_of_sum(masses, numbers, range(self._largest + 1))
            return float(tail[critical_value:][:1].sum())
        sums = np.arange(len(self.masses))
        means = [float(m @ sums) for m in masses]
        squares = [float(m @ (sums - mean) ** 2) for m, mean in zip(masses, means, strict=True)]
        mean, variance = np.dot(numbers, means), np.dot(numbers, squares)
        return float(special.ndtr((mean + 0.5 - critical_value) / math.sqrt(max(variance, 1e-12))))

    def _masses(self, below: FloatArray) -> FloatArray:
        """The probability of each value, from the probabilities below each of `edges`."""
        cells = np.diff(below, prepend=0.0, append=1.0)
        masses = np.bincount(self.values, cells, minlength=len(self.masses))
        return np.asarray(np.maximum(masses, 0.0), np.float64)

    @property
    def _largest(self) -> int:
        return self.num_included * (len(self.masses) - 1)

    @functools.cached_property
    def _window(self) -> range:
        """All values of the sum, or those near its mean under the claim: the others' mass is 0."""
        if self._largest < _MOST_VALUES_OF_SUM:
            return range(self._largest + 1)
        mean = self.num_included * float(self.masses @ np.arange(len(self.masses)))
        reach = _REACH * (len(self.masses) - 1) * math.sqrt(self.num_included)
        return range(max(0, int(mean - reach)), min(self._largest, math.ceil(mean + reach)) + 1)

    @functools.cached_property
    def _tail(self) -> FloatArray:
        """P(sum >= s) for s in the window, at most 1 and never rising."""
        return _tail_of_sum([self.masses], [self.num_included], self._window)


def _tail_of_sum(
    distributions: Sequence[FloatArray], numbers: Sequence[int], window: range
) -> FloatArray:
    """P(sum >= s) for a sum of numbers[i] draws from distribution i, rounded up; s in a window.

    The sum is computed modulo the window's length, so mass outside the window counts inside it.
    """
    length = fft.next_fast_len(len(window), real=True)
    transform = np.ones(length // 2 + 1, np.complex128)
    with np.errstate(under="ignore"):
        for probabilities, number in zip(distributions, numbers, strict=True):
            transform *= fft.rfft(probabilities, length) ** number
        masses = np.roll(fft.irfft(transform, length), -window.start)[: len(window)]
    tail = np.cumsum(np.maximum(masses, 0.0)[::-1])[::-1]
    return np.asarray(np.minimum(tail + ROUNDING * (1 + sum(numbers) / 1000), 1.0))


def sum_test(curve: TradeOff, num_included: int, level: float) -> SumTest:
    """The test of a curve by a number of canaries, valid at any level and optimal near `level`."""
    edges, log_tail = _cells(curve)
    shift = likely_shift(edges, log_tail, num_included, level)
    g, masses = _log_ratios(edges, log_tail, shift)
    most = min(_VALUES, _MOST_VALUES_OF_SUM // num_included)
    if most < _LEAST_VALUES:
        most = _LEAST_VALUES
        highest = shift - float(special.ndtri(_UNSEEN / num_included))
        g = np.minimum(g, g[np.searchsorted(edges, highest)])
    spread = g[-1] - g[0]
    scaled = (g - g[0]) * ((most - 1) / spread) if spread > 0 else np.zeros_like(g)
    values: IntArray = np.floor(scaled + 1e-9).astype(np.int64)
    probabilities = np.bincount(values, masses, minlength=most).astype(np.float64)
    return SumTest(edges, values, probabilities, num_included, shift)


_FEWEST, _MOST, _STAKES = 2, 4_000, 6
"""There are 6 bets: each on the shift that some number of canaries, from 2 to 4,000, detects."""

_BET_LEVEL = 0.05
_SLACK = 1e-9
"""Added to the log of each divisor, to cover rounding."""


class CurveWealth:
    """The wealth of bets against a claimed curve; `largest` is the log of its maximum so far."""

    def __init__(self, curve: TradeOff) -> None:
        """Starts with a stake of 1, split equally between the bets."""
        self._edges, log_tail = _cells(curve)
        rows = []
        for number in np.geomspace(_FEWEST, _MOST, _STAKES).round().astype(int):
            shift = likely_shift(self._edges, log_tail, int(number), _BET_LEVEL)
            g, masses = _log_ratios(self._edges, log_tail, shift)
            rows.append(g - special.logsumexp(g, b=masses) - _SLACK)
        self._log_factors = np.array(rows)
        self._log_products = np.full(len(rows), -math.log(len(rows)))
        self.largest = 0.0

    def add(self, z: FloatArray) -> None:
        """Adds the deviates of included canaries; the p-value may be inspected after each call."""
        cells = np.searchsorted(self._edges, z, side="right")
        self._log_products += self._log_factors[:, cells].sum(axis=1)
        self.largest = max(self.largest, float(special.logsumexp(self._log_products)))

    @property
    def p_value(self) -> float:
        """A p-value of the claim that is valid at all inspections together."""
        return math.exp(-self.largest)


def claimed_tail(curve: TradeOff, z: FloatArray) -> FloatArray:
    """Log of S(z) of equation (1), never rising with z."""
    return curve.log_power(special.log_ndtr(-z))


def _cells(curve: TradeOff) -> tuple[FloatArray, FloatArray]:
    """The edges of the cells, and log S at each edge."""
    high = 1.0
    while high < _HIGHEST and not _is_flat(curve, high):
        high += 1.0
    edges = np.arange(_LOWEST, high + _BEYOND, _STEP)
    return edges, claimed_tail(curve, edges)


def _is_flat(curve: TradeOff, z: float) -> bool:
    """Whether the claimed tail hardly falls from z to z + 12, and is below 0.999 there."""
    here, beyond = np.exp(claimed_tail(curve, np.array([z, z + _BEYOND])))
    return bool(beyond < _NEARLY_ALL and here - beyond <= _NEGLIGIBLE + 1e-6 * beyond)


def _log_ratios(
    edges: FloatArray, log_tail: FloatArray, shift: float
) -> tuple[FloatArray, FloatArray]:
    """The values of g against N(shift, 1) in each cell, and the claim's probabilities of cells.

    g is the log of the nearest ratio that rises with z (isotonic regression): the slope of the
    lower convex hull of the alternative's cumulative distribution plotted against the claim's.
    """
    below_claim = np.concatenate([[0.0], -np.expm1(log_tail), [1.0]])
    below = np.concatenate([[0.0], special.ndtr(edges - shift), [1.0]])
    below[below < _LOST] = 0.0  # cells below the quantile share the ratio of its cell
    is_positive = below > 0
    x, y = lower_hull(below_claim[is_positive], below[is_positive])
    cell = np.clip(np.searchsorted(x, below_claim[1:], side="left"), 1, len(x) - 1)
    slopes = np.diff(y) / np.diff(x)
    return np.log(slopes[cell - 1]), np.diff(below_claim)


def likely_shift(edges: FloatArray, log_tail: FloatArray, num_included: int, level: float) -> float:
    """Roughly the smallest shift of included scores that a sum of g detects in 80 % of audits."""

    def is_detected(shift: float) -> bool:
        return _detecting_number(edges, log_tail, shift, level) < num_included

    low, high = 0.0, float(edges[-1]) - _BEYOND / 2
    while high - low > 0.002 * (1 + low):
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high


def _detecting_number(edges: FloatArray, log_tail: FloatArray, shift: float, level: float) -> float:
    """Canaries needed to detect `shift`, from g's mean and variance under claim and shift."""
    g, masses = _log_ratios(edges, log_tail, shift)
    if g[-1] - g[0] < _ALIKE:
        return math.inf
    needed = -float(special.ndtri(level)), float(special.ndtri(_POWER))
    alternative = np.diff(special.ndtr(edges - shift), prepend=0.0, append=1.0)
    means = [float(g @ weights) for weights in (masses, alternative)]
    pairs = zip((masses, alternative), means, strict=True)
    roots = [math.sqrt(max(float((g - mean) ** 2 @ weights), 0)) for weights, mean in pairs]
    spread = sum(factor * root for factor, root in zip(needed, roots, strict=True))
    return (spread / (means[1] - means[0])) ** 2 if means[1] > means[0] else math.inf
