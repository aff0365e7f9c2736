"""Upper bounds on epsilon under a secret participation schedule.

With noise multiplier sigma, a canary moves the released sum of each of its rounds by one clip norm.
However later rounds depend on earlier ones, the attacker sees no more than a function of x = (x_1,
..., x_T), where x is N(e_t, sigma^2 I) if the canary is in round t and N(0, sigma^2 I) if it is in
none: given what was released before, each round is a function of an independent Gaussian, and that
function does not depend on t. So one round drawn from T is dominated by the pair

    P = mean_t N(e_t, sigma^2 I),    Q = N(0, sigma^2 I)

of random allocation (Feldman & Shenfeld 2025, arXiv:2502.12773; Chua et al. 2024, "Balls-and-bins
sampling for DP-SGD", arXiv:2412.16802), whose ratio under Q is the mean of T independent
log-normal ratios W_t = exp(z_t / sigma - 1 / (2 sigma^2)).

Two distributions P and Q are compared through R = dP/dQ. Under Q it has mean 1, and both directions
of differential privacy are means under Q of a convex function of R:

    delta(P, Q) = E (R - e^eps)_+,    delta(Q, P) = E (1 - e^eps R)_+.

So spreading mass of R without moving its mean (which gives an R' larger in the convex order) can
only raise both: the pair of R' dominates (P, Q). Every rounding here is such a spread. Mass between
two points of the grid goes to both, in the proportion that keeps the mean; mass below the grid goes
to 0 and to the lowest point, mass above it to the highest point and to infinity. Where R is so
large that a float cannot hold its Q-mass, P-mass goes to infinity.
Weighted sums and products of independent ratios keep the convex order, as such sums and products
are convex in each ratio while all other ratios are fixed. So sums and products of rounded ratios
dominate, too.

All masses are positive and are only added and multiplied, without a Fourier transform, so that
each keeps its relative precision however small it is.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.accounting.sampling import Blocks
from fl_audit.array_types import FloatArray
from fl_audit.estimators.distributions import supremum
from fl_audit.estimators.optimal_tests import NUM_TESTS, OptimalTests

_ROUNDING = 1e-9
"""Allowance for rounding errors (1e-11 as measured), relative to delta and added to epsilon."""

_LARGEST_LOG = 650.0
"""The log of the largest factor e^epsilon, and of the highest point of any grid.

