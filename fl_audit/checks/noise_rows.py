"""Measurements of each round's noise, as a row of values, for the checks and for a file.

A row describes the round's aggregate, whitened if noise is correlated, in units of the configured
noise on a coordinate. The row is NaN if that noise is zero, unknown or below the resolution of
float32; the first two entries are NaN if no autocorrelation was computed.

Two tests look at single coordinates.

**Missing noise**, from any round on. Let y be a coordinate's change from a mean of the previous
rounds, in units of the noise. Given these rounds, |y| is stochastically at least |g| for g ~ N(0,
1), for any updates (Anderson 1955). The likelihood ratio L of less noise, N(0, r^2) with r < 1,
decreases in |y|, so L is stochastically at most the ratio at g, whose mean is 1. The
Shiryaev-Roberts statistic M, which becomes (M + 1) L in each round, therefore exceeds t / q after t
rounds with probability at most q (M - t is a supermartingale). The number of coordinates with such
an M is stochastically at most binomial, as if all g were independent. M is large if a coordinate
has had little noise for a while, whenever that began: if a tenth of the coordinates has no noise
from round 11 on, this is found. If values are rounded to a grid of step r, L keeps mean 1 up to
1e-8 (Poisson's summation formula). On a coarser grid, half a step is added to |y|, so that L is no
more than before rounding.

**Spread.** Likewise |u + g| exceeds a threshold at least as often as |g|, for any update u chosen
before g. Uniform noise and random signs of the right variance never exceed two standard deviations.

Sketches of aggregates find noise that was used in an earlier round.

A sketch is R x for an aggregate x and a fixed matrix R with orthonormal rows: sums over
neighbouring coordinates with random signs. Given earlier rounds, the noise in a sketch is N(0, I)
in units of the noise, and the updates in it are a fixed vector. So for sketches of s entries, the
squared norm of the component orthogonal to k directions of earlier sketches is stochastically at
least chi-square with s - k degrees of freedom, whatever clients send. Noise that repeats or cancels
earlier noise, or is a sum of parts of earlier noise, has no such component.

The tested components are orthogonal to the span of recent sketches and the sum of older ones
(`lengths_beyond_past`), and to any single earlier aggregate or its reversal (`nearest_rounds`).
"""

import functools
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.checks.noise_bounds import EVERY_ROUND, strongest_autocorrelation
from fl_audit.inner_products import euclidean_norm

MOST_NUMBERS = 1024
"""The number of entries of a large model's sketch."""

_WINDOW = 128
"""The least number of previous sketches whose span is tested, for long sketches."""

_BLOCK = 256
"""The number of rounds compared at once with all earlier rounds."""

_SEED = 20251126


