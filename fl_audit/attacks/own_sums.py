"""Sums of directions over each canary's own rounds: norms, and the file from which they follow.

A bound on N = |U|, for U a sum of unit directions, from y, the squared norm of U's image
(`directions` defines the map, with buckets h). Let u be the coordinates of the rotated U, w_b the
sum of u_i^2 over bucket b, and x_b the signed sum of u_i there, so that y is the sum of x_b^2 and
E x_b^2 = w_b, E x_b^4 <= 3 w_b^2 given h. For any a >= 0:

1. Given h, E exp(-a x_b^2) <= f(a w_b) with f(v) = 1 - v + 3 v^2 / 2 up to v = 1/3 and 5/6 beyond,
   as exp(-v) <= 1 - v + v^2 / 2 for v >= 0, and exp(-v x_b^2 / w_b) falls with v. The buckets are
   independent given h, because their signs are.
2. The loads w_b of buckets that coordinates choose independently are negatively associated
   (Joag-Dev & Proschan 1983, properties P4, P6 and P7 on each coordinate's indicators), and f
   falls, so that E exp(-a y) <= E prod f(a w_b) <= (E f(a w_1))^width.
3. f(v) <= 1 - v + 3 v^2 / 2 everywhere, E w_1 = N^2 / width and E w_1^2 <= A / width + N^4 /
   width^2 with A the sum of u_i^4. So E exp(-a y) <= exp(-a N^2 + 3 a^2 (A + N^4 / width) / 2).
4. With the best a, P(N^2 - y >= s) <= exp(-s^2 / (6 (A + N^4 / width))); and A is at most the
   fourth power of the sum of the rotated directions' 4-norms, by the triangle inequality of that
   norm. So, except with probability p / 2, N^2 is at most the larger root x of
   (x - y)^2 = 6 log(2 / p) (A + x^2 / width).
5. This bound on A is far too large if directions cancel, as under correlated noise. But a
   coordinate of the rotated U is a sum of signs times U_j / sqrt(n), so that its size exceeds
   N sqrt(2 L / n) with probability at most 2 exp(-L) (Hoeffding 1963). With L = log(4 n / p) no
   coordinate's does, except with probability p / 2, and then A <= N^2 max u_i^2 <= 2 L N^4 / n. So,
   except with probability p altogether, N^2 <= y / (1 - r) with r^2 = 6 log(2 / p) (2 L / n +
   1 / width), if r < 1.

N is also at most the number of rounds. The map is drawn from the audit's seed alone, which training
does not see, so it is independent of U.

After training only three things are kept of the directions: the inner products of directions or
images and the 4-norms of rotated directions, from which the norm of any weighted sum follows or is
bounded, and the most concentrated sums. From these, own-round scores and the scores' null
distribution can be recomputed (`KeptSums`).
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.attacks.compared_vectors import (
    ComparedVectors,
    Vectors,
    concentration_row,
    largest_sums,
)
from fl_audit.attacks.own_rounds import RoundWeights
from fl_audit.canaries.families import padded_size
from fl_audit.errors import InputError
from fl_audit.estimators.random_signs import Concentration
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.text_files import OWNER_ALONE, atomic_writer

CANCELLED = 0.1
"""Below this norm a sum of directions that cancel is mostly rounding error."""

FAILURE = 1e-9
"""The largest probability that some canary's norm exceeds its bound; far below 1 - confidence."""

MOST_KEPT = 1 << 12
"""The largest number of rounds whose inner products are kept: 128 MB."""


def largest_lengths(
    squares: FloatArray, fourth_norms: FloatArray, counts: FloatArray, width: int, size: int
) -> FloatArray:
    """Upper bounds on the norms of sums of directions; all hold, except with probability 1e-9.

    Args:
      squares: The squared norms of the sums' images, float64 of shape (sums,).
      fourth_norms: The sums of the rotated directions' 4-norms times the absolute weights, float64
        of shape (sums,).
      counts: The sums of the absolute weights, float64 of shape (sums,).
      width: The number of entries of an image.
      size: The number of entries of a rotated direction.
    """
    events = 2 * max(len(squares), 1) / FAILURE
    spread = 6 * math.log(events)
    left = 1 - spread / width
    if left <= 0:
        return counts
    constant = spread * fourth_norms**4
    # The larger root of left x^2 - 2 y x + y^2 - constant = 0.
    root = np.sqrt(np.maximum(squares**2 - left * (squares**2 - constant), 0))
    of_norms = (squares + root) / left
    share = math.sqrt(spread * (2 * math.log(2 * size * events) / size + 1 / width))
    of_flat = squares / (1 - share) if share < 1 else np.full_like(squares, np.inf)
    return np.asarray(np.minimum(np.sqrt(np.minimum(of_norms, of_flat)), counts))


