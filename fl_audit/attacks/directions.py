"""Directions of aggregates, and sums of these directions, in little memory.

For a unit vector c and vectors v_1 to v_T the sum of the cosines of c is <c, U>, where U is the sum
of v_t / |v_t|; this is |U| times the cosine of c with U. So the sum has the null distribution of
|U| times one cosine, even if the v_t are similar. U takes the memory of one more model, in float64,
and is saved with each checkpoint (`DirectionSum`).

The cosines of an excluded canary c with unit directions d_t add up to <c, U> with U the sum of d_t
over the canary's own rounds. Given the directions, this sum is |U| times one cosine, so its null
distribution is known once |U| is. The rounds differ by canary, so every direction is kept until the
last round: whole if all of them fit into `_MOST_BYTES`, else as its image under one random linear
map to `width` values. The map first rotates: random signs on n = 2^p >= dim coordinates, then the
Sylvester matrix over sqrt(n) (Ailon & Chazelle 2009), which preserves norms and flattens every
vector. Then coordinate i is added to bucket h(i) with sign s_i (Charikar, Chen & Farach-Colton
2002). `own_sums` bounds |U| by the norm of the image of U.
"""

import functools
import math
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.checkpointed_array import CheckpointedArray
from fl_audit.attacks.compared_vectors import ComparedVectors, one_vector
from fl_audit.attacks.own_rounds import RoundWeights
from fl_audit.attacks.own_sums import CANCELLED, KeptSums, OwnSums
from fl_audit.canaries.families import padded_size, walsh_hadamard
from fl_audit.estimators.random_signs import concentration_of
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import LOGGED_SUM, DirectionLog, Mode, unnamed_log
from fl_audit.inner_products import euclidean_norm
from fl_audit.seeds import Stream, generator

# The sum over all rounds.


_PIECE = 1 << 15
"""The number of coordinates added at once: 256 kB, which fits into a cache."""


def add_direction(total: FloatArray, vector: Float32Array) -> None:
    """Adds a vector's direction to a float64 sum in place; a zero vector adds nothing."""
    norm = euclidean_norm(vector)
    if norm == 0:
        return
    for start in range(0, len(vector), _PIECE):
        piece = vector[start : start + _PIECE].astype(np.float64)
        piece /= norm
        total[start : start + _PIECE] += piece


def sum_of_cosines(family: str | None, total: FloatArray) -> ComparedVectors | None:
    """A sum of cosines as a multiple of one cosine; None if the directions cancel."""
    length = euclidean_norm(total)
    compared = one_vector(family, total) if length > CANCELLED else None
    return None if compared is None else ComparedVectors(compared.vectors, length)


class DirectionSum:
    """The sum of directions during training, after `count` vectors."""

    def __init__(self, folder: RunFolder, name: str, dim: int, count: int) -> None:
        path_of = functools.partial(folder.direction_sum, name)
        self._file = CheckpointedArray(
            path_of, functools.partial(folder.direction_sums, name), count
        )
        self._count = count
        self._total = self._file.read(LOGGED_SUM, np.float64, dim) if count else np.zeros(dim)

    def add(self, vector: Float32Array) -> None:
        add_direction(self._total, vector)
        self._count += 1

    def flush(self) -> None:
        """Writes the sum for the next checkpoint, and keeps the previous checkpoint's."""
        self._file.write(self._count, self._total if self._count else None)

    def compared(self, family: str | None) -> ComparedVectors | None:
        """The vector of the sum of cosines, after the last round; None if directions cancel.

        Removes the files of earlier sums, but not the last, so that this can be repeated.
        """
        self._file.keep(self._count)
        return sum_of_cosines(family, self._total)


# Directions kept in little space.


_MOST_BYTES = 1 << 29
"""The disk space for the directions of all rounds: 512 MB."""