Floats reach down to e^-744: with up to 10^5 points, P-masses lose less than 10^-30 to underflow."""

_NEGLIGIBLE = 40.0
"""The log ratio of two summands beyond which the smaller, 4e-18 of the larger, is lost."""


@dataclass(frozen=True, eq=False)
class RatioDistribution:
    """The distribution of a likelihood ratio R = dP/dQ under Q, at points of a geometric grid.

    Attributes:
      step: The spacing h of points in log R.
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

    @functools.cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Q- and P-masses from each point up, and below each point, of shape (points + 1,)."""
        q_up, p_up = (
            np.cumsum(np.append(0.0, m[::-1]))[::-1] for m in (self.masses, self.p_masses)
        )
        q_below, p_below = (np.cumsum(np.append(0.0, m)) for m in (self.masses, self.p_masses))
        return q_up, p_up, q_below, p_below

    def deltas(self, epsilon: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        """The smallest deltas with which (P, Q) and (Q, P) are (epsilon, delta)-close."""
        q_up, p_up, q_below, p_below = self._sums
        above = np.searchsorted(self.logs, epsilon, side="right")
        below = np.searchsorted(self.logs, -np.asarray(epsilon))
        factor = np.exp(np.minimum(epsilon, _LARGEST_LOG))
        forth = np.maximum(p_up[above] - factor * q_up[above], 0.0)
        back = np.maximum(q_below[below] - factor * p_below[below], 0.0)
        return self.at_infinity + forth, self.at_zero + back

    def epsilon(self, delta: float) -> float:
        """An upper bound on epsilon in both directions, infinite if delta is too small."""
        allowed = delta * (1 - _ROUNDING)
        if max(self.at_infinity, self.at_zero) >= allowed:
            return math.inf
        least = supremum(lambda epsilon: bool(np.max(self.deltas(epsilon)) > allowed))
        return least + _ROUNDING if least else 0.0

    def trimmed(self, tail: float) -> "RatioDistribution":
        """Cuts the lower Q-tail and the upper P-tail, at most `tail` each; the result dominates."""
        low = int(np.searchsorted(np.cumsum(self.masses), tail, side="right"))
        top = int(np.searchsorted(np.cumsum(self.p_masses[::-1]), tail, side="right"))
        high = len(self.masses) - 1 - top
        if low > high:
            return self
        masses = self.masses[low : high + 1].copy()
        below, above = self.masses[:low], self.masses[high + 1 :]
        of_lowest = self.logs[:low] - self.logs[low]
        of_highest = self.logs[high] - self.logs[high + 1 :]
        masses[0] += below @ np.exp(of_lowest)
        masses[-1] += above.sum()
        return RatioDistribution(
            self.step,
            float(self.logs[low]),
            masses,
            self.at_zero - float(below @ np.expm1(of_lowest)),
            self.at_infinity - float(self.p_masses[high + 1 :] @ np.expm1(of_highest)),
        )

    def optimal_tests(self) -> OptimalTests:
        """The tests R >= r of P against Q, for up to `NUM_TESTS` points r of the grid."""
        indices = np.unique(np.linspace(0, len(self.masses) - 1, NUM_TESTS).astype(np.int64))
        with np.errstate(divide="ignore"):
            log_fpr = np.log(np.cumsum(self.masses[::-1])[::-1])
        return OptimalTests(
            log_fpr=log_fpr[indices],
            tpr=self.at_infinity + np.cumsum(self.p_masses[::-1])[::-1][indices],
            tnr=self.at_zero + (np.cumsum(self.masses) - self.masses)[indices],
            fnr=(np.cumsum(self.p_masses) - self.p_masses)[indices],
        )


def product(first: RatioDistribution, second: RatioDistribution) -> RatioDistribution:
    """The distribution of the product of two independent ratios on grids of equal step.

    It is exact up to `_LARGEST_LOG`; P-mass above it goes to infinity.
    """
    low = first.first + second.first
    points = max(math.floor((_LARGEST_LOG - low) / first.step) + 1, 1)
    _, p_up, _, _ = second._sums
    beyond = np.clip(points - np.arange(len(first.masses)), 0, len(second.masses))
    at_infinity = first.at_infinity + second.at_infinity - first.at_infinity * second.at_infinity
    return RatioDistribution(
        first.step,
        low,
        np.convolve(first.masses, second.masses)[:points],
        first.at_zero + second.at_zero - first.at_zero * second.at_zero,
        at_infinity + float(first.p_masses @ p_up[beyond]),
    )


def weighted_sum(
    first: RatioDistribution, weight: float, second: RatioDistribution
) -> RatioDistribution:
    """The distribution of weight R_1 + (1 - weight) R_2 of independent ratios, rounded to the grid.

    The sum of e^x and e^y with x >= y is e^(x + log(1 + e^(y - x))), so that its rounding depends
    on the difference x - y alone. The weighted points of both have to be on one grid, as they are
    if both ratios are means of copies of one ratio and are weighted by their numbers of copies.
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
    return RatioDistribution(
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
    """Adds to `summed` the masses of all sums whose summand from `larger` is the larger one.

    `summed` starts at the first point of `larger`. Point j of `smaller` has the value of point j -
    lag of `larger`. `from_difference` is the least difference of the summands, in points.
    """
    negligible = max(math.ceil(_NEGLIGIBLE / step), from_difference)
    least = max(from_difference, lag - len(smaller) + 1)
    differences = np.arange(least, min(negligible, len(larger) + lag))
    logs = np.log1p(np.exp(-step * differences))
    below = np.floor(logs / step).astype(np.int64)
    shares = np.minimum(np.expm1(logs - below * step) / math.expm1(step), 1.0)
    ends = np.append(np.flatnonzero(np.diff(below)) + 1, len(below))
    start = 0
    for end in ends[ends > 0].tolist():  # differences whose sums are between the same two points
        offset = lag - int(differences[start])
        first = max(0, -offset)
        last = min(len(larger), len(smaller) + end - start - 1 - offset)
        for weights, point in ((1 - shares[start:end], 0), (shares[start:end], 1)):
            near = np.convolve(smaller, weights)[first + offset : last + offset]
            at = int(below[start]) + point
            summed[first + at : last + at] += larger[first:last] * near
        start = end
    far = np.arange(len(larger)) + lag - negligible
    cumulated = np.concatenate([[0.0], np.cumsum(smaller)])
    summed[: len(larger)] += larger * cumulated[np.clip(far + 1, 0, len(smaller))]


# The ratio under each sampling.


LARGEST_SHIFT = 25.0
"""The largest shift of all rounds of a canary together, in standard deviations of the noise.

Beyond it, where epsilon is above 300, a float cannot hold the probabilities."""

_POINTS = 3_000
"""The number of points of one round's grid.

Compared with twice as many points, an epsilon above 0.01 is at most 1 % larger for up to 2,000
rounds, and at most 0.01 % larger for up to 10 rounds."""

_TAIL = 1e-6
"""The approximate share of delta that all truncations of tails may cost together."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@functools.lru_cache(maxsize=16)
def one_round_of_each(noise_multiplier: float, blocks: Blocks, delta: float) -> RatioDistribution:
    """The ratio if a canary is in one uniformly drawn round of each block.

    The square root of the number of blocks must be at most `LARGEST_SHIFT` times the noise
    multiplier; `delta` sets where tails are cut.
    """
    number = sum(count for _, count in blocks)
    tail, shift = _TAIL * delta / number, 1 / noise_multiplier
    step = _width(shift, tail) / _POINTS
    distributions = []
    for length, count in blocks:
        if length == 1:
            distributions.append(gaussian_ratio(math.sqrt(count) * shift, step, tail))
        else:
            distributions.append(_power(_mean_of(shift, length, step, tail), count, tail))
    return functools.reduce(
        lambda earlier, later: product(earlier, later).trimmed(tail), distributions
    )


def sampled_rounds(
    noise_multiplier: float, probability: float, rounds: int, delta: float
) -> RatioDistribution:
    """The ratio if a canary is in each round by an independent coin.

    A round's ratio is 1 - q + q W, with W its ratio without sampling (Abadi et al. 2016,
    arXiv:1607.00133, lemma 3). The noise multiplier must be at least 1 / `LARGEST_SHIFT`; `delta`
    sets where tails are cut.
    """
    return mixed_rounds(noise_multiplier, ((probability, 1.0),), rounds, delta)


@functools.lru_cache(maxsize=16)
def mixed_rounds(
    noise_multiplier: float, coins: tuple[tuple[float, float], ...], rounds: int, delta: float
) -> RatioDistribution:
    """The ratio if each round has one of several coins and the attacker knows which one.

    `coins` has a pair for each coin: the coin's probability of participation, in [0, 1), and the
    probability that a round has this coin; all second ones add up to 1. The other arguments are as
    in `sampled_rounds`.
    """
    tail, shift = _TAIL * delta / rounds, 1 / noise_multiplier
    of_round = gaussian_ratio(shift, _width(shift, tail) / _POINTS, tail)
    largest = max(probability for probability, _ in coins)
    lowest = math.log1p(-largest)
    highest = np.logaddexp(lowest, math.log(largest) + of_round.logs[-1])
    step = (float(highest) - lowest) / _POINTS
    masses, at_infinity = np.zeros(_POINTS + 1), 0.0
    round_logs = np.append(-np.inf, of_round.logs)
    round_masses = np.append(of_round.at_zero, of_round.masses)
    for probability, weight in coins:
        with np.errstate(divide="ignore"):
            logs = np.logaddexp(math.log1p(-probability), np.log(probability) + round_logs)
        below = np.clip((logs - lowest) // step, 0, _POINTS - 1).astype(np.int64)
        share = np.clip(np.expm1(logs - lowest - step * below) / np.expm1(step), 0, 1)
        np.add.at(masses, below, weight * (1 - share) * round_masses)
        np.add.at(masses, below + 1, weight * share * round_masses)
        at_infinity += weight * probability * of_round.at_infinity
    distribution = RatioDistribution(step, lowest, masses, 0.0, at_infinity)
    return _power(distribution.trimmed(tail), rounds, tail)


def _width(shift: float, tail: float) -> float:
    """The width in log R of all but the tails of one round's ratio."""
    return shift * (2 * float(-special.ndtri(tail)) + shift)


