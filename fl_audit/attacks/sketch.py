"""Round directions kept short, and what they prove of the length of a sum of them.

The cosines of an excluded canary c with unit directions d_t add up to <c, U> with U the sum of d_t
over its own rounds. Given the directions, that is |U| times one cosine, so the null law of a sum
over any rounds is known as soon as |U| is, however alike the directions are. Which rounds are added
differs by canary, so every direction is kept until the last round, whole if all of them fit into
`_MOST_BYTES`, and else as its image under one random linear map P to `width` numbers: coordinate i
is added to bucket h(i) with sign s_i, both drawn once for all rounds (Charikar, Chen &
Farach-Colton 2002).

A bound on N = |U| from y = |P U|^2. Let u be the coordinates of U, w_b the sum of u_i^2 over bucket
b, and x_b the signed sum there, so that y is the sum of x_b^2 and E x_b^2 = w_b, E x_b^4 <= 3 w_b^2
given h. For any a >= 0:

1. Given h, E exp(-a x_b^2) <= f(a w_b) with f(v) = 1 - v + 3 v^2 / 2 up to v = 1/3 and 5/6 beyond,
   as exp(-v) <= 1 - v + v^2 / 2 for v >= 0, and as a larger v only makes exp(-v x_b^2 / w_b)
   smaller. The buckets are independent given h, for their signs are.
2. The loads w_b of buckets that coordinates choose independently are negatively associated
   (Joag-Dev & Proschan 1983, properties P4, P6 and P7 on each coordinate's indicators), and f
   falls, so that E exp(-a y) <= E prod f(a w_b) <= (E f(a w_1))^width.
3. f(v) <= 1 - v + 3 v^2 / 2 everywhere, E w_1 = N^2 / width and E w_1^2 <= A / width + N^4 /
   width^2 with A the sum of u_i^4. So E exp(-a y) <= exp(-a N^2 + 3 a^2 (A + N^4 / width) / 2).
4. With the best a, P(N^2 - y >= s) <= exp(-s^2 / (6 (A + N^4 / width))); and A is at most the
   fourth power of the sum of the directions' 4-norms, by the triangle inequality of that norm.

So, except with probability p, N^2 is at most the larger root x of (x - y)^2 = 6 log(1 / p) (A + x^2
/ width). It is also at most the square of the number of rounds. The map is drawn from the audit's
seed and from nothing that training sees, so it does not depend on U.
"""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.inner_products import euclidean_norm
from fl_audit.seeds import Stream, generator

_MOST_BYTES = 1 << 29
"""The room for the directions of all rounds on the disk: 512 MB."""

FAILURE = 1e-9
"""The chance that any canary's length is above its bound: next to nothing of a bound's 5 %."""


def width_of(dim: int, num_rounds: int) -> int:
    """The length of a kept direction, dim where whole ones fit; no confidence is lost to it then.

    >>> width_of(167_178, 100), width_of(4_050_748, 2048)
    (167178, 65536)
    """
    return max(1, min(dim, _MOST_BYTES // (4 * num_rounds)))


class Sketch:
    """A linear map from vectors of a run or a log to shorter ones, the identity where they fit."""

    def __init__(self, seed: int, dim: int, width: int) -> None:
        """Draws the map.

        Args:
          seed: The seed of the run or of the pool.
          dim: The length of a vector.
          width: The length of its image; dim for the identity.
        """
        self._width = width
        self._buckets: npt.NDArray[np.uint32] | None = None
        if width < dim:
            random = generator(seed, Stream.SKETCH)
            # The first half of these buckets is added, the second subtracted.
            self._buckets = random.integers(2 * width, size=dim, dtype=np.uint32)

    def image(self, vector: Float32Array) -> Float32Array:
        """The image of a vector's direction, float32 of shape (width,); zeros for zero."""
        norm = euclidean_norm(vector)
        if norm == 0:
            return np.zeros(self._width, np.float32)
        if self._buckets is None:
            return (vector / np.float64(norm)).astype(np.float32)
        sums = np.bincount(self._buckets, vector, minlength=2 * self._width)
        return ((sums[: self._width] - sums[self._width :]) / norm).astype(np.float32)


def largest_lengths(
    squares: FloatArray, fourth_norms: FloatArray, counts: FloatArray, width: int
) -> FloatArray:
    """Upper bounds on the lengths of sums of directions, which hold at once but for `FAILURE`.

    Args:
      squares: The squared lengths of the sums' images, float64 of shape (sums,).
      fourth_norms: The sums of the directions' 4-norms, float64 of shape (sums,).
      counts: The numbers of directions, float64 of shape (sums,).
      width: The length of an image.
    """
    spread = 6 * np.log(max(len(squares), 1) / FAILURE)
    left = 1 - spread / width
    if left <= 0:
        return counts
    constant = spread * fourth_norms**4
    # The larger root of left x^2 - 2 y x + y^2 - constant = 0.
    root = np.sqrt(np.maximum(squares**2 - left * (squares**2 - constant), 0))
    return np.asarray(np.minimum(np.sqrt((squares + root) / left), counts))
