"""Families of canary vectors: distributions of a canary's unit vector, and the scoring of a pool.

A vector is a function of (seed, canary, dim), so it need not be stored, and every process and
machine generates the same vector. An attacker's score is a cosine with such a vector. An excluded
canary's vector is independent of training, so the cosine is distributed as for a uniform direction
(`gaussian`), as for random signs (`rademacher`, `hadamard`), or like the compared vector's entries,
which are not known in advance (`dirac`). docs/canaries.md compares the families.

Scoring of `gaussian` and `rademacher` regenerates vectors piece by piece, so its memory grows
neither with the number of canaries nor with the dimension, and it uses every core (NumPy's
generators and vector functions release the interpreter's lock). Only small pools are cached.

>>> family = FAMILIES["rademacher"](seed=1, num_canaries=3, dim=1000)
>>> signs = family.vector(2)
>>> family.cosines(signs).round(2) + 0.0
array([0.04, 0.  , 1.  ])
"""

import abc
import functools
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.errors import InputError
from fl_audit.inner_products import euclidean_norm, fast_inner_product
from fl_audit.resources import num_cores
from fl_audit.seeds import Stream, generator, sequence

if TYPE_CHECKING:  # scoring needs NumPy alone
    from fl_audit.estimators.null import GaussianCanaryNull, NullTail, SignCanaryNull
    from fl_audit.estimators.random_signs import Concentration


