"""Canaries' rounds, their scores in these, and the sums of directions over them.

Of such sums the lengths matter, and what is kept of them. A bound on N = |U| from y, the squared
length of the image of U. Let u be the coordinates of the rotated U, w_b the sum of u_i^2 over
bucket b, and x_b the signed sum there, so that y is the sum of x_b^2 and E x_b^2 = w_b, E x_b^4 <=
3 w_b^2 given h. For any a >= 0:

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
5. That is far above N where directions cancel, as those of correlated noise do. But a coordinate
   of the rotated U is a sum of signs times U_j / sqrt(n), so that it is beyond N sqrt(2 L / n) with
   probability at most 2 exp(-L) (Hoeffding 1963). With L = log(4 n / p) no coordinate is, except
   with probability p / 2, and then A <= N^2 max u_i^2 <= 2 L N^4 / n. So, except with probability p
   altogether, N^2 <= y / (1 - r) with r^2 = 6 log(2 / p) (2 L / n + 1 / width), if r < 1.

N is also at most the number of rounds. The map is drawn from the audit's seed and from nothing that
training sees, so it does not depend on U.

Of all directions two things are kept when training is over: their inner products, from which the
length of any weighted sum follows, and the sums that lie most on few coordinates. So own-round
scores and their null distribution can be made again without the directions (`KeptSums`).

Canaries' rounds, and their scores in these.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.errors import InputError
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.text_files import OWNER_ALONE, atomic_writer

NumberedRow = tuple[int, npt.NDArray[np.float32]]
"""A round, counted from 0, and a score of every canary, float32 of shape (num_canaries,)."""


@dataclass(frozen=True, eq=False)
class OwnRounds:
    """The rounds of every canary, from 0; an excluded one's are those it would have had."""

    of_canary: tuple[IndexArray, ...]

    @property
    def most(self) -> int:
        """The largest number of rounds of a canary; 0 for an empty pool."""
        return max(map(len, self.of_canary), default=0)

    @functools.cached_property
    def participations(self) -> tuple[IndexArray, IndexArray]:
        """The canary and the round of each participation, int64 of shape (participations,)."""
        counts = [len(rounds) for rounds in self.of_canary]
        canaries = np.repeat(np.arange(len(counts)), counts)
        return canaries, np.concatenate([np.zeros(0, np.int64), *self.of_canary])

    def among(self, rounds: IndexArray) -> tuple[IndexArray, IndexArray]:
        """The canary of each participation in one of some rounds, which rise, and its index there.

        By canary, and then as in `of_canary`.
        """
        canaries, own = self.participations
        at = np.searchsorted(rounds, own)
        is_among = np.isin(own, rounds)
        return canaries[is_among], at[is_among]

    def members(self) -> dict[int, IndexArray]:
        """The canaries of each round that has any, by the round's index from 0."""
        canaries, rounds = self.participations
        order = np.argsort(rounds, kind="stable")
        present, starts = np.unique(rounds[order], return_index=True)
        return dict(zip(present.tolist(), np.split(canaries[order], starts[1:]), strict=True))