def sketch_size(dim: int) -> int:
    """The number of entries, even, of the sketch of a vector of `dim` coordinates."""
    return min(MOST_NUMBERS, dim // 2 * 2)


def sketch(vector: Float32Array) -> FloatArray:
    """The sketch of a vector of shape (dim,); reversing the vector swaps the sketch's halves.

    If the number of coordinates is odd, the middle one is left out.
    """
    half, size = len(vector) // 2, sketch_size(len(vector)) // 2
    if size == 0:
        return np.zeros(0)
    signs = _signs(half)
    starts = np.arange(size) * half // size
    roots = np.sqrt(np.diff(np.append(starts, half)))
    halves = vector[:half], vector[: -half - 1 : -1]
    return np.concatenate(
        [np.add.reduceat(part * signs, starts, dtype=np.float64) / roots for part in halves]
    )


@functools.lru_cache(maxsize=2)
def _signs(count: int) -> npt.NDArray[np.int8]:
    random = np.random.Generator(np.random.Philox(_SEED))
    return (2 * random.integers(0, 2, count, np.int8) - 1).astype(np.int8)


def lengths_beyond_past(sketches: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The components of sketches orthogonal to recent sketches and the sum of older ones.

    This takes time n w s for n sketches of s entries and windows of w <= 128 rounds.

    Returns:
      The squared norms of these components, float64 of shape (rounds,), and the degrees of freedom
      of the noise in them, of the same shape; 0 if no freedom is left.
    """
    rounds, size = sketches.shape
    window = max(min(_WINDOW, size // 8), 1)
    lengths, dof = np.zeros(rounds), np.zeros(rounds)
    for start in range(0, rounds, window):
        first = max(0, start - window)
        older = [sketches[:first].sum(axis=0)] if first else []
        now = sketches[start : start + window]
        together = np.vstack([*older, sketches[first:start], now])
        rest = np.diag(np.linalg.qr(together.T, mode="r"))
        before = len(together) - len(now)
        found = slice(start, start + min(len(now), max(size - before, 0)))
        lengths[found] = rest[before:] ** 2
        dof[found] = size - np.arange(before, len(rest))
    return lengths, dof


@dataclass(frozen=True, eq=False)
class NearestRounds:
    """For each round, the earlier round with the most similar sketch, up to factor and reversal.

    Attributes:
      rounds: The index of the earlier round, int64 of shape (rounds,); -1 for the first one.
      lengths: The squared norm of each sketch's component orthogonal to the earlier sketch or to
        the reversed aggregate's sketch, whichever component is shorter, float64 of shape (rounds,);
        for the first round, the whole squared norm.
    """

    rounds: IntArray
    lengths: FloatArray


def nearest_rounds(sketches: FloatArray) -> NearestRounds:
    """The nearest earlier round of each round.

    This takes time n^2 s for n sketches of s entries, and memory for 256 n values.
    """
    rounds, size = sketches.shape
    norms = np.linalg.norm(sketches, axis=1, keepdims=True)
    exact = sketches / np.where(norms > 0, norms, 1)
    units, nearest = exact.astype(np.float32), np.full(rounds, -1)
    backwards = np.roll(units, size // 2, axis=1)
    for start in range(0, rounds, _BLOCK):
        here = slice(start, start + _BLOCK)
        others = [one[: start + _BLOCK].T for one in (units, backwards)]
        cosines = np.maximum(*(np.abs(units[here] @ one) for one in others))
        is_earlier = np.arange(cosines.shape[1]) < np.arange(start, start + len(cosines))[:, None]
        found = np.where(is_earlier, cosines, -1).argmax(axis=1)
        nearest[here] = np.where(is_earlier.any(axis=1), found, -1)
    earlier = np.where(nearest[:, None] >= 0, exact[nearest], 0)
    rests = [
        sketches - np.einsum("rs,rs->r", sketches, one)[:, None] * one
        for one in (earlier, np.roll(earlier, size // 2, axis=1))
    ]
    return NearestRounds(nearest, np.min([(rest**2).sum(axis=1) for rest in rests], axis=0))


OFF = 5e-3
"""The allowed relative error of the stated noise, which may be rounded to three digits, bfloat16 or
float16; the relative change of epsilon is as small.
"""

THRESHOLDS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0])
"""Absolute values, over the noise, above which coordinates are counted."""

_ROUNDED = 0.125
"""The largest rounding error of a coordinate, over the noise, that the thresholds tolerate: half
the step of a grid whose step is a quarter of the noise.
"""

_SAMPLE = 4096
"""The number of coordinates tested for a grid."""

_ON_GRID = 1e-3
"""The largest distance of a rounded value from its grid, in steps."""

_LESS = (0.25, 0.6)
"""The alternatives: noise reduced to these shares."""

_CHANCES = 10.0 ** -np.arange(1, 21)
"""The bounds q on the probability that M exceeds the threshold t / q."""

_WEIGHT = np.float32(0.25)
"""The weight of the newest round in the mean of the previous rounds."""

_LARGEST = np.float32(1e30)

_PIECE = 1 << 20
"""The number of coordinates processed at once."""


@dataclass(frozen=True)
class Scarcity:
    """The number of coordinates with too little noise up to a round."""

    log_p: float  # the logarithm of a bound on the probability of this number or more
    ratio: float  # the number over the expected one, at the worst threshold


class SilentCoordinates:
    """Follows every coordinate over rounds by three values: a mean, and M for two alternatives."""

    def __init__(self) -> None:
        self._rounds = 0
        self._mean = np.zeros(0, np.float32)
        self._evidence = np.zeros((len(_LESS), 0), np.float32)

    def see_round(self, aggregate: Float32Array, stddev: float, error: float = 0.0) -> Scarcity:
        """Adds a round, and counts the coordinates with too little noise up to this round.

        `error` is from `rounding_error`.
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
    """Half the step, in units of the noise, of a grid through 0 to which all values are rounded.

    0 if there is no such grid, or if the step is at most a quarter of the noise. Rounding a release
    does not weaken privacy; rounded noise on updates off the grid is not recognised.
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

    Values are increased by the excess of `error`, from `rounding_error`, over `_ROUNDED`.
    """
    limits = (THRESHOLDS - max(error - _ROUNDED, 0.0)) * stddev
    counts = np.zeros(len(limits))
    for start in range(0, len(aggregate), _PIECE):
        piece = np.abs(aggregate[start : start + _PIECE])
        counts += [np.count_nonzero(piece > limit) for limit in limits]
    return counts


def log_p_so_few(counts: FloatArray, trials: FloatArray) -> FloatArray:
    """A bound on the log probability that this few coordinates exceed the thresholds.

    `counts` has a column for each threshold; `trials` has the number of coordinates, of shape
    (rows, 1).
    """
    share = counts / trials
    return np.asarray(-trials * binomial_divergence(np.minimum(share, EXPECTED), EXPECTED))


EXPECTED = 2 * special.ndtr(-(THRESHOLDS + _ROUNDED) / (1 - OFF))
"""The least probability that correct noise exceeds each threshold."""


def binomial_divergence(share: FloatArray, chance: FloatArray) -> FloatArray:
    """The divergence D in Chernoff's bound on binomial tails: P(X >= n q) <= e^(-n D).

    It is the Kullback-Leibler divergence D(q || p) of two coins with chances q (`share`) and p
    (`chance`).
    """
    return np.asarray(special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance))


_FIRST = 4
"""The index of the first count of `exceeding`."""

RESOLUTION = 1e-6
"""The resolution of float32: noise is lost if its norm is a smaller share of the aggregate's."""


def row_size(dim: int) -> int:
    """The number of entries of a row for models of `dim` parameters with noise."""
    return _FIRST + len(THRESHOLDS) + sketch_size(dim)


@dataclass(frozen=True, eq=False)
class NoiseRows:
    """The rows of some rounds, float64 of shape (rounds, `row_size(dim)`)."""

    rows: FloatArray
    dim: int

    @property
    def echoes(self) -> FloatArray:
        """Log p-value and correlation of the strongest autocorrelation, of shape (rounds, 2)."""
        return self.rows[:, :2]

    @property
    def silent(self) -> FloatArray:
        """Log p-value and ratio of the number of silent coordinates, of shape (rounds, 2)."""
        return self.rows[:, 2:_FIRST]

    @property
    def exceeding(self) -> FloatArray:
        """The number of coordinates above each threshold, of shape (rounds, thresholds)."""
        return self.rows[:, _FIRST : _FIRST + len(THRESHOLDS)]

    @property
    def sketches(self) -> FloatArray:
        """The sketches, of shape (rounds, `sketch_size(dim)`)."""
        return self.rows[:, _FIRST + len(THRESHOLDS) :]


class NoiseWatch:
    """Measures the noise of rounds in order."""

    def __init__(self, sizes: Collection[int], frozen: Collection[int] = ()) -> None:
        """`sizes` are of all variables; `frozen` are the variables without noise, from 0."""
        self._moving: npt.NDArray[np.bool_] | None = None
        if frozen:
            self._moving = np.repeat([at not in frozen for at in range(len(sizes))], [*sizes])
        self._silent = SilentCoordinates()
        self._last = -1

    def row(
        self, index: int, aggregate: Float32Array, stddev: float, norm_bound: float
    ) -> Float32Array:
        """The row of a round, counted from 0; NaN without noise, or with too little for float32.

        If the round is not later than the previous one, coordinates are followed anew.
        """
        if index <= self._last:
            self._silent = SilentCoordinates()
        self._last = index
        if self._moving is not None:
            aggregate = aggregate[self._moving]
        dim = len(aggregate)
        if not math.sqrt(dim) * stddev > RESOLUTION * euclidean_norm(aggregate):
            return np.full(row_size(dim), np.nan, np.float32)
        echo: tuple[float, float] = (np.nan, np.nan)
        is_turn = dim <= EVERY_ROUND or (index + 1) & index == 0
        if is_turn and not np.isnan(norm_bound):
            strongest = strongest_autocorrelation(aggregate, stddev, norm_bound)
            if strongest is not None:
                echo = (strongest.log_p, strongest.correlation)
        error = rounding_error(aggregate, stddev)
        silent = self._silent.see_round(aggregate, stddev, error)
        counts = exceeding(aggregate, stddev, error)
        images = sketch(aggregate) / stddev
        return np.array([*echo, silent.log_p, silent.ratio, *counts, *images], np.float32)
