"""The noise on single coordinates: whether it is missing from any round on, and how it is spread.

**Missing.** Let y be a coordinate's change, over the noise, from a mean of the rounds before. Given
these, |y| is stochastically at least |g| for g ~ N(0, 1), whatever clients send (Anderson 1955), so
that the likelihood ratio L of less noise, N(0, r^2) with r < 1, which falls in |y|, is at most that
of g, which has mean 1. The Shiryaev-Roberts statistic M = (M + 1) L therefore exceeds t / q within
t rounds with probability q at most (M - t is a supermartingale), coordinate by coordinate as if all
g were independent: the number of coordinates above is at most binomial. M is large if a coordinate
has had little noise for a while, whenever that began, so a tenth of the coordinates is found that
has none from round 11 on. Values that are rounded to a grid of r leave the mean of L at 1, up to
1e-8 (Poisson's summation formula). On a coarser grid, half of its step is added to |y|, so that L
is no more than before rounding.

**Spread.** Likewise |s + g| exceeds a threshold at least as often as |g|, for any s chosen before
g. Uniform noise and random signs of the right variance exceed two standard deviations never.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray

OFF = 5e-3
"""The relative error allowed in the stated noise: a value of three digits has it, and so have
numbers of bfloat16 or float16. An epsilon changes by as little."""

THRESHOLDS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0])
"""Absolute values, over the noise, above which coordinates are counted."""

_ROUNDED = 0.125
"""The largest rounding error of a coordinate, over the noise, for which thresholds allow: a grid of
a quarter of it."""

_SAMPLE = 4096
"""The number of coordinates by which a grid is recognised."""

_ON_GRID = 1e-3
"""The largest distance of a rounded value from its grid, over the grid's step."""

_LESS = (0.25, 0.6)
"""The shares of the noise against which its absence is tested."""

_CHANCES = 10.0 ** -np.arange(1, 21)
"""The probabilities of the thresholds above which coordinates with little noise are counted."""

_WEIGHT = np.float32(0.25)
"""The weight of the newest round in the mean of the rounds before."""

_LARGEST = np.float32(1e30)

_PIECE = 1 << 20
"""Coordinates per step."""


@dataclass(frozen=True)
class Scarcity:
    """How many coordinates have had too little noise up to a round.

    Attributes:
      log_p: The logarithm of a bound on the probability of so many.
      ratio: Their number over the expected one, where that looks worst.
    """

    log_p: float
    ratio: float


class SilentCoordinates:
    """Follows every coordinate over rounds; it keeps three numbers for each."""

    def __init__(self) -> None:
        self._rounds = 0
        self._mean = np.zeros(0, np.float32)
        self._evidence = np.zeros((len(_LESS), 0), np.float32)

    def see_round(self, aggregate: Float32Array, stddev: float, error: float = 0.0) -> Scarcity:
        """The coordinates with too little noise after a round with noise of this size.

        `error` is that of `rounding_error`.
        """
        dim = len(aggregate)
        if self._rounds == 0:
            self._mean = np.zeros(dim, np.float32)
            self._evidence = np.zeros((len(_LESS), dim), np.float32)
        weight = _WEIGHT if self._rounds else np.float32(1)
        self._rounds += 1
        limits = self._rounds / _CHANCES
        above = np.zeros((len(_LESS), len(limits)))
        unit = np.float32(1 / (stddev * (1 - OFF)))
        for start in range(0, dim, _PIECE):
            here = slice(start, start + _PIECE)
            change = aggregate[here] - self._mean[here]
            self._mean[here] += weight * change
            with np.errstate(over="ignore"):
                change *= unit
                if error:
                    change = np.abs(change) + np.float32(error)
                np.square(change, out=change)
            for at, less in enumerate(_LESS):
                evidence = self._evidence[at, here]
                evidence += 1
                with np.errstate(under="ignore"):
                    evidence *= np.exp(change * np.float32((1 - less**-2) / 2)) / np.float32(less)
                np.minimum(evidence, _LARGEST, out=evidence)
                large = evidence[evidence >= limits[0]]
                above[at] += [np.count_nonzero(large >= limit) for limit in limits]
        return _scarcity(above, dim)


def _scarcity(above: FloatArray, dim: int) -> Scarcity:
    log_p = -dim * binomial_divergence(np.maximum(above / dim, _CHANCES), _CHANCES)
    at = np.unravel_index(np.argmin(log_p), log_p.shape)
    ratio = above[at] / (dim * _CHANCES[at[1]])
    return Scarcity(min(0.0, float(log_p[at]) + math.log(log_p.size)), float(ratio))


def rounding_error(aggregate: Float32Array, stddev: float) -> float:
    """Half the step of the grid through 0 to which all values are rounded, over the noise.

    It is 0 unless the step is more than a quarter of the noise. Rounding what is released is as
    private; rounded noise on updates that are on no grid is not recognised.
    """
    values = np.unique(np.abs(aggregate[:_SAMPLE]).astype(np.float64)) / stddev
    if len(values) < 3 or len(values) > min(len(aggregate), _SAMPLE) / 2:
        return 0.0
    step = float(np.diff(values[values > 0], prepend=0.0).min())
    multiples = values / max(step, _ON_GRID)
    is_on_grid = np.abs(multiples - np.round(multiples)).max() < _ON_GRID
    return step / 2 if is_on_grid and step > 2 * _ROUNDED else 0.0


def exceeding(aggregate: Float32Array, stddev: float, error: float = 0.0) -> FloatArray:
    """The number of coordinates whose absolute value exceeds each threshold.

    By so much more as `error`, that of `rounding_error`, is more than thresholds allow for.
    """
    limits = (THRESHOLDS - max(error - _ROUNDED, 0.0)) * stddev
    counts = np.zeros(len(limits))
    for start in range(0, len(aggregate), _PIECE):
        piece = np.abs(aggregate[start : start + _PIECE])
        counts += [np.count_nonzero(piece > limit) for limit in limits]
    return counts


def log_p_so_few(counts: FloatArray, trials: FloatArray) -> FloatArray:
    """A bound on the log probability that so few coordinates exceed the thresholds.

    `counts` has a column for each threshold; `trials` has the number of coordinates, of shape
    (rows, 1).
    """
    share = counts / trials
    return np.asarray(-trials * binomial_divergence(np.minimum(share, EXPECTED), EXPECTED))


EXPECTED = 2 * special.ndtr(-(THRESHOLDS + _ROUNDED) / (1 - OFF))
"""The least probability with which noise exceeds each threshold."""


def binomial_divergence(share: FloatArray, chance: FloatArray) -> FloatArray:
    """The divergence of coins, by which Chernoff bounds binomial tails: P(X >= n q) <= e^(-n D).

    It is the Kullback-Leibler divergence D(q || p) of shares q, in nats.
    """
    return np.asarray(special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance))
