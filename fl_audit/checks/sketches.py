"""Noise that was used before, in any earlier round: by sketches of aggregates.

A sketch is R x for a fixed matrix R with orthonormal rows: sums over neighbouring coordinates with
random signs. Given earlier rounds, the noise in it is N(0, I) in units of the noise, and the
updates in it are a fixed vector. So the squared norm of its component orthogonal to any directions
of earlier sketches is stochastically at least chi-square, with as many degrees of freedom fewer,
whatever clients send. Noise that repeats earlier noise, cancels it, or is a sum of parts of it has
no such component.

The component is orthogonal to all of the rounds just before together, and to the sum of those
before them (`lengths_beyond_past`); and to each single round before, however long ago, and to that
in reversed order of coordinates (`nearest_rounds`).
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IndexArray

MOST_NUMBERS = 1024
"""The length of a sketch of a large model."""

_WINDOW = 128
"""The least number of rounds just before, of many, that are taken together."""

_BLOCK = 256
"""Rounds per step, each compared with all before."""

_SEED = 20251126


def sketch_size(dim: int) -> int:
    """The length of the sketch of a vector of this length: an even number."""
    return min(MOST_NUMBERS, dim // 2 * 2)


def sketch(vector: Float32Array) -> FloatArray:
    """The sketch of a vector of shape (dim,); that of the reversed vector has its halves swapped.

    The middle one of an odd number of coordinates is left out.
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


@dataclass(frozen=True, eq=False)
class BeyondPast:
    """The components of sketches that are orthogonal to earlier ones.

    Attributes:
      lengths: Their squared norms, float64 of shape (rounds,).
      dof: The degrees of freedom of their noise, of the same shape; 0 where none is left.
    """

    lengths: FloatArray
    dof: FloatArray


def lengths_beyond_past(sketches: FloatArray) -> BeyondPast:
    """The components orthogonal to the rounds just before, and to the sum of those before them.

    For n rounds of s numbers it takes time n w s, for windows of w <= 128 rounds.
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
    return BeyondPast(lengths, dof)


@dataclass(frozen=True, eq=False)
class NearestRounds:
    """For each round the earlier one that its sketch is most like, up to its sign and length.

    Attributes:
      rounds: The index of the earlier round, int64 of shape (rounds,); -1 for the first one.
      lengths: The squared norms of the components orthogonal to its sketch, or to that of the
        reversed aggregate, float64 of shape (rounds,); the whole squared norm for the first one.
    """

    rounds: IndexArray
    lengths: FloatArray


def nearest_rounds(sketches: FloatArray) -> NearestRounds:
    """The nearest of all earlier rounds.

    For n rounds of s numbers it takes time n^2 s, and memory for 256 n numbers.
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
