"""Whitened aggregates: the part of correlated noise that is fresh in each round.

Aggregates x + C^-1 z, with x the clients' part and z independent Gaussian rows, become C x + z when
C is applied to them over rounds (`accounting.toeplitz`). Row t of C x + z is row t of z plus
numbers fixed before this row was drawn. So every check of `checks.aggregate_checks`, which allows
any clients' part chosen before the round's noise, also holds for whitened aggregates. Their noise
has the standard deviation of z, and their norm without noise is at most the sum over k of |c_k|
B_(t-k), where c is the first column of C and B_t bounds the clients' part of round t. Rounds that
were not seen are left out: the fresh noise of a whitened aggregate is then the same, but the norm
without noise is not bounded.

A tree is such a matrix too. Released sums consist of nodes' estimates (Honaker 2015). The estimate
of a node weights the node's own noise, of variance 1, and the sum of its halves' estimates by
inverse variances; w_h = 1 / (2 - 2^-h) is the weight of own noise at height h. The round that
completes a node of height h also completes nodes of all lower heights, and

    a_t + sum over j from 1 to h of (1 - product over i from j to h of (1 - w_i)) L_(j-1),

with a_t the aggregate of round t and L_j the sum of aggregates over the left half of the node of
height j + 1, contains no noise of earlier rounds. The noise in it has the variance v_h = w_h^2 +
(1 - w_h)^2 v_(h-1), v_0 = 1.

Whitening is the inverse of the mechanism's own recursion for noise, so it takes as much memory: b -
1 vectors for b bands, one vector for each buffer of a BLT, or log2(T) vectors for trees of T
rounds.

>>> noise = np.float32([[2.0], [-1.0]])
>>> whitening = Whitening.from_correlation(Toeplitz((1.0, 0.5), num_rounds=2))
>>> [whitening.whiten(index, row, 1.0).tolist() for index, row in enumerate(noise)]
[[2.0], [0.0]]
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.mechanisms.kind import NoiseStream

MOST_BYTES = 1 << 32
"""The most memory for vectors of past rounds; beyond it, each round is tested alone."""


@dataclass(frozen=True)
class Expected:
    """The noise on a coordinate of a whitened aggregate, and the aggregate's norm without noise.

    The norm is an upper bound, NaN if not known.
    """

    stddev: float
    norm_bound: float


class ExpectedRounds:
    """Computes the noise and norm bounds of whitened aggregates from the aggregates' own."""

    def __init__(
        self, correlation: Correlation | None, stream: NoiseStream | None = None, dim: int = 1
    ) -> None:
        """The arguments are those of `Whitening.from_correlation`."""
        self._correlation = correlation
        self._keeps_rounds = correlation is None or _keeps_rounds(correlation, stream, dim)
        self._ratios: list[float] = []

    def forget(self) -> None:
        """Treats all rounds so far as unseen."""
        self._ratios = [math.nan] * len(self._ratios)

    def see_round(self, index: int, stddev: float, norm_bound: float) -> Expected:
        """The noise and norm bound of a round's whitened aggregate; NaN if not known.

        Where each round is whitened alone, the norm is not bounded.

        Rounds count from 0. Rounds skipped since the previous call count as unseen; if this round
        was seen before, so do all earlier rounds. `stddev` is the standard deviation of a
        coordinate of z, or of a tree's nodes.
        """
        if self._correlation is None or not stddev > 0:
            return Expected(stddev, norm_bound)
        if index < len(self._ratios):
            self.forget()
        self._ratios[index:] = []
        self._ratios += [math.nan] * (index - len(self._ratios))
        self._ratios.append(norm_bound / stddev)
        weights = past_weights(self._correlation, index)
        stddev_now = stddev * fresh_share(self._correlation, index)
        if not self._keeps_rounds:
            return Expected(stddev_now, math.nan)
        used = np.flatnonzero(weights)
        bound = float(np.abs(weights[used]) @ np.array(self._ratios)[index - used])
        return Expected(stddev_now, stddev * bound)


def past_weights(correlation: Correlation, index: int) -> FloatArray:
    """The weights, in a whitened aggregate, of this round's aggregate, the previous one's, etc."""
    weights = np.zeros(index + 1)
    if isinstance(correlation, Toeplitz):
        column = np.array(correlation.first_column[: index + 1])
        weights[: len(column)] = column
        return weights
    shares, first = _left_shares(_height(correlation, index)), 1
    weights[0] = 1.0
    for height, share in enumerate(shares):
        weights[first : first + (1 << height)] = share
        first += 1 << height
    return weights


def fresh_share(correlation: Correlation, index: int) -> float:
    """The standard deviation of a whitened aggregate's noise, over z's or a tree node's."""
    if isinstance(correlation, Toeplitz):
        return 1.0
    variance = 1.0
    for height in range(1, _height(correlation, index) + 1):
        own = _own_weight(height)
        variance = own**2 + (1 - own) ** 2 * variance
    return math.sqrt(variance)


def new_in_round(correlation: Correlation | None, index: int) -> float:
    """The standard deviation of a round's noise given earlier rounds, over z's or a node's."""
    if correlation is None:
        return 1.0
    return fresh_share(correlation, index) / float(past_weights(correlation, index)[0])


