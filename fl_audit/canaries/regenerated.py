"""Families whose vectors are made anew, one by one, whenever they are needed.

A canary's vector is never stored. Scoring regenerates the pool block by block, so its memory
grows neither with the number of canaries nor with the dimension, and every core takes part
(NumPy's generators and vector functions release the interpreter's lock). Only small pools are kept.
"""

import abc
import functools
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.canaries.box_muller import HalfNormals
from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.threads import score_on_all_cores
from fl_audit.inner_products import fast_inner_product
from fl_audit.seeds import Stream, sequence

# Coordinates generated at a time. A core's buffers are then 1 MB each and pass through its L2
# cache, while calls are long enough that two threads seldom wait for the interpreter's lock: a
# wait costs about 10 us, and with pieces of 65,536 Gaussian scoring took half as long again. A
# multiple of 64, so that Rademacher pieces end with a whole random word.
_PIECE = 1 << 18

_MOST_KEPT = 1 << 22
"""The coordinates of a pool up to which vectors are kept, 16 MB; to begin a canary's stream takes
20 us, as long as to draw 20,000 signs."""

Draw = Callable[[np.random.SFC64, int], Float32Array]
"""A function that draws the next coordinates, up to a common factor; good until its next call."""


class RegeneratedFamily(CanaryFamily):
    """A family that draws each canary's coordinates from a stream of its own."""

    @abc.abstractmethod
    def new_draw(self) -> Draw:
        """A function that draws coordinates with buffers of its own; each thread takes one."""

    def _sum_of_squares(self, values: Float32Array) -> float:
        return fast_inner_product(values, values)

    def vector(self, canary: int) -> Float32Array:
        """The canary's unit vector, float32 of shape (dim,)."""
        vector = np.empty(self.dim, np.float32)
        squares = 0.0
        for start, values in self.pieces(canary, self.new_draw()):
            vector[start : start + values.size] = values
            squares += self._sum_of_squares(values)
        vector /= np.float32(math.sqrt(squares))
        return vector

    def inner_products(self, target: Float32Array) -> npt.NDArray[np.float64]:
        """The inner product of every canary's unit vector with one vector; see CanaryFamily."""
        self._check_shape(target)
        if self.num_canaries * self.dim <= _MOST_KEPT:
            return np.asarray(np.einsum("ij,j->i", self._kept, target, dtype=np.float64))

        def new_scorer() -> Callable[[int], float]:
            draw = self.new_draw()
            return lambda canary: self._inner_product(canary, target, draw)

        return score_on_all_cores(self.num_canaries, new_scorer)

    @functools.cached_property
    def _kept(self) -> Float32Array:
        """All vectors, float32 of shape (num_canaries, dim), for a pool that is scored often."""
        vectors = np.empty((self.num_canaries, self.dim), np.float32)
        for canary in range(self.num_canaries):
            vectors[canary] = self.vector(canary)
        return vectors

    def _inner_product(self, canary: int, target: Float32Array, draw: Draw) -> float:
        """The inner product of one canary's unit vector with `target`."""
        product = squares = 0.0
        for start, values in self.pieces(canary, draw):
            product += fast_inner_product(values, target[start : start + values.size])
            squares += self._sum_of_squares(values)
        return product / math.sqrt(squares)

    def pieces(self, canary: int, draw: Draw) -> Iterator[tuple[int, Float32Array]]:
        """The start and values of each piece of a canary's coordinates."""
        bits = np.random.SFC64(sequence(self.seed, Stream.CANARY_VECTOR, canary))
        for start in range(0, self.dim, _PIECE):
            yield start, draw(bits, min(_PIECE, self.dim - start))


class GaussianFamily(RegeneratedFamily):
    """Standard normal vectors, normalised: uniform on the sphere (Andrew et al. section 3).

    The numbers are those of `HalfNormals`, which documents how they differ from normal ones.
    """

    def new_draw(self) -> Draw:
        """A function that draws normal numbers of variance 1/2, with buffers of 3 MB at most."""
        return HalfNormals(min(_PIECE, self.dim)).draw


class RademacherFamily(RegeneratedFamily):
    """Vectors of independent fair signs over the square root of the dimension.

    The cosine of an excluded canary with any model vector has mean 0 and variance exactly
    1/dim, and is sub-Gaussian (Hoeffding): P(cosine >= t) <= exp(-t^2 dim / 2).
    """

    def new_draw(self) -> Draw:
        """A function that draws signs; each piece is an array of its own."""
        return _signs

    def _sum_of_squares(self, values: Float32Array) -> float:
        return float(values.size)


# Row b: the eight signs that the bits of byte b stand for, lowest bit first.
_SIGNS_OF_BYTE: Float32Array = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 1.0, -1.0
).astype(np.float32)


def _signs(bits: np.random.SFC64, count: int) -> Float32Array:
    """The next `count` signs; if `count` is no multiple of 64, the rest of a word is discarded."""
    words = bits.random_raw(-(-count // 64)).astype("<u8", copy=False)
    return _SIGNS_OF_BYTE.take(words.view(np.uint8), axis=0).reshape(-1)[:count]
