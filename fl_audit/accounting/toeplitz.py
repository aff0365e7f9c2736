"""Matrices that correlate noise over rounds: lower-triangular Toeplitz strategies and sensitivity.

A matrix mechanism (DP-FTRL) adds row t of C^-1 z to the sum of round t, where z has independent
Gaussian rows and C, the strategy, is lower triangular. Adding up the rounds adds up the noise to A
C^-1 z, with A the lower triangular matrix of ones, and much of this noise cancels (Denisov et al.
2022, arXiv:2202.08312; Choquette-Choo et al. 2023, arXiv:2306.08153). Multiplied by C, the released
sums x + C^-1 z are C x + z: the mechanism is the Gaussian one on C x, also for updates that depend
on earlier rounds (Denisov et al., theorem 2.1). So privacy depends on the size of z relative to the
sensitivity

    max over sets S of rounds of max over |u_t| <= 1 of |sum over t in S of C e_t u_t^T|

of C x to the clipped updates u_t of one party. For a set S it is at most the norm of |C| 1_S, with
equality if C has no negative entry and the updates have one direction.

Here C is Toeplitz: column t is the first column c shifted down by t rounds.

>>> strategy = Toeplitz(tuple(sqrt_column(4).tolist()), num_rounds=4)
>>> strategy.first_column
(1.0, 0.5, 0.375, 0.3125)
>>> float(strategy.min_separation(participations=2, separation=2))  # |C (e_0 + e_2)|^2
3.80078125
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray

_LARGEST_GRAM = 4096
"""Runs of more rounds get no matrix over pairs of rounds (128 MB)."""

_AT_ONCE = 256
"""The number of parties in a batch."""


# First columns, by the name of the strategy.


def sqrt_column(num_rounds: int) -> FloatArray:
    """First column of the square root of the matrix of prefix sums: 4^-k binom(2k, k) in row k.

    Of all Toeplitz strategies it has the least maximum error under one participation (Fichtenberger
    et al. 2023, arXiv:2202.11205; Dvijotham et al. 2024, arXiv:2404.16706). Its first entries alone
    are the column of a banded square root (Kalinin & Lampert 2024, arXiv:2405.13763).
    """
    k = np.arange(1, num_rounds)
    return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))


def inverse_sqrt_column(num_rounds: int) -> FloatArray:
    """First column of the inverse square root: 1, then -c_k / (2k - 1), with c = `sqrt_column`.

    Its first entries alone are the inverse of a strategy, the banded inverse square root (Kalinin
    et al. 2025, arXiv:2505.12128).
    """
    return np.diff(sqrt_column(num_rounds), prepend=0.0)


def inverse_column(column: FloatArray, num_rounds: int) -> FloatArray:
    """The first column, float64 of shape (num_rounds,), of a lower-triangular Toeplitz inverse.

    `column` has shape (bands,) and a first entry other than 0.
    """
    unit = np.zeros(num_rounds)
    unit[0] = 1.0
    from scipy import signal  # imported here because it takes half a second

    return np.asarray(signal.lfilter([1.0], column, unit), np.float64)


# The strategy of a run.


@dataclass(frozen=True)
class Toeplitz:
    """A lower-triangular Toeplitz strategy over the rounds of a run.

    `first_column` ends with its last entry other than 0; its first entry is above 0.
    """

    first_column: tuple[float, ...]
    num_rounds: int

    def __post_init__(self) -> None:
        if not 0 < len(self.first_column) <= self.num_rounds:
            raise ValueError(
                f"first_column must have from 1 to {self.num_rounds} entries, one for each round "
                f"at most, got {len(self.first_column)}"
            )
        if not all(map(math.isfinite, self.first_column)) or self.first_column[0] <= 0:
            raise ValueError("first_column must be finite numbers, the first of them above 0")

    @classmethod
    def from_column(cls, column: FloatArray, num_rounds: int) -> "Toeplitz":
        """The strategy with this first column, cut to the rounds of the run."""
        nonzero = np.trim_zeros(column[:num_rounds], "b")
        return cls(tuple(nonzero.tolist()), num_rounds)

    @property
    def is_identity(self) -> bool:
        """Whether the noise is as stated, and independent."""
        return self.first_column == (1.0,)

    def until(self, num_rounds: int) -> "Toeplitz":
        """The strategy over the first rounds."""
        return Toeplitz.from_column(self.column, num_rounds)

    @functools.cached_property
    def column(self) -> FloatArray:
        """The first column with its zeros, float64 of shape (num_rounds,)."""
        padding = np.zeros(self.num_rounds - len(self.first_column))
        return np.concatenate([self.first_column, padding])

    @property
    def bands(self) -> int:
        """The number of diagonals, from the main one down to the last that is not 0."""
        return len(self.first_column)

    @functools.cached_property
    def inverse(self) -> FloatArray:
        """The first column of C^-1, float64 of shape (num_rounds,)."""
        return inverse_column(np.array(self.first_column), self.num_rounds)

    @property
    def is_falling(self) -> bool:
        """Whether the column has no negative entry and never increases."""
        return bool((self.column >= 0).all() and (np.diff(self.column) <= 0).all())

    def times(self, rounds: FloatArray) -> FloatArray:
        """C times columns, given as rows, float64 of shape (columns, num_rounds)."""
        from scipy import signal  # imported here because it takes half a second

        product = signal.fftconvolve(rounds, self.column[None, :], axes=1)
        return np.asarray(product[:, : self.num_rounds])

    def weights(self, presences: FloatArray) -> FloatArray:
        """Weights of the aggregates for the best signal-to-noise ratio of a party: C^T C presences.

        The aggregates' noise has covariance (C^T C)^-1 over rounds, so these are the weights of
        generalised least squares for the norm of an update that is the same in each presence.
        `presences` are each party's numbers of participations by round, float64 of shape (parties,
        num_rounds).
        """
        return self.times(self.times(presences)[:, ::-1])[:, ::-1]  # C^T is C with rounds reversed

    # Squared sensitivity, in squared clip norms, by participation pattern.

    def min_separation(self, participations: int, separation: int) -> float:
        """Squared sensitivity under (k, b)-participation: at most k rounds, at least b apart.

        Exact in two cases. If the column is falling, the earliest such rounds are the worst
        (Kalinin & Lampert 2024, theorem 2). If there is one round, or no more bands than the
        separation, columns are orthogonal and the earliest have the largest norms (Choquette-Choo
        et al. 2023, theorem 2).
        Else an upper bound: the value for the smallest falling column that is at least |c|
        everywhere.
        """
        rounds = np.arange(0, self.num_rounds, separation)[:participations]
        if len(rounds) == 1 or self.bands <= separation:
            squared_norms = np.cumsum(np.square(self.column))
            return float(squared_norms[self.num_rounds - 1 - rounds].sum())
        falling = np.maximum.accumulate(np.abs(self.column)[::-1])[::-1]
        return float(np.square(_added(falling, rounds)).sum())

    def once_per_block(self, length: int, longer: int = 0) -> float:
        """The squared sensitivity to one round of each block, such as each shuffled epoch.

        Blocks have `length` rounds, the first `longer` of them one more, the last perhaps fewer.
        With X = |C|^T |C| it is the largest sum of X over all pairs of a party's rounds. Exact, up
        to 4,096 rounds, if C has no negative entry and no more than `length` + 1 bands: only rounds
        of adjacent blocks then count together, and the best choice is found block by block
        (Viterbi). Else an upper bound: for blocks further apart each round counts with its largest
        entry among the other block's rounds; beyond 4,096 rounds, or with so many short blocks of
        unequal length, all of a party's rounds may be adjacent.
        """
        blocks = -(-(self.num_rounds - longer) // length)
        width = length + bool(longer)
        # Short blocks of unequal length are padded to a matrix of up to twice as many rounds.
        if self.num_rounds > _LARGEST_GRAM or blocks * width > 1.25 * _LARGEST_GRAM:
            return self.min_separation(blocks, 1)
        rounds = np.arange(self.num_rounds)
        shorter = (rounds - longer) // length - longer
        places = rounds + np.maximum(shorter, 0) * bool(longer)  # one is free in a shorter block
        pairs = np.zeros((blocks * width,) * 2)
        pairs[np.ix_(places, places)] = self._pairs()
        entries = pairs.reshape(blocks, width, blocks, width)
        with_any = entries.max(axis=3)
        best = np.zeros(width)
        for block in range(blocks):
            far = np.abs(np.arange(blocks) - block) > 1
            alone = entries[block, :, block, :].diagonal() + with_any[block][:, far].sum(axis=1)
            if block:
                best = (best[:, None] + 2 * entries[block - 1, :, block, :]).max(axis=0)
            best = best + alone
        return float(best.max())

    def one_group(self, separation: int) -> float:
        """The squared sensitivity to a member of one of `separation` groups that alternate.

        Exact if C has no negative entry, else an upper bound.
        """
        rounds = np.arange(self.num_rounds)
        return self.worst_of(rounds % separation, rounds)

    def worst_of(self, members: IntArray, rounds: IntArray) -> float:
        """The largest squared sensitivity to any of several parties with given rounds; 0 for none.

        Exact if C has no negative entry, else an upper bound. Entry i of `members` and `rounds`,
        both of shape (participations,) and counted from 0, is one participation.
        """
        order = np.lexsort((rounds, members))
        starts = np.flatnonzero(np.diff(members[order], prepend=-1))
        sets = sorted(
            {tuple(member_rounds.tolist()) for member_rounds in np.split(rounds[order], starts[1:])}
        )
        worst = 0.0
        for first in range(0, len(sets), _AT_ONCE):
            some = sets[first : first + _AT_ONCE]
            presences = np.zeros((len(some), self.num_rounds))
            for row, member_rounds in zip(presences, some, strict=True):
                row[list(member_rounds)] = 1.0
            moved = Toeplitz.from_column(np.abs(self.column), self.num_rounds).times(presences)
            worst = max(worst, float(np.square(moved).sum(axis=1).max()))
        return worst

    def _pairs(self) -> FloatArray:
        """|C|^T |C|, float64 of shape (num_rounds, num_rounds)."""
        column, size = np.abs(self.column), self.num_rounds
        pairs = np.zeros((size, size))
        for lag in range(self.bands):
            sums = np.cumsum(column[: size - lag] * column[lag:])
            rounds = np.arange(size - lag)
            pairs[rounds, rounds + lag] = pairs[rounds + lag, rounds] = sums[::-1]
        return pairs


def _added(column: FloatArray, rounds: IntArray) -> FloatArray:
    """The sum of the columns that start at these rounds, float64 of shape (num_rounds,)."""
    total = np.zeros(len(column))
    for start in rounds:
        total[start:] += column[: len(column) - start]
    return total