@dataclass(frozen=True)
class CanaryFamily(abc.ABC):
    """A pool of random unit vectors of shape (dim,), each a function of pool and canary alone.

    With `has_known_null` an excluded canary's cosine with a vector has a known distribution, which
    depends on the vector's `Concentration` if `null_depends_on_vector`.
    """

    has_known_null: ClassVar[bool] = True
    null_depends_on_vector: ClassVar[bool] = False

    seed: int
    num_canaries: int
    dim: int

    @classmethod
    @abc.abstractmethod
    def null_tail(cls, dim: int, concentration: "Concentration | None") -> "NullTail":
        """The tail of an excluded canary's cosine with one vector of this concentration.

        Raises ValueError if no vector has such a concentration, or the distribution is not known.
        """

    @abc.abstractmethod
    def vector(self, canary: int) -> Float32Array: ...

    @abc.abstractmethod
    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product of every canary's unit vector with one vector, float64."""

    def cosines(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The cosine of every canary with `target`; 0 for a zero vector."""
        return cosines_of(target, self.inner_products(target))

    def _check_shape(self, target: Float32Array) -> None:
        if target.shape != (self.dim,):
            raise ValueError(f"target must have shape ({self.dim},), got {target.shape}")


class SignFamily(CanaryFamily):
    """Canaries that are scaled vectors of fair signs, independent within each canary."""

    null_depends_on_vector: ClassVar[bool] = True

    @classmethod
    def null_tail(cls, dim: int, concentration: "Concentration | None") -> "SignCanaryNull":
        from fl_audit.estimators.null import SignCanaryNull

        return SignCanaryNull(dim, concentration)


def cosines_of(target: Float32Array, products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The cosines of unit vectors with `target` from their inner products; 0 for a zero target."""
    norm = euclidean_norm(target)
    # Rounding in float32 may carry a vector's cosine with itself beyond 1 by 1e-5.
    return np.clip(products / norm, -1.0, 1.0) if norm > 0 else np.zeros_like(products)


@dataclass(frozen=True)
class DiracFamily(CanaryFamily):
    """Canaries with one nonzero coordinate each, of random sign (Steinke et al. 2023, section 6).

    No two canaries share a coordinate. Coordinates are drawn for the whole pool at once, so, unlike
    in other families, a vector depends on the pool's size. A canary's cosine with a vector v is, up
    to sign, an entry of v over the norm of v. So the null distribution of cosines is that of a
    random entry with random sign, not N(0, 1/dim), and bounds have to rely on excluded canaries.
    """

    def __post_init__(self) -> None:
        if self.num_canaries > self.dim:
            raise InputError(
                f"there are only {self.dim:,} dirac canaries for a model of {self.dim:,} "
                f"parameters, got canaries.count {self.num_canaries:,} (rademacher has no limit)"
            )

    has_known_null: ClassVar[bool] = False

    @classmethod
    def null_tail(cls, dim: int, concentration: "Concentration | None") -> "NullTail":
        raise ValueError("dirac canaries have no known null distribution")

    def vector(self, canary: int) -> Float32Array:
        vector = np.zeros(self.dim, np.float32)
        vector[self._coordinates[canary]] = self._signs[canary]
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        self._check_shape(target)
        return self._signs * target[self._coordinates].astype(np.float64)

    @cached_property
    def _coordinates(self) -> npt.NDArray[np.int64]:
        random = generator(self.seed, Stream.CANARY_VECTOR)
        return random.choice(self.dim, self.num_canaries, replace=False)

    @cached_property
    def _signs(self) -> npt.NDArray[np.float64]:
        random = generator(self.seed, Stream.CANARY_VECTOR, 1)
        return random.choice([-1.0, 1.0], self.num_canaries)


# Vectors that are regenerated one by one whenever they are needed.


# Coordinates generated at a time. Buffers of 1 MB fit into a core's L2 cache, and calls are long
# enough that two threads seldom wait for the interpreter's lock: a wait costs about 10 us, and with
# pieces of 65,536 Gaussian scoring took 1.5 times as long. A multiple of 64, so that Rademacher
# pieces end with a whole random word.
PIECE = 1 << 18

_MOST_KEPT = 1 << 22
"""Pools with at most this many coordinates in all, 16 MB, are cached."""

Draw = Callable[[np.random.SFC64, int], Float32Array]
"""A function that draws the next coordinates, up to a factor, valid until its next call."""


class RegeneratedFamily(CanaryFamily):
    """A family with a separate random stream for each canary's coordinates."""

    @abc.abstractmethod
    def new_draw(self) -> Draw:
        """Returns a function that draws coordinates with its own buffers, for one thread."""

    def _sum_of_squares(self, values: Float32Array) -> float:
        return fast_inner_product(values, values)

    def vector(self, canary: int) -> Float32Array:
        vector = np.empty(self.dim, np.float32)
        squares = 0.0
        for start, values in self.pieces(canary, self.new_draw()):
            vector[start : start + values.size] = values
            squares += self._sum_of_squares(values)
        vector /= np.float32(math.sqrt(squares))
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        self._check_shape(target)
        if self.num_canaries * self.dim <= _MOST_KEPT:
            return np.asarray(np.einsum("ij,j->i", self._kept, target, dtype=np.float64))

        def new_scorer() -> Callable[[int], float]:
            draw = self.new_draw()
            return lambda canary: self._inner_product(canary, target, draw)

        return score_on_all_cores(self.num_canaries, new_scorer)

    @functools.cached_property
    def _kept(self) -> Float32Array:
        """All vectors of a small pool, float32 of shape (num_canaries, dim)."""
        vectors = np.empty((self.num_canaries, self.dim), np.float32)
        for canary in range(self.num_canaries):
            vectors[canary] = self.vector(canary)
        return vectors

    def _inner_product(self, canary: int, target: Float32Array, draw: Draw) -> float:
        product = squares = 0.0
        for start, values in self.pieces(canary, draw):
            product += fast_inner_product(values, target[start : start + values.size])
            squares += self._sum_of_squares(values)
        return product / math.sqrt(squares)

    def stream(self, canary: int) -> np.random.SFC64:
        """The canary's random bits, from the beginning."""
        return np.random.SFC64(sequence(self.seed, Stream.CANARY_VECTOR, canary))

    def pieces(self, canary: int, draw: Draw) -> Iterator[tuple[int, Float32Array]]:
        """The start and values of each piece of a canary's coordinates."""
        bits = self.stream(canary)
        for start in range(0, self.dim, PIECE):
            yield start, draw(bits, min(PIECE, self.dim - start))


class GaussianFamily(RegeneratedFamily):
    """Standard normal vectors, normalised: uniform on the sphere (Andrew et al. section 3).

    `HalfNormals` draws the numbers, and documents how they differ from normal numbers.
    """

    @classmethod
    def null_tail(cls, dim: int, concentration: "Concentration | None") -> "GaussianCanaryNull":
        """The exact distribution, whatever the vector."""
        from fl_audit.estimators.null import GaussianCanaryNull

        return GaussianCanaryNull(dim)

    def new_draw(self) -> Draw:
        """Returns a function that draws normal numbers of variance 1/2, with 3 MB of buffers."""
        return HalfNormals(min(PIECE, self.dim)).draw


class RademacherFamily(SignFamily, RegeneratedFamily):
    """Vectors of independent fair signs over the square root of the dimension.

    The cosine of an excluded canary with any model vector has mean 0 and variance exactly 1/dim,
    and is sub-Gaussian (Hoeffding): P(cosine >= t) <= exp(-t^2 dim / 2).
    """

    def new_draw(self) -> Draw:
        """Returns a function that draws a fresh array of signs."""
        return _signs

    def _sum_of_squares(self, values: Float32Array) -> float:
        return float(values.size)


# Row b: the eight signs of the bits of byte b, lowest bit first.
_SIGNS_OF_BYTE: Float32Array = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 1.0, -1.0
).astype(np.float32)