@dataclass(frozen=True, eq=False)
class OwnSums:
    """The sums of directions of every canary's own rounds.

    Attributes:
      lengths: The norms of the sums, or upper bounds that all hold except with probability 1e-9,
        float64 of shape (num_canaries,).
      are_exact: Whether `lengths` are exact, up to rounding.
      concentration: Upper bounds on the sums of cubes and of fourth powers of every sum at norm 1;
        None if `lengths` are not exact.
    """

    lengths: FloatArray
    are_exact: bool
    concentration: Concentration | None

    @property
    def compared(self) -> ComparedVectors:
        """The compared vector of a cosine with any of the sums."""
        return ComparedVectors((Vectors(1, self.concentration),), is_limit=not self.are_exact)


@dataclass(frozen=True, eq=False)
class KeptSums:
    """The kept data of directions, from which the sums over every canary's rounds follow.

    Attributes:
      products: The inner products of the directions or of their images, float64 of shape (n, n).
      fourth_norms: The 4-norms of the rotated directions, float64 of shape (n,).
      worst: The canaries' sums that, at norm 1, have the largest sums of cubes and of fourth
        powers, float64 of shape (2, dim); of shape (0, dim) if `width` is below `dim`.
      dim: The number of entries of a direction.
      width: The number of entries of an image.
    """

    products: FloatArray
    fourth_norms: FloatArray
    worst: FloatArray
    dim: int
    width: int

    def weighted_sums(self, weights: RoundWeights, at: IntArray) -> OwnSums | None:
        """The sums of every canary's weighted directions, in rows `at` of the log of directions.

        The largest weight of each set must be about 1. None if the directions of a canary's rounds
        cancel.
        """
        if len(at) != len(self.products):
            raise InputError(
                f"has directions of {len(self.products)} rounds, but {len(at)} rounds were scored"
            )
        squares = np.einsum("st,st->s", weights.of_set @ self.products, weights.of_set)
        is_exact = self.width == self.dim
        if is_exact:
            lengths = np.sqrt(np.maximum(squares, 0))
        else:
            sizes = np.abs(weights.of_set)
            lengths = largest_lengths(
                squares,
                sizes @ self.fourth_norms,
                sizes.sum(axis=1),
                self.width,
                padded_size(self.dim),
            )
        if lengths.min() < CANCELLED:
            return None
        return OwnSums(lengths[weights.set_of], is_exact, self._concentration())

    @property
    def exact_products(self) -> FloatArray | None:
        """The inner products of the directions; None if only their images' are known."""
        return self.products if self.width == self.dim else None

    def _concentration(self) -> Concentration | None:
        """The largest sums of cubes and fourth powers of the worst vectors; None if all are 0."""
        rows = [row for row in map(concentration_row, self.worst) if row.any()]
        return largest_sums(np.array(rows)) if rows else None

    def write(self, path: Path) -> None:
        """Writes the file atomically; nothing if there are more than `MOST_KEPT` directions."""
        if len(self.products) > MOST_KEPT:
            return
        with atomic_writer(path, OWNER_ALONE) as file:  # it reveals canaries' rounds
            np.savez(
                file,
                products=self.products,
                fourth_norms=self.fourth_norms,
                worst=self.worst,
                lengths=np.array([self.dim, self.width]),
            )

    @classmethod
    def read(cls, path: Path) -> "KeptSums":
        """Reads the file of `write`."""
        arrays = read_arrays(path, "what is kept of directions")
        try:
            products, norms, worst = (arrays[n] for n in ("products", "fourth_norms", "worst"))
            dim, width = (int(length) for length in arrays["lengths"])
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path}: is not a file of summed directions: {error}") from error
        count = len(norms) if norms.ndim == 1 and len(arrays) == 4 else -1
        fits = products.shape == (count, count) and worst.ndim == 2 and worst.shape[1] == dim
        if not fits or any(a.dtype != np.float64 for a in (products, norms, worst)):
            raise InputError(f"{path}: holds other arrays, shapes or types than it should")
        if not all(np.isfinite(array).all() for array in (products, norms, worst)):
            raise InputError(f"{path}: holds numbers that are not finite")
        squares = np.diagonal(products)
        most = np.sqrt(np.maximum(np.outer(squares, squares), 0)) + _ROUNDING  # Cauchy and Schwarz
        is_unit = width < dim or np.allclose(squares, 1, rtol=0, atol=_ROUNDING)
        if not (is_unit and (products == products.T).all() and (np.abs(products) <= most).all()):
            raise InputError(f"{path}: no directions have these inner products")
        return cls(products, norms, worst, dim, width)


_ROUNDING = 1e-5
"""The largest change of an inner product of two directions by rounding in float32."""
