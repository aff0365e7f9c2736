"""Families whose vectors are made anew, one by one, whenever they are needed.

A canary's vector is never stored. Scoring regenerates the pool block by block, so its memory
grows neither with the number of canaries nor with the dimension, and every core takes part
(NumPy's generators and matrix products release the interpreter's lock).
"""

import abc
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from fl_audit.canaries.family import CanaryFamily, FloatArray
from fl_audit.seeds import Stream, sequence

# Coordinates generated at a time: with the matching piece of the scored vector they stay in a
# core's L2 cache. A multiple of 64, so that Rademacher pieces end with a whole random word.
_PIECE = 1 << 16


class RegeneratedFamily(CanaryFamily):
    """A family that draws each canary's vector from a stream of its own."""

    @abc.abstractmethod
    def _inner_product(self, canary: int, target: FloatArray) -> float:
        """Inner product of one canary's unit vector with `target`."""

    def inner_products(self, target: FloatArray) -> npt.NDArray[np.float64]:
        """Inner product of every canary's unit vector with one vector; see CanaryFamily."""
        self._check_shape(target)
        products = np.empty(self.num_canaries)
        # All threads take from one iterator: a task per canary would hold 2 KB for each.
        canaries = iter(range(self.num_canaries))

        def score_until_none_is_left(_: int) -> None:
            for canary in canaries:
                products[canary] = self._inner_product(canary, target)

        num_threads = os.cpu_count() or 1
        with ThreadPoolExecutor(num_threads) as pool:
            list(pool.map(score_until_none_is_left, range(num_threads)))
        return products

    def _bits(self, canary: int) -> np.random.SFC64:
        return np.random.SFC64(sequence(self.seed, Stream.CANARY_VECTOR, canary))


class GaussianFamily(RegeneratedFamily):
    """A standard normal vector, normalised: uniform on the sphere (Andrew et al. section 3)."""

    def vector(self, canary: int) -> FloatArray:
        """The canary's unit vector, float32 of shape (dim,)."""
        values = np.random.Generator(self._bits(canary)).standard_normal(self.dim, np.float32)
        return values / np.float32(np.linalg.norm(values.astype(np.float64)))

    def _inner_product(self, canary: int, target: FloatArray) -> float:
        generator = np.random.Generator(self._bits(canary))
        piece = np.empty(min(_PIECE, self.dim), np.float32)
        product = squares = 0.0
        for start in range(0, self.dim, _PIECE):
            part = target[start : start + _PIECE]
            values = piece[: part.size]
            generator.standard_normal(dtype=np.float32, out=values)
            product += float(values @ part)
            squares += float(values @ values)
        return product / math.sqrt(squares)


# Row b: the eight signs that the bits of byte b stand for, lowest bit first.
_SIGNS_OF_BYTE: FloatArray = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 1.0, -1.0
).astype(np.float32)


class RademacherFamily(RegeneratedFamily):
    """Independent fair signs over the square root of the dimension.

    The cosine of an excluded canary with any model vector has mean 0 and variance exactly
    1/dim, and is sub-Gaussian (Hoeffding): P(cosine >= t) <= exp(-t^2 dim / 2).
    """

    def vector(self, canary: int) -> FloatArray:
        """The canary's unit vector, float32 of shape (dim,)."""
        bits = self._bits(canary)
        pieces = [_signs(bits, min(_PIECE, self.dim - s)) for s in range(0, self.dim, _PIECE)]
        return np.concatenate(pieces) / np.float32(self.dim**0.5)

    def _inner_product(self, canary: int, target: FloatArray) -> float:
        bits = self._bits(canary)
        product = 0.0
        for start in range(0, self.dim, _PIECE):
            part = target[start : start + _PIECE]
            product += float(_signs(bits, part.size) @ part)
        return product / math.sqrt(self.dim)


def _signs(bits: np.random.SFC64, count: int) -> FloatArray:
    """The next `count` signs; a count that is no multiple of 64 wastes the rest of a word."""
    words = bits.random_raw(-(-count // 64)).astype("<u8", copy=False)
    return _SIGNS_OF_BYTE.take(words.view(np.uint8), axis=0).reshape(-1)[:count]