def width_of(dim: int, num_rounds: int) -> int:
    """The number of entries of a kept direction: `dim` if whole directions fit, else fewer.

    >>> width_of(167_178, 100), width_of(4_050_748, 2048)
    (167178, 65535)
    """
    return max(1, min(dim, _MOST_BYTES // (4 * num_rounds) - 1))


class Sketch:
    """A random linear map from shape (dim,) to (width,); the identity if these are equal."""

    def __init__(self, seed: int, dim: int, width: int) -> None:
        self._width = width
        self._buckets: npt.NDArray[np.uint32] | None = None
        if width < dim:
            random = generator(seed, Stream.SKETCH)
            self._are_negative = random.integers(2, size=dim, dtype=np.bool_)
            # Values below `width` are buckets to add to, all others buckets to subtract from.
            size = padded_size(dim)
            self._buckets = random.integers(2 * width, size=size, dtype=np.uint32)

    def rotated(self, vector: Float32Array) -> Float32Array:
        """A vector's rotated direction, of shape (`padded_size(dim)`,); zeros for a zero vector.

        If the map is the identity, the direction itself, of shape (dim,).
        """
        norm = euclidean_norm(vector) or 1.0
        if self._buckets is None:
            return (vector / np.float64(norm)).astype(np.float32)
        padded = np.zeros(self._buckets.size)
        padded[: len(vector)] = np.where(self._are_negative, -vector, vector)
        return (walsh_hadamard(padded) / (norm * math.sqrt(padded.size))).astype(np.float32)

    def folded(self, rotated: Float32Array) -> Float32Array:
        """The image of a rotated direction, float32 of shape (width,)."""
        if self._buckets is None:
            return rotated
        sums = np.bincount(self._buckets, rotated, minlength=2 * self._width)
        return (sums[: self._width] - sums[self._width :]).astype(np.float32)


# The directions of all rounds, and their sums over each canary's rounds.


class RoundDirections:
    """The directions of a run's or a log's rounds, whole or sketched."""

    def __init__(self, log: DirectionLog, seed: int, dim: int, kept: Path | None = None) -> None:
        """`kept` is the file to which `kept_sums` writes its result; None to write nothing."""
        self._log = log
        self._kept = kept
        self._is_exact = log.width == dim
        self._seed = seed
        self._dim = dim

    @functools.cached_property
    def _sketch(self) -> Sketch:
        return Sketch(self._seed, self._dim, self._log.width)

    @classmethod
    def unnamed(cls, num_rounds: int, seed: int, dim: int) -> Self:
        """Creates a log in an anonymous temporary file."""
        rows = unnamed_log((num_rounds, 1 + width_of(dim, num_rounds)))
        return cls(DirectionLog.from_rows(rows), seed, dim)

    @classmethod
    def opened(
        cls,
        mode: Mode,
        path: Path,
        num_rounds: int,
        seed: int,
        dim: int,
        *,
        kept: Path | None = None,
    ) -> Self:
        """Opens or creates the directions in a file."""
        log = DirectionLog.opened(mode, path, num_rounds, 1 + width_of(dim, num_rounds))
        return cls(log, seed, dim, kept)

    def add(self, round_index: int, vector: Float32Array) -> None:
        """Keeps a round's direction, in place of an earlier one of that round."""
        rotated = self._sketch.rotated(vector)
        concentration = concentration_of(rotated)
        fourth_norm = 0.0 if concentration is None else concentration.fourth_powers**0.25
        self._log.write_direction(round_index, fourth_norm, self._sketch.folded(rotated))

    def forget(self, round_index: int) -> None:
        """Makes a round's direction unknown, before the round's cosines are replaced."""
        self._log.forget(round_index)

    def flush(self) -> None:
        self._log.flush()

    def kept_sums(self, weights: RoundWeights, at: IntArray) -> KeptSums | None:
        """What is kept of the directions in rows `at`; None if one is unknown or zero."""
        norms = self._log.fourth_norms()[at]
        if not (norms > 0).all():
            return None
        products = np.zeros((len(at), len(at)))
        for columns in self._log.columns(at):
            products += columns @ columns.T
        worst = np.zeros((0, self._dim))
        if self._is_exact:
            sets = self._most_concentrated(at, weights.of_set)
            worst = np.hstack([weights.of_set[sets] @ columns for columns in self._log.columns(at)])
        known = KeptSums(products, norms, worst, self._dim, self._log.width)
        if self._kept is not None:
            known.write(self._kept)
        return known

    def weighted_sums(self, weights: RoundWeights, at: IntArray) -> OwnSums | None:
        """The sums of every canary's weighted directions, from rows `at` of the log.

        None if the direction of a round is unknown or of a zero vector, or if the directions of a
        canary's rounds cancel.
        """
        known = self.kept_sums(weights, at)
        return None if known is None else known.weighted_sums(weights, at)

    def _most_concentrated(self, at: IntArray, weights: FloatArray) -> IntArray:
        """The sets whose sums, at norm 1, have the largest sum of cubes, and of fourth powers."""
        squares, cubes, fourth_powers = np.zeros((3, len(weights)))
        for columns in self._log.columns(at):
            sums = np.abs(weights @ columns)
            of_columns = sums * sums
            squares += of_columns.sum(axis=1)
            cubes += (of_columns * sums).sum(axis=1)
            fourth_powers += (of_columns**2).sum(axis=1)
        squares = np.maximum(squares, np.finfo(float).tiny)
        return np.array([(cubes * squares**-1.5).argmax(), (fourth_powers / squares**2).argmax()])
