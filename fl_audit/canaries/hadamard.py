"""Hadamard canaries, whose inner products are computed together by one fast transform."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.canaries.family import CanaryFamily
from fl_audit.errors import InputError
from fl_audit.seeds import Stream, sequence

Words = npt.NDArray[np.uint32]

_LEAST_LOG_SIZE = 17
"""The least log2 of the matrix size, so that a small model too can have 131,072 distinct canaries.
"""

_PIECE = 1 << 16
"""The coordinates worked on at a time; a multiple of 64, so that signs come in whole words."""

_PARITY_OF_HALF: npt.NDArray[np.int8] = np.array(
    [bits.bit_count() & 1 for bits in range(1 << 16)], np.int8
)


@dataclass(frozen=True)
class HadamardFamily(CanaryFamily):
    """Rows of one Walsh-Hadamard matrix, its columns shuffled and given random signs.

    With N = 2^p >= dim, H the N x N Sylvester matrix, pi an injection of coordinates into columns
    and s fair signs, canary j is c_j[i] = s[i] H[row(j), pi(i)] / sqrt(dim): distinct rows, one
    pi and one s for the whole pool. So

    - each canary by itself is exactly a Rademacher vector: mean 0 and variance exactly 1/dim for
      its cosine with any fixed vector, and the same sub-Gaussian tail;
    - the N rows are orthogonal before they are cut to dim coordinates, and for any vector the
      mean of the squared cosines over all N rows is exactly 1/dim (Parseval);
    - canaries are not jointly independent: s and pi are shared. Given them, what is random about
      a canary is its row. The shuffle pi keeps vectors with few entries in neighbouring
      coordinates, such as a few touched rows of an embedding, from meeting few patterns of signs.

    H x is a product with small matrices along the axes of x as a cube, by TensorFlow on the device
    that it sees, or by NumPy: O(N log N) for all canaries, where others cost O(dim) for each.
    """

    def __post_init__(self) -> None:
        """Checks that the matrix has enough rows.

        Raises:
          InputError: The pool has more canaries than the matrix has rows.
        """
        if self.num_canaries > 1 << self._log_size:
            raise InputError(
                f"there are {1 << self._log_size:,} hadamard canaries for a model of {self.dim:,} "
                f"parameters, got canaries.count {self.num_canaries:,} (rademacher has no limit)"
            )

    def vector(self, canary: int) -> Float32Array:
        """The canary's unit vector, float32 of shape (dim,)."""
        row = self._shuffles()[1].apply(np.array([canary], np.uint32))
        scale = np.float32(self.dim**-0.5)
        vector = np.empty(self.dim, np.float32)
        for start, columns, signs in self._pieces():
            vector[start : start + columns.size] = scale * signs * _entries(row, columns)
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product of every canary's unit vector with one vector; see CanaryFamily."""
        self._check_shape(target)
        rows = self._shuffles()[1].apply(np.arange(self.num_canaries, dtype=np.uint32))
        products = _walsh_hadamard(self._spread(target))[rows]
        return np.asarray(products / math.sqrt(self.dim))

    def _spread(self, target: Float32Array) -> FloatArray:
        """The target's coordinates with their signs in their columns, zeros in all others."""
        spread = np.zeros(1 << self._log_size)
        for start, columns, signs in self._pieces():
            spread[columns] = signs * target[start : start + columns.size]
        return spread

    @property
    def _log_size(self) -> int:
        return max(_LEAST_LOG_SIZE, (self.dim - 1).bit_length())

    def _shuffles(self) -> "tuple[_Shuffle, _Shuffle]":
        """The shuffle of the columns and that of the rows."""
        state = sequence(self.seed, Stream.HADAMARD_SHUFFLES).generate_state(8, np.uint32)
        factors, starts = state[:6] | np.uint32(1), state[6:]
        return (
            _Shuffle(self._log_size, factors[:3], starts[0]),
            _Shuffle(self._log_size, factors[3:], starts[1]),
        )

    def _pieces(self) -> Iterator[tuple[int, Words, Float32Array]]:
        """The start, columns and signs of each piece of coordinates."""
        columns_of = self._shuffles()[0]
        bits = np.random.SFC64(sequence(self.seed, Stream.HADAMARD_SIGNS))
        for start in range(0, self.dim, _PIECE):
            size = min(_PIECE, self.dim - start)
            columns = columns_of.apply(np.arange(start, start + size, dtype=np.uint32))
            words = bits.random_raw(-(-size // 64)).astype("<u8", copy=False)
            signs = np.unpackbits(words.view(np.uint8))[:size]
            yield start, columns, np.float32(1) - 2 * signs.astype(np.float32)


@dataclass(frozen=True)
class _Shuffle:
    """A permutation of the numbers below 2^log_size that scatters neighbours.

    It multiplies by odd factors and shifts by half the bits, in turns; modulo 2^log_size each step
    can be undone. These steps leave 0 where it is, and column 0 of the Sylvester matrix is all
    ones, where no canaries differ. So a random number is added first, which carries any number to
    0 with equal chance.
    """

    log_size: int
    factors: Words
    start: np.uint32

    def apply(self, numbers: Words) -> Words:
        """The numbers' places after the shuffle."""
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


def _sylvester(size: int) -> FloatArray:
    """The Sylvester matrix of a power of two, float64 of shape (size, size)."""
    numbers = np.arange(size, dtype=np.uint32)
    return _entries(numbers[:, None], numbers[None, :]).astype(np.float64)


def _walsh_hadamard(values: FloatArray) -> FloatArray:
    """The product of H with 2^p values, where H = H_a x H_b x H_c (Kronecker) for p = a + b + c.

    TensorFlow multiplies, on the device that it sees, where this process has imported it; otherwise
    NumPy does, because importing TensorFlow takes seconds, and a server without it scores too. In
    float64, as in float32 the seventh digit of a cosine depends on the device.
    """
    arrays = sys.modules.get("tensorflow", np)
    log_size = values.size.bit_length() - 1
    sizes = [1 << ((log_size + axis) // 3) for axis in range(3)]
    first, middle, last = (_sylvester(size) for size in sizes)
    # One name for all stages, so that no more than two of them are in memory.
    values = arrays.matmul(first, arrays.reshape(values, [sizes[0], -1]))
    values = arrays.matmul(middle, arrays.reshape(values, sizes))
    values = arrays.matmul(arrays.reshape(values, [-1, sizes[2]]), last)
    return np.asarray(arrays.reshape(values, [-1]))
