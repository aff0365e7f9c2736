"""Standard normal numbers by Box and Muller (1958), at the speed of NumPy's vector functions."""

import math

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array

LARGEST = math.sqrt(math.log(2**32))
"""The largest absolute value that `HalfNormals` draws, up to rounding in float32."""

_CIRCLE = np.float32(math.pi / 2**31)


class HalfNormals:
    """A source of independent N(0, 1/2) numbers from raw words; its buffers serve one thread.

    A word of 64 bits gives a pair r cos(a), r sin(a): r^2 = -ln u with u a uniformly drawn odd
    multiple of 2^-32, a = pi k / 2^31 with k uniform over the integers from -2^31 below 2^31, all
    in float32. The variance is 1/2, not 1, because a vector is normalised anyway.

    The differences from a normal law are:

    - the largest absolute value is sqrt(ln 2^32), 6.66 standard deviations; a normal number lies
      beyond with probability 2.7e-11;
    - a radius below 3e-4 is rounded to a grid of about that step, and is 0 with probability 3e-8.

    The functions `cos`, `sin` and `log` are NumPy's, and so is their last bit, which is the same
    with AVX2 and AVX-512. Without FMA instructions numbers differ by up to 3.5e-7 of themselves and
    a vector by 3.5e-8 of its length (4 million numbers compared), which bounds the change of a
    cosine.
    """

    def __init__(self, most: int) -> None:
        """Makes room for drawing up to `most` numbers at a time."""
        pairs = (most + 1) // 2
        self._radii = np.empty(pairs, np.float32)
        self._angles = np.empty(pairs, np.float32)
        self._numbers = np.empty(2 * pairs, np.float32)

    def draw(self, bits: np.random.SFC64, count: int) -> Float32Array:
        """The next `count` numbers, float32, good until the next call.

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