@dataclass(frozen=True, eq=False)
class RoundWeights:
    """The weights with which canaries' cosines count in rounds; canaries of a set have the same.

    Attributes:
      of_set: The weights of each set, float64 of shape (sets, scored rounds).
      set_of: The set of each canary, int64 of shape (num_canaries,).
    """

    of_set: FloatArray
    set_of: IndexArray

    @classmethod
    def from_presences(cls, own: OwnRounds, rounds: IndexArray) -> "RoundWeights":
        """Weight 1 in each of a canary's scored rounds; in the first scored one if it has none."""
        participates = np.zeros((len(own.of_canary), len(rounds)), bool)
        participates[own.among(rounds)] = True
        participates[~participates.any(axis=1), 0] = True
        sets, set_of = np.unique(participates, axis=0, return_inverse=True)
        return cls(sets.astype(np.float64), set_of.reshape(-1))

    def whitened(
        self, correlation: Correlation, rounds: IndexArray, lengths: FloatArray
    ) -> "RoundWeights":
        """The weights of these presences' directions under noise that is correlated over rounds.

        Generalised least squares weighs the aggregates by the inverse of their noise's covariance
        over rounds, times the presences. A direction represents an aggregate of its norm. The
        norms, positive, decide how good the weights are, and not whether the null distribution
        holds.
        """
        until = int(rounds[-1]) + 1
        presences = np.zeros((len(self.of_set), until))
        presences[:, rounds] = self.of_set
        weights = correlation.until(until).weights(presences)[:, rounds] * lengths
        return RoundWeights(weights / np.abs(weights).max(axis=1, keepdims=True), self.set_of)

    def totals(self, rows: Iterable[NumberedRow]) -> FloatArray:
        """The weighted sums of canaries' scores in the scored rounds, of shape (num_canaries,)."""
        total = np.zeros(len(self.set_of))
        for weights, (_, row) in zip(self.of_set.T, rows, strict=True):
            total += weights[self.set_of] * row
        return total


@dataclass(frozen=True, eq=False)
class SumsInOwnRounds:
    """Every canary's scores in its own rounds, added up.

    A canary none of whose rounds was scored has its score in the first round that was. Any round
    would do: an excluded canary's vector does not depend on it, so the score has the null
    distribution.

    Attributes:
      totals: The sums, float64 of shape (num_canaries,); zeros if no round was scored.
      counts: The number of scores in each, at least 1.
      rounds: The rounds that were scored, counted from 0, in order.
    """

    totals: FloatArray
    counts: FloatArray
    rounds: IndexArray

    def over_roots(self) -> FloatArray:
        return np.asarray(self.totals / np.sqrt(self.counts))


def sums_in_own_rounds(rows: Iterable[NumberedRow], own: OwnRounds) -> SumsInOwnRounds:
    num_canaries = len(own.of_canary)
    totals, counts = np.zeros(num_canaries), np.zeros(num_canaries)
    members_of, no_canaries = own.members(), np.zeros(0, np.int64)
    first: FloatArray | None = None
    scored: list[int] = []
    for index, row in rows:
        scored.append(index)
        first = row.astype(np.float64) if first is None else first
        members = members_of.get(index, no_canaries)
        totals[members] += row[members]
        counts[members] += 1
    stand_in = np.zeros(num_canaries) if first is None else first
    return SumsInOwnRounds(
        totals=np.where(counts > 0, totals, stand_in),
        counts=np.maximum(counts, 1),
        rounds=np.array(scored, np.int64),
    )


CANCELLED = 0.1
"""The length below which a sum is mostly rounding error, as its directions cancel."""

FAILURE = 1e-9
"""The chance that any canary's length is above its bound: next to nothing of a bound's 5 %."""

MOST_KEPT = 1 << 12
"""The number of rounds up to which inner products are kept: 128 MB of them."""


def rotated_size(dim: int) -> int:
    """The length of a rotated direction: the least power of two that is at least `dim`.

    >>> rotated_size(4_050_748), rotated_size(4)
    (4194304, 4)
    """
    return 1 << (dim - 1).bit_length()


def largest_lengths(
    squares: FloatArray, fourth_norms: FloatArray, counts: FloatArray, width: int, size: int
) -> FloatArray:
    """Upper bounds on the lengths of sums of directions, which hold at once but for `FAILURE`.

    Args:
      squares: The squared lengths of the sums' images, float64 of shape (sums,).
      fourth_norms: The sums of the rotated directions' 4-norms, times their absolute weights,
        float64 of shape (sums,).
      counts: The numbers of directions, or the sums of their absolute weights, float64 of shape
        (sums,).
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
      lengths: Their lengths, or upper bounds that all hold but for a chance of 1e-9, float64 of
        shape (num_canaries,).
      are_exact: Whether these are the lengths, up to rounding.
      concentration: An upper bound on both sums of each of them; None where they are not exact.
    """

    lengths: FloatArray
    are_exact: bool
    concentration: Concentration | None