def _signs(bits: np.random.SFC64, count: int) -> Float32Array:
    """The next `count` signs; unused bits of the last 64-bit word are discarded."""
    words = bits.random_raw(-(-count // 64)).astype("<u8", copy=False)
    return _SIGNS_OF_BYTE.take(words.view(np.uint8), axis=0).reshape(-1)[:count]


# Vectors whose inner products are computed together by one fast transform.


Words = npt.NDArray[np.uint32]

_LEAST_LOG_SIZE = 17
"""The least log2 of the matrix size, so that small models too can have 131,072 canaries."""

_LARGEST_LOG_SIZE = 32
"""The largest log2 of the matrix size, as rows and columns are numbered in uint32."""

_SIGNS_AT_ONCE = 1 << 16
"""The coordinates per step; a multiple of 64, so that signs come in whole words."""

_PARITY_OF_HALF: npt.NDArray[np.int8] = np.array(
    [bits.bit_count() & 1 for bits in range(1 << 16)], np.int8
)


@dataclass(frozen=True)
class HadamardFamily(SignFamily):
    """Rows of one Walsh-Hadamard matrix, its columns shuffled and given random signs.

    With N = 2^p >= dim, H the N x N Sylvester matrix, pi an injection of coordinates into columns
    and s fair signs, canary j is c_j[i] = s[i] H[row(j), pi(i)] / sqrt(dim): distinct rows, one
    pi and one s for the whole pool. So

    - each canary by itself is exactly a Rademacher vector: mean 0 and variance exactly 1/dim for
      its cosine with any fixed vector, and the same sub-Gaussian tail;
    - the N rows are orthogonal before they are cut to dim coordinates, and for any vector the
      mean of the squared cosines over all N rows is exactly 1/dim (Parseval);
    - canaries are not jointly independent: s and pi are shared. Given s and pi, only a canary's
      row is random. Because of the shuffle pi, vectors with few entries in neighbouring
      coordinates, such as a few touched rows of an embedding, meet many patterns of signs.

    H x is a product with small matrices along the axes of x as a cube, by TensorFlow on the device
    that it sees, or by NumPy: O(N^(4/3)) for all canaries; other families cost O(dim) for each.
    """

    def __post_init__(self) -> None:
        if self._log_size > _LARGEST_LOG_SIZE:
            raise InputError(
                f"there are hadamard canaries only for models of at most "
                f"{1 << _LARGEST_LOG_SIZE:,} parameters, got {self.dim:,} (rademacher has no limit)"
            )
        if self.num_canaries > 1 << self._log_size:
            raise InputError(
                f"there are only {1 << self._log_size:,} hadamard canaries for a model of "
                f"{self.dim:,} parameters, got canaries.count {self.num_canaries:,} (rademacher "
                "has no limit)"
            )

    def vector(self, canary: int) -> Float32Array:
        row = self.rows()[[canary]]
        scale = np.float32(self.dim**-0.5)
        vector = np.empty(self.dim, np.float32)
        for start, columns, signs in self._pieces():
            vector[start : start + columns.size] = scale * signs * _entries(row, columns)
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        self._check_shape(target)
        products = walsh_hadamard(self._spread(target))[self.rows()]
        return np.asarray(products / math.sqrt(self.dim))

    def rows(self) -> Words:
        """Each canary's row of the matrix."""
        return self._shuffles()[1].apply(np.arange(self.num_canaries, dtype=np.uint32))

    def columns_and_signs(self) -> tuple[Words, npt.NDArray[np.int8]]:
        """The column and the sign of every coordinate, both of shape (dim,)."""
        columns, signs = np.empty(self.dim, np.uint32), np.empty(self.dim, np.int8)
        for start, piece, piece_signs in self._pieces():
            columns[start : start + piece.size] = piece
            signs[start : start + piece.size] = piece_signs
        return columns, signs

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        return factor_sizes(self._log_size)

    def _spread(self, target: Float32Array) -> FloatArray:
        """The target's coordinates, with signs, in their columns; zeros in all other columns."""
        spread = np.zeros(1 << self._log_size)
        for start, columns, signs in self._pieces():
            spread[columns] = signs * target[start : start + columns.size]
        return spread

    @property
    def _log_size(self) -> int:
        return max(_LEAST_LOG_SIZE, (self.dim - 1).bit_length())

    def _shuffles(self) -> "tuple[_Shuffle, _Shuffle]":
        """The shuffles of the columns and of the rows, in this order."""
        state = sequence(self.seed, Stream.HADAMARD_SHUFFLES).generate_state(8, np.uint32)
        factors, starts = state[:6] | np.uint32(1), state[6:]
        return (
            _Shuffle(self._log_size, factors[:3], starts[0]),
            _Shuffle(self._log_size, factors[3:], starts[1]),
        )

    def _pieces(self) -> Iterator[tuple[int, Words, Float32Array]]:
        """The start, columns and signs of each piece of coordinates."""
        shuffle = self._shuffles()[0]
        bits = np.random.SFC64(sequence(self.seed, Stream.HADAMARD_SIGNS))
        for start in range(0, self.dim, _SIGNS_AT_ONCE):
            size = min(_SIGNS_AT_ONCE, self.dim - start)
            columns = shuffle.apply(np.arange(start, start + size, dtype=np.uint32))
            words = bits.random_raw(-(-size // 64)).astype("<u8", copy=False)
            signs = np.unpackbits(words.view(np.uint8))[:size]
            yield start, columns, np.float32(1) - 2 * signs.astype(np.float32)


@dataclass(frozen=True)
class _Shuffle:
    """A permutation of the numbers below 2^log_size that scatters neighbours.

    It alternates products with odd factors and XORs of the upper half of the bits into the lower;
    each step is invertible. These steps map 0 to itself, but column 0 of the Sylvester matrix is
    all ones, where canaries do not differ. So a random number is added first: every number is then
    mapped to 0 with equal probability.
    """

    log_size: int
    factors: Words
    start: np.uint32

    def apply(self, numbers: Words) -> Words:
        mask = np.uint32((1 << self.log_size) - 1)
        shift = np.uint32((self.log_size + 1) // 2)
        numbers = numbers + self.start
        for factor in self.factors:
            numbers = (numbers * factor) & mask
            numbers ^= numbers >> shift
        return numbers


def _entries(row: Words, columns: Words) -> Float32Array:
    """The entries of a row of the Sylvester matrix: parities of the bits shared with columns."""
    shared = row & columns
    halves = (shared ^ (shared >> np.uint32(16))) & np.uint32(0xFFFF)
    return np.asarray(1 - 2 * _PARITY_OF_HALF[halves], np.float32)


def sylvester(size: int) -> FloatArray:
    numbers = np.arange(size, dtype=np.uint32)
    return _entries(numbers[:, None], numbers[None, :]).astype(np.float64)


def factor_sizes(log_size: int) -> tuple[int, ...]:
    """The sizes of the three Sylvester matrices whose Kronecker product has size 2^log_size."""
    return tuple(1 << ((log_size + axis) // 3) for axis in range(3))


def padded_size(dim: int) -> int:
    """The number of coordinates of a rotated vector: the least power of two not below `dim`.

    >>> padded_size(4_050_748), padded_size(4)
    (4194304, 4)
    """
    return 1 << (dim - 1).bit_length()


def walsh_hadamard(values: FloatArray) -> FloatArray:
    """The product of H with 2^p values, where H = H_a x H_b x H_c (Kronecker) for p = a + b + c.

    If this process has imported TensorFlow, TensorFlow multiplies, on the device that it sees;
    otherwise NumPy does, because importing TensorFlow takes seconds, and a server without
    TensorFlow scores too. Both compute in float64, because in float32 the seventh digit of a cosine
    depends on the device.
    """
    arrays = sys.modules.get("tensorflow") or np
    log_size = values.size.bit_length() - 1
    sizes = factor_sizes(log_size)
    first, middle, last = (sylvester(size) for size in sizes)
    # One name for all stages, so that no more than two arrays are in memory.
    values = arrays.matmul(first, arrays.reshape(values, [sizes[0], -1]))
    values = arrays.matmul(middle, arrays.reshape(values, sizes))
    values = arrays.matmul(arrays.reshape(values, [-1, sizes[2]]), last)
    return np.asarray(arrays.reshape(values, [-1]))


# Standard normal numbers by Box and Muller (1958), at the speed of NumPy's vector functions.


LARGEST = math.sqrt(math.log(2**32))
"""The largest absolute value that `HalfNormals` draws, up to rounding in float32."""

_CIRCLE = np.float32(math.pi / 2**31)


class HalfNormals:
    """A source of independent N(0, 1/2) numbers from raw words; its buffers serve one thread.

    A word of 64 bits gives a pair r cos(a), r sin(a): r^2 = -ln u with u a uniformly drawn odd
    multiple of 2^-32, a = pi k / 2^31 with k uniform over the integers in [-2^31, 2^31), all in
    float32. The variance is 1/2, not 1, because a vector is normalised anyway.

    The differences from a normal distribution are:

    - the largest absolute value is sqrt(ln 2^32), 6.66 standard deviations; a normal number lies
      beyond with probability 2.7e-11;
    - a radius below 3e-4 is rounded to a grid of about that step, and is 0 with probability 3e-8.

    The functions `cos`, `sin` and `log` are NumPy's. The last bit of their results is the same with
    AVX2 and AVX-512. Without FMA instructions numbers differ by up to 3.5e-7 of themselves and a
    vector by 3.5e-8 of its norm (4 million numbers compared), which bounds the change of a cosine.
    """

    def __init__(self, most: int) -> None:
        """Allocates buffers for drawing up to `most` numbers at a time."""
        pairs = (most + 1) // 2
        self._radii = np.empty(pairs, np.float32)
        self._angles = np.empty(pairs, np.float32)
        self._numbers = np.empty(2 * pairs, np.float32)

    def draw(self, bits: np.random.SFC64, count: int) -> Float32Array:
        """The next `count` numbers, float32, valid until the next call.

        All cosines come first, then all sines; an odd `count` leaves out the last sine.
        """
        pairs = (count + 1) // 2
        halves = bits.random_raw(pairs).astype("<u8", copy=False).view("<u4")
        radii = self._squared_radii(halves[:pairs])
        np.sqrt(radii, out=radii)
        angles = self._angles[:pairs]
        whole = halves[pairs:].view("<i4")
        np.multiply(whole, _CIRCLE, out=angles, dtype=np.float32, casting="unsafe")
        points = self._numbers[: 2 * pairs].reshape(2, pairs)
        np.cos(angles, out=points[0])
        np.sin(angles, out=points[1])
        np.multiply(points, radii, out=points)
        return self._numbers[:count]

    def _squared_radii(self, words: npt.NDArray[np.uint32]) -> Float32Array:
        """The values -ln(odd / 2^32), as the logarithm of the inverse, which is never negative."""
        inverses = self._radii[: words.size]
        np.bitwise_or(words, 1, out=words)
        np.divide(np.float32(2**32), words, out=inverses, dtype=np.float32, casting="unsafe")
        np.log(inverses, out=inverses)
        return inverses


# Scoring of a pool on all cores.


def score_on_all_cores(
    num_canaries: int, new_scorer: Callable[[], Callable[[int], float]]
) -> npt.NDArray[np.float64]:
    """Scores every canary, float64; each core takes the next canary.

    `new_scorer` returns a function from canary to score, with its own buffers, for one thread.
    """
    scores = np.empty(num_canaries)
    # All threads take from one iterator: a task per canary would hold 2 KB for each.
    canaries = iter(range(num_canaries))

    def score_remaining(_: int) -> None:
        score = new_scorer()
        for canary in canaries:
            scores[canary] = score(canary)

    num_threads = num_cores()
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(score_remaining, range(num_threads)))
    return scores


FAMILIES: dict[str, type[CanaryFamily]] = {
    "gaussian": GaussianFamily,
    "rademacher": RademacherFamily,
    "hadamard": HadamardFamily,
    "dirac": DiracFamily,
}
"""The families by the names that a config gives them."""

WITH_KNOWN_NULL = tuple(name for name, family in FAMILIES.items() if family.has_known_null)
"""Families whose excluded canaries' cosine with a vector has a known distribution."""
