"""Directions of rounds: the sums that canaries are compared with, in little memory.

For a unit vector c and vectors v_1 to v_T the sum of the cosines of c is <c, U>, where U is the sum
of v_t / |v_t|; this is |U| times the cosine of c with U. So its null distribution is that of one
vector, however alike the vectors are. Over all rounds U takes the memory of one more model, in
float64, and is saved with the rest of the state that survives a crash (`DirectionSum`).

The cosines of an excluded canary c with unit directions d_t add up to <c, U> with U the sum of d_t
over its own rounds. Given the directions, that is |U| times one cosine, so the null distribution of
a sum over any rounds is known as soon as |U| is, however alike the directions are. The rounds of
the sum differ by canary, so every direction is kept until the last round: whole if all of them fit
into `_MOST_BYTES`, otherwise as its image under one random linear map to `width` numbers, drawn
once for all rounds. First a rotation: random signs on n = 2^p >= dim coordinates, then the
Sylvester matrix over sqrt(n) (Ailon & Chazelle 2009), which keeps lengths and makes every vector
flat. Then coordinate i is added to bucket h(i) with sign s_i (Charikar, Chen & Farach-Colton 2002).

A bound on N = |U| from y, the squared length of the image of U. Let u be the coordinates of the
rotated U, w_b the sum of u_i^2 over bucket b, and x_b the signed sum there, so that y is the sum of
x_b^2 and E x_b^2 = w_b, E x_b^4 <= 3 w_b^2 given h. For any a >= 0:

1. Given h, E exp(-a x_b^2) <= f(a w_b) with f(v) = 1 - v + 3 v^2 / 2 up to v = 1/3 and 5/6 beyond,
   as exp(-v) <= 1 - v + v^2 / 2 for v >= 0, and as a larger v only makes exp(-v x_b^2 / w_b)
   smaller. The buckets are independent given h, for their signs are.
2. The loads w_b of buckets that coordinates choose independently are negatively associated
   (Joag-Dev & Proschan 1983, properties P4, P6 and P7 on each coordinate's indicators), and f
   falls, so that E exp(-a y) <= E prod f(a w_b) <= (E f(a w_1))^width.
3. f(v) <= 1 - v + 3 v^2 / 2 everywhere, E w_1 = N^2 / width and E w_1^2 <= A / width + N^4 /
   width^2 with A the sum of u_i^4. So E exp(-a y) <= exp(-a N^2 + 3 a^2 (A + N^4 / width) / 2).
4. With the best a, P(N^2 - y >= s) <= exp(-s^2 / (6 (A + N^4 / width))); and A is at most the
   fourth power of the sum of the rotated directions' 4-norms, by the triangle inequality of that
   norm. So, except with probability p / 2, N^2 is at most the larger root x of
   (x - y)^2 = 6 log(2 / p) (A + x^2 / width).
5. That is far above N if directions cancel, as those of correlated noise do. But a coordinate of
   the rotated U is a sum of signs times U_j / sqrt(n), so that it is beyond N sqrt(2 L / n) with
   probability at most 2 exp(-L) (Hoeffding 1963). With L = log(4 n / p) no coordinate is, except
   with probability p / 2, and then A <= N^2 max u_i^2 <= 2 L N^4 / n. So, except with probability p
   altogether, N^2 <= y / (1 - r) with r^2 = 6 log(2 / p) (2 L / n + 1 / width), if r < 1.

N is also at most the number of rounds. The map is drawn from the audit's seed and from nothing that
training sees, so it does not depend on U.
"""

import functools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.compared_vectors import ComparedVectors, one_vector
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights
from fl_audit.canaries.families import walsh_hadamard
from fl_audit.errors import InputError
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.round_logs import DirectionLog, unnamed_log
from fl_audit.formats.text_files import atomic_writer
from fl_audit.inner_products import euclidean_norm
from fl_audit.seeds import Stream, generator

# The sum over all rounds.


CANCELLED = 0.1
"""The length below which a sum is mostly rounding error, as its directions cancel."""

LOGGED_SUM = "a sum of directions"
"""What an error message calls the file of a sum."""