def _own_weight(height: int) -> float:
    """The weight of a node's own noise in the node's estimate."""
    return float(1 / (2 - 2.0**-height))


def _height(trees: Trees, index: int) -> int:
    """The height of the largest node that a round completes."""
    number = index % trees.period + 1
    return (number & -number).bit_length() - 1


def _left_shares(height: int) -> FloatArray:
    """The weights of the left halves of the nodes that a round completes, from height 0 upwards."""
    others = np.array([1 - _own_weight(i) for i in range(1, height + 1)])
    return np.asarray(1 - np.cumprod(others[::-1])[::-1])


# The vectors.


def _stream_of(correlation: Toeplitz, stream: NoiseStream | None) -> NoiseStream:
    return stream or NoiseStream.from_column(correlation.first_column)


def _keeps_rounds(correlation: Correlation, stream: NoiseStream | None, dim: int) -> bool:
    """Whether the vectors of past rounds fit into `MOST_BYTES`; trees need few."""
    if isinstance(correlation, Trees):
        return True
    return 4 * dim * len(_stream_of(correlation, stream).weights) <= MOST_BYTES


class Whitening(ABC):
    """Applies C to aggregates, round by round."""

    @staticmethod
    def from_correlation(
        correlation: Correlation, stream: NoiseStream | None = None, dim: int = 1
    ) -> "Whitening":
        """The whitening for a matrix or trees.

        A matrix needs a vector of shape (dim,) for each weight of its `stream`, by default for each
        band but the first. If these vectors exceed `MOST_BYTES`, each round is whitened alone.
        """
        if isinstance(correlation, Trees):
            return _TreeWhitening(correlation)
        stream = _stream_of(correlation, stream)
        if not _keeps_rounds(correlation, stream, dim):
            stream = NoiseStream(stream.fresh, ())
        return _MatrixWhitening(stream)

    @abstractmethod
    def whiten(self, index: int, aggregate: Float32Array, stddev: float) -> Float32Array:
        """The whitened aggregate of a round, float32 of shape (dim,), in the aggregate's unit.

        Rounds count from 0. Skipped rounds are left out; if this round was seen before, so are all
        earlier rounds. `stddev` is the standard deviation of the independent noise in this round;
        it may differ between rounds, as denominators may.
        """


class _MatrixWhitening(Whitening):
    """The whitening by the inverse of a noise stream.

    Past vectors are in a ring buffer or, if the stream has `decays`, in decaying sums.
    """

    def __init__(self, stream: NoiseStream) -> None:
        self._stream = stream
        self._kept: Float32Array | None = None
        self._next = 0

    def whiten(self, index: int, aggregate: Float32Array, stddev: float) -> Float32Array:
        unit = aggregate / np.float32(stddev)
        if self._kept is None or index < self._next:
            self._kept = np.zeros((len(self._stream.weights), len(unit)), np.float32)
            self._next = index
        for skipped in range(self._next, index):
            self._advance(skipped, np.float32(0))
        self._next = index + 1
        past = self._weights(index) @ self._kept
        fresh = (unit - past) / np.float32(self._stream.fresh)
        self._advance(index, fresh if self._stream.keeps_fresh else unit)
        return np.asarray(np.float32(stddev) * fresh, np.float32)

    def _weights(self, index: int) -> Float32Array:
        """The weight of each row of the buffer; in a ring buffer, round t is in row t mod rows."""
        weights = np.array(self._stream.weights, np.float32)
        if self._stream.decays is not None or not len(weights):
            return weights
        rounds_ago = (index - 1 - np.arange(len(weights))) % len(weights)
        return np.asarray(weights[rounds_ago])

    def _advance(self, index: int, newest: Float32Array | np.float32) -> None:
        assert self._kept is not None
        if self._stream.decays is not None:
            self._kept *= np.array(self._stream.decays, np.float32)[:, None]
            self._kept += newest
        elif len(self._kept):
            self._kept[index % len(self._kept)] = newest


class _TreeWhitening(Whitening):
    """The whitening of trees, by the sums over maximal complete nodes."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._nodes: list[Float32Array | None] = []
        self._next = 0

    def whiten(self, index: int, aggregate: Float32Array, stddev: float) -> Float32Array:
        if index < self._next:
            self._next, self._nodes = 0, []
        for skipped in range(self._next, index):
            self._complete(skipped, None)
        self._next = index + 1
        unit = aggregate / np.float32(stddev)
        lefts = self._complete(index, unit)
        whitened = unit.copy()
        for share, left in zip(_left_shares(len(lefts)), lefts, strict=True):
            if left is not None:
                whitened += np.float32(share) * left
        return np.asarray(np.float32(stddev) * whitened, np.float32)

    def _complete(self, index: int, unit: Float32Array | None) -> list[Float32Array | None]:
        """Adds a round; returns the sums over the left halves of completed nodes, lowest first.

        A node with an unseen round has no sum.
        """
        if index % self._trees.period == 0:
            self._nodes = []
        height, total = _height(self._trees, index), unit
        lefts = [self._nodes.pop() for _ in range(height)]
        for left in lefts:
            total = None if total is None or left is None else total + left
        self._nodes.append(total)
        return lefts