def _mean_of(shift: float, length: int, step: float, tail: float) -> RatioDistribution:
    """The distribution of the mean of `length` independent ratios, by doubling."""
    doubled, number = gaussian_ratio(shift, step, tail), 1
    mixture: RatioDistribution | None = None
    done = 0
    while True:
        if length & number:
            share = done / (done + number)
            mixture = weighted_sum(mixture, share, doubled).trimmed(tail) if mixture else doubled
            done += number
        if mixture and done == length:
            return mixture
        doubled, number = weighted_sum(doubled, 0.5, doubled).trimmed(tail), 2 * number


def _power(distribution: RatioDistribution, exponent: int, tail: float) -> RatioDistribution:
    """The distribution of the product of `exponent` independent ratios, by squaring."""
    if exponent == 1:
        return distribution
    half = _power(distribution, exponent // 2, tail)
    square = product(half, half).trimmed(tail)
    return product(square, distribution).trimmed(tail) if exponent % 2 else square


def gaussian_ratio(shift: float, step: float, tail: float) -> RatioDistribution:
    """The distribution of the ratio of N(shift, 1) to N(0, 1), rounded to the grid.

    Under N(0, 1) the log ratio is shift z - shift^2 / 2. The mass of each cell is shared between
    its ends by Gauss-Legendre quadrature, whose error is far below the rounding of floats. `tail`
    is the Q-mass below the grid; the P-mass above it is at most as large, unless the grid ends at
    `_LARGEST_LOG`.
    """
    reach = float(-special.ndtri(tail))
    low = -shift * reach - shift**2 / 2
    cells = math.ceil(min(2 * shift * reach + shift**2, _LARGEST_LOG - low) / step)
    inside = (_NODES + 1) / 2
    z = (low + step * (np.arange(cells)[:, None] + inside)) / shift + shift / 2
    density = np.exp(-(z**2) / 2) * _WEIGHTS * (step / shift / 2 / math.sqrt(2 * math.pi))
    up = density @ (np.expm1(step * inside) / np.expm1(step))
    down = density @ (np.exp(step * inside) * np.expm1(step * (1 - inside)) / np.expm1(step))
    masses = np.concatenate([down, [0.0]]) + np.concatenate([[0.0], up])
    end = low + step * cells
    below, p_below = special.ndtr([-reach, -reach - shift])
    above, p_above = special.ndtr([-(end / shift + shift / 2), -(end / shift - shift / 2)])
    to_lowest = p_below * math.exp(-low)
    masses[0] += to_lowest
    masses[-1] += above
    return RatioDistribution(step, low, masses, below - to_lowest, p_above)