_PIECE = 1 << 15
"""Coordinates per step: 256 kB, which fits into a cache."""


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
    """The sum of directions in a run that trains, after `count` vectors.

    The disk holds the sum at the last checkpoint and, while the next checkpoint is saved, its sum
    too.
    """

    def __init__(self, folder: RunFolder, name: str, dim: int, count: int) -> None:
        self._folder = folder
        self._name = name
        self._count = self._saved = self._on_disk = count
        self._total = np.zeros(dim) if count == 0 else read_sum(self._path(count), dim)

    def add(self, vector: Float32Array) -> None:
        add_direction(self._total, vector)
        self._count += 1

    def flush(self) -> None:
        """Writes the sum that the next checkpoint will need, and keeps that of the last one."""
        current = {self._path(self._saved), self._path(self._count)}
        for path in self._folder.direction_sums(self._name):
            if path not in current:
                path.unlink()
        if self._count != self._on_disk:
            # A run that was killed may have left a file of this name, from rounds with other noise.
            with atomic_writer(self._path(self._count)) as file:
                np.save(file, self._total)
            self._on_disk = self._count
        self._saved = self._count

    def compared(self, family: str | None) -> ComparedVectors | None:
        return sum_of_cosines(family, self._total)

    def _path(self, count: int) -> Path:
        return self._folder.direction_sum(self._name, count)


def read_sum(path: Path, dim: int) -> FloatArray:
    total: FloatArray = read_array(path, LOGGED_SUM)
    shape = (dim,)
    if total.shape != shape or total.dtype != np.float64:
        raise InputError(f"{path}: must be float64 of shape {shape}")
    return total


# Directions kept short.


_MOST_BYTES = 1 << 29
"""The disk space for the directions of all rounds: 512 MB."""

FAILURE = 1e-9
"""The probability that any canary's norm exceeds its bound, negligible against a bound's 5 %."""


def width_of(dim: int, num_rounds: int) -> int:
    """The length of a kept direction: `dim`, and so no loss of confidence, if whole ones fit.

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
            # The first half of these buckets is added, the second subtracted.
            size = rotated_size(dim)
            self._buckets = random.integers(2 * width, size=size, dtype=np.uint32)

    def rotated(self, vector: Float32Array) -> Float32Array:
        """A vector's rotated direction, of shape (`rotated_size(dim)`,); zeros for zero.

        The direction itself, of shape (dim,), if the map is the identity.
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


def rotated_size(dim: int) -> int:
    """The length of a rotated direction: the least power of two that is at least `dim`.

    >>> rotated_size(4_050_748), rotated_size(4)
    (4194304, 4)
    """
    return 1 << (dim - 1).bit_length()


def largest_lengths(
    squares: FloatArray, fourth_norms: FloatArray, counts: FloatArray, width: int, size: int
) -> FloatArray:
    """Upper bounds on the norms of sums of directions, simultaneous up to probability `FAILURE`.

    Args:
      squares: The squared norms of the sums' images, y above.
      fourth_norms: The sums of the rotated directions' 4-norms, times their absolute weights.
      counts: The numbers of directions, or the sums of their absolute weights.
      width: The length of an image.
      size: The length of a rotated direction, n above.
    """
    events = 2 * max(len(squares), 1) / FAILURE
    spread = 6 * math.log(events)
    rest = 1 - spread / width
    if rest <= 0:
        return counts
    constant = spread * fourth_norms**4
    # The larger root of rest x^2 - 2 y x + y^2 - constant = 0.
    root = np.sqrt(np.maximum(squares**2 - rest * (squares**2 - constant), 0))
    of_norms = (squares + root) / rest
    share = math.sqrt(spread * (2 * math.log(2 * size * events) / size + 1 / width))
    of_flat = squares / (1 - share) if share < 1 else np.full_like(squares, np.inf)
    return np.asarray(np.minimum(np.sqrt(np.minimum(of_norms, of_flat)), counts))


# The directions of all rounds, and the sums over each canary's own ones.