@dataclass(frozen=True, eq=False)
class KeptSums:
    """What is kept of directions, from which the sums of every canary's rounds follow.

    Attributes:
      products: The inner products of the directions or of their images, float64 of shape (n, n).
      fourth_norms: The 4-norms of the rotated directions, float64 of shape (n,).
      worst: The canaries' sums that have most in cubes and in fourth powers, float64 of shape
        (2, dim); of shape (0, dim) where images are shorter than directions.
      width: The length of an image.
    """

    products: FloatArray
    fourth_norms: FloatArray
    worst: FloatArray
    dim: int
    width: int

    def weighted_sums(self, weights: RoundWeights, at: IndexArray) -> OwnSums | None:
        """The sums of every canary's weighted directions.

        Args:
          weights: The weights, the largest of each set about 1.
          at: The rows of the rounds in the log of directions, int64 of shape (n,).

        Returns:
          None where the directions of a canary's rounds cancel.
        """
        if len(at) != len(self.products):
            raise InputError(f"knows {len(self.products)} directions, and {len(at)} were scored")
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
                rotated_size(self.dim),
            )
        if lengths.min() < CANCELLED:
            return None
        return OwnSums(lengths[weights.set_of], is_exact, self._concentration())

    @property
    def exact_products(self) -> FloatArray | None:
        """The inner products of the directions; None if only those of shorter images are known."""
        return self.products if self.width == self.dim else None

    def _concentration(self) -> Concentration | None:
        """The largest of both sums of the worst vectors; None where these are not known."""
        known = [one for one in map(concentration_of, self.worst) if one is not None]
        if not known:
            return None
        return Concentration(
            max(one.cubes for one in known), max(one.fourth_powers for one in known)
        )

    def write(self, path: Path) -> None:
        """Writes the file, whole; nothing where there are more than `MOST_KEPT` directions."""
        if len(self.products) > MOST_KEPT:
            return
        with atomic_writer(path, OWNER_ALONE) as file:  # canaries' rounds can be made of it
            np.savez(
                file,
                products=self.products,
                fourth_norms=self.fourth_norms,
                worst=self.worst,
                lengths=np.array([self.dim, self.width]),
            )

    @classmethod
    def read(cls, path: Path) -> "KeptSums":
        """Reads the file that `write` has written."""
        arrays = read_arrays(path, "what is kept of directions")
        try:
            products, norms, worst = (arrays[n] for n in ("products", "fourth_norms", "worst"))
            dim, width = (int(length) for length in arrays["lengths"])
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path}: is not what is kept of directions: {error}") from error
        count = len(norms) if norms.ndim == 1 else -1
        fits = products.shape == (count, count) and worst.ndim == 2 and worst.shape[1] == dim
        if not fits or any(a.dtype != np.float64 for a in (products, norms, worst)):
            raise InputError(f"{path}: holds arrays of other shapes or types than directions have")
        if not all(np.isfinite(array).all() for array in (products, norms, worst)):
            raise InputError(f"{path}: holds numbers that are not finite")
        squares = np.diagonal(products)
        most = np.sqrt(np.maximum(np.outer(squares, squares), 0)) + _ROUNDING  # Cauchy and Schwarz
        is_unit = width < dim or np.allclose(squares, 1, rtol=0, atol=_ROUNDING)
        if not (is_unit and (products == products.T).all() and (np.abs(products) <= most).all()):
            raise InputError(f"{path}: no directions have these inner products")
        return cls(products, norms, worst, dim, width)


_ROUNDING = 1e-5
"""By how much rounding in float32 may move the inner product of two directions."""