@dataclass(frozen=True, eq=False)
class OwnSums:
    """The norms of the sums of directions over every canary's own rounds.

    Attributes:
      lengths: The norms if `are_exact` (up to rounding), otherwise upper bounds that hold together
        up to probability `FAILURE`; float64 of shape (num_canaries,).
      concentration: An upper bound on both sums of each sum's direction; None if not exact.
    """

    lengths: FloatArray
    are_exact: bool
    concentration: Concentration | None


class RoundDirections:
    """The directions of a run's or a log's rounds, whole or sketched."""

    def __init__(self, log: DirectionLog, seed: int, dim: int) -> None:
        self._log = log
        self._is_exact = log.width == dim
        self._seed = seed
        self._dim = dim

    @functools.cached_property
    def _sketch(self) -> Sketch:
        return Sketch(self._seed, self._dim, self._log.width)

    @classmethod
    def create(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        log = DirectionLog.create(path, num_rounds, width_of(dim, num_rounds))
        return cls(log, seed, dim)

    @classmethod
    def unnamed(cls, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Creates a log in an anonymous temporary file."""
        width = width_of(dim, num_rounds)
        return cls(DirectionLog.from_rows(unnamed_log((num_rounds, 1 + width))), seed, dim)

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, seed: int, dim: int
    ) -> "RoundDirections":
        """Creates a log if no round is completed, otherwise opens the existing one."""
        return (cls.open if completed else cls.create)(path, num_rounds, seed, dim)

    @classmethod
    def open(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Opens a log to continue it."""
        return cls(DirectionLog.open(path, num_rounds, width_of(dim, num_rounds)), seed, dim)

    @classmethod
    def read(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Opens a log for reading only."""
        return cls(DirectionLog.read(path, num_rounds, width_of(dim, num_rounds)), seed, dim)

    def add(self, round_index: int, vector: Float32Array) -> None:
        rotated = self._sketch.rotated(vector)
        concentration = concentration_of(rotated)
        fourth_norm = 0.0 if concentration is None else concentration.fourth_powers**0.25
        self._log.write_round(round_index, fourth_norm, self._sketch.folded(rotated))

    def forget(self, round_index: int) -> None:
        """Makes a round's direction unknown, before its cosines are replaced."""
        self._log.forget(round_index)

    def flush(self) -> None:
        self._log.flush()

    def own_sums(self, own: OwnRounds, rounds: IndexArray, at: IndexArray) -> OwnSums | None:
        """The sums over each canary's own rounds, `at` being their rows; None without rounds."""
        if len(rounds) == 0:
            return None
        return self.weighted_sums(RoundWeights.from_presences(own, rounds), at)

    def weighted_sums(self, weights: RoundWeights, at: IndexArray) -> OwnSums | None:
        """The sums of every canary's weighted directions, `at` being the rounds' rows.

        None if a round's direction is unknown or zero, or the directions of a canary's rounds
        cancel.
        """
        norms = self._log.fourth_norms()[at]
        if not (norms > 0).all():
            return None
        squares, cubes, fourth_powers = self._moments(at, weights.of_set)
        if self._is_exact:
            lengths = np.sqrt(squares)
        else:
            sizes = np.abs(weights.of_set)
            lengths = largest_lengths(
                squares,
                sizes @ norms,
                sizes.sum(axis=1),
                self._log.width,
                rotated_size(self._dim),
            )
        if lengths.min() < CANCELLED:
            return None
        worst = _worst(squares, cubes, fourth_powers) if self._is_exact else None
        return OwnSums(lengths[weights.set_of], self._is_exact, worst)

    def _moments(self, at: IndexArray, weights: FloatArray) -> FloatArray:
        """Sums of second, third and fourth absolute powers of weighted images, by set."""
        moments = np.zeros((3, len(weights)))
        for columns in self._log.columns(at):
            sums = np.abs(weights @ columns)
            squares = sums * sums
            moments += squares.sum(axis=1), (squares * sums).sum(axis=1), (squares**2).sum(axis=1)
        return moments


def _worst(squares: FloatArray, cubes: FloatArray, fourth_powers: FloatArray) -> Concentration:
    """The largest of both sums of some vectors scaled to norm 1; rounding may exceed 1."""
    return Concentration(
        min(float((cubes * squares**-1.5).max()), 1.0),
        min(float((fourth_powers / squares**2).max()), 1.0),
    )
