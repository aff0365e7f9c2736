"""The joint sensitivity of all nodes of tree aggregation to one party.

Tree aggregation adds noise to sums over nodes: over one, two, four, ... consecutive rounds, counted
from the start of a tree. Everything that it releases is computed from noised nodes. A party in the
rounds S, with updates of at most the clip norm, moves all nodes by a squared distance of at most

    sum over nodes |S in node|^2

squared clip norms, with equality for equal updates of the clip norm (Kairouz et al. 2021,
arXiv:2103.00039, appendix D). A round of a tree of n rounds is in at most floor(log2 n) + 1 nodes.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from fl_audit.array_types import FloatArray, IntArray

_LARGEST_PRECISION = 4096
"""Trees with more rounds get no precision matrix (rounds x rounds)."""


@dataclass(frozen=True)
class Trees:
    """The trees of a run, one after the other.

    Each tree has `restart_every` rounds, the last one perhaps fewer; if None, there is one tree.
    """

    num_rounds: int
    restart_every: int | None = None

    @property
    def period(self) -> int:
        return min(self.restart_every or self.num_rounds, self.num_rounds)

    @property
    def is_identity(self) -> bool:
        """Whether every tree has one round, that is, whether noise is independent."""
        return self.period == 1

    def until(self, num_rounds: int) -> "Trees":
        """The trees over the first rounds."""
        return Trees(num_rounds, self.restart_every)

    def weights(self, presences: FloatArray) -> FloatArray:
        """Weights of the aggregates for the best signal-to-noise ratio of a party.

        The aggregates are the differences of released sums, whose noise has a covariance S over the
        rounds of a tree. With A the lower triangular matrix of ones, A^T S^-1 A times the presences
        are the weights of generalised least squares. Trees of over 4,096 rounds use the presences
        unchanged. `presences` are each party's numbers of participations by round, float64 of shape
        (parties, num_rounds).
        """
        weights = presences.copy()
        for start in range(0, self.num_rounds, self.period):
            tree = slice(start, min(start + self.period, self.num_rounds))
            size = tree.stop - tree.start
            if size <= _LARGEST_PRECISION:
                weights[:, tree] = presences[:, tree] @ _precision(size)
        return weights

    def once_per_block(self, length: int, longer: int = 0) -> int:
        """The largest squared sensitivity to a party that is in one round of each block.

        Blocks of `length` rounds, such as shuffled epochs, start with the first round; the first
        `longer` have one round more, the last may have fewer. Exact.

        >>> Trees(num_rounds=5).once_per_block(length=1, longer=2)  # rounds 0, 2 and 4, say
        9
        """
        best = {False: 0}  # indexed by whether the open block has had its round
        for start, height in self.roots():
            best = _with_root(best, start, height, _Blocks(length, longer))
        return max(best.values())

    def one_group(self, separation: int) -> int:
        """The largest squared sensitivity to a party in every `separation`-th round."""
        rounds = np.arange(self.num_rounds)
        return self.worst_of(rounds % separation, rounds)

    def min_separation(self, participations: int, separation: int) -> int:
        """Squared sensitivity to at most `participations` rounds, at least `separation` apart.

        Exact (Kairouz et al., appendix D.2): for each number of rounds and sum of squares, a
        dynamic programme keeps the rounds that end earliest.

        >>> Trees(2000).min_separation(participations=6, separation=314)  # Gboard's Spanish model
        79
        """
        if separation == 1 and participations >= self.num_rounds:
            return self.one_group(1)  # every round
        rounds: _Rounds = ((np.zeros(1, np.int64), np.zeros((1, 1), np.int64)),)
        for _, height in self.roots():
            node = _complete_node(height, participations, separation)
            rounds = _joined(rounds, node, participations, separation, is_node=False)
        return int(max(values.max() for values, _ in rounds))

    def worst_of(self, members: IntArray, rounds: IntArray) -> int:
        """The largest of `squared_sensitivities`; 0 for no party."""
        return int(squared_sensitivities(members, rounds, self).max(initial=0))

    def roots(self) -> Iterator[tuple[int, int]]:
        """The first round and the height of each maximal complete node, in order.

        >>> list(Trees(num_rounds=10, restart_every=7).roots())
        [(0, 2), (4, 1), (6, 0), (7, 1), (9, 0)]
        """
        for start in range(0, self.num_rounds, self.period):
            end = min(start + self.period, self.num_rounds)
            first = start
            while first < end:
                height = (end - first).bit_length() - 1
                yield first, height
                first += 1 << height


@functools.lru_cache(maxsize=4)
def _precision(size: int) -> FloatArray:
    """The inverse covariance of the aggregates' noise in a tree, float64 of shape (size, size)."""
    noise = _noise_of_sums(size)
    until = np.tri(size)
    return np.asarray(until.T @ np.linalg.solve(noise @ noise.T, until))


def _noise_of_sums(size: int) -> FloatArray:
    """The noise of released sums by the noise of each node, float64 of shape (size, nodes).

    A node's estimate is the mean of the node's own noise, of variance 1, and the sum of its two
    children's estimates, weighted by inverse variances (Honaker 2015). The estimate's variance is 1
    / (2 - 2^-height).
    """
    nodes = 2 * size
    estimates: list[tuple[int, FloatArray]] = []
    rows, used = [], 0
    for _ in range(size):
        height, estimate = 0, np.zeros(nodes)
        estimate[used] = 1.0
        used += 1
        while estimates and estimates[-1][0] == height:
            height, left = height + 1, estimates.pop()[1]
            variance = 1 / (2 - 2.0**-height)
            estimate = (1 - variance) * (left + estimate)
            estimate[used] = variance
            used += 1
        estimates.append((height, estimate))
        rows.append(sum(part for _, part in estimates))
    return np.stack(rows)


def squared_sensitivities(members: IntArray, rounds: IntArray, trees: Trees) -> IntArray:
    """The squared sensitivity, in squared clip norms, of all nodes to each party.

    Entry i of `members` and `rounds`, both of shape (participations,) and counted from 0, is one
    participation; no party is twice in one round. The result has shape (largest member + 1,), with
    0 for members without a round.
    """
    tree, leaf = np.divmod(rounds, trees.period)
    size = np.minimum(trees.period, trees.num_rounds - tree * trees.period)
    total = np.zeros(int(members.max(initial=-1)) + 1, np.int64)
    for height in range(trees.period.bit_length()):
        node = leaf >> height
        is_complete = (node + 1) << height <= size
        first_round = tree * trees.period + (node << height)
        keys, counts = np.unique(
            (members * trees.num_rounds + first_round)[is_complete], return_counts=True
        )
        np.add.at(total, keys // trees.num_rounds, counts**2)
    return total


class _Blocks(NamedTuple):
    """Blocks of `length` rounds, one after the other; the first `longer` have one round more."""

    length: int
    longer: int

    def number(self, index: int) -> int:
        """The number of the block that holds a round; both count from 0."""
        after = index - self.longer * (self.length + 1)
        return index // (self.length + 1) if after < 0 else self.longer + after // self.length

    def start(self, number: int) -> int:
        return number * self.length + min(number, self.longer)

    def is_within(self, index: int) -> bool:
        """Whether a round is in the same block as the round before it."""
        return index != self.start(self.number(index))


def _with_root(best: dict[bool, int], start: int, height: int, blocks: _Blocks) -> dict[bool, int]:
    """The largest sums with the next root added, by whether the open block has had its round."""
    end = start + (1 << height)
    largest: dict[bool, int] = {}
    for was_used, value in best.items():
        for first, last, is_used in _choices(start, end, was_used, blocks):
            total = value + _best_in(start, height, first, last, blocks)
            largest[is_used] = max(largest.get(is_used, 0), total)
    return largest


def _choices(
    start: int, end: int, was_used: bool, blocks: _Blocks
) -> Iterator[tuple[bool, bool, bool]]:
    """The choices of rounds for the blocks that cross a node's ends.

    Each choice says whether the block across the start has its round in the node, whether the block
    across the end does, and whether the block still open after the node has had its round.
    """
    either = (False, True)
    goes_on, stays_open = blocks.is_within(start), blocks.is_within(end)
    is_in_one = blocks.number(start) == blocks.number(end - 1)
    if goes_on and stays_open and is_in_one:
        yield from ((False, False, was_used),) if was_used else ((x, x, x) for x in either)
        return
    for first in either if goes_on and not was_used else (False,):
        for last in either if stays_open else (False,):
            yield first, last, last


@functools.lru_cache(maxsize=100_000)
def _best_in(start: int, height: int, first: bool, last: bool, blocks: _Blocks) -> int:
    """The largest sum of squares over a node of 2^height rounds and all nodes in this node.

    `first` and `last` are whether a block that began before the node, or ends after it, has its
    round in the node.
    """
    end, middle = start + (1 << height), start + (1 << height >> 1)
    number = blocks.number(start)
    goes_on = start > blocks.start(number)
    if end <= blocks.start(number + 1):
        is_in = first if goes_on else last if blocks.is_within(end) else True
        return (height + 1) * is_in
    whole = blocks.number(end) - number - goes_on
    total = (whole + first + last) ** 2
    if not blocks.is_within(middle):
        return (
            total
            + _best_in(start, height - 1, first, False, blocks)
            + _best_in(middle, height - 1, False, last, blocks)
        )
    # The block across the middle has its round on one side, if in this node at all.
    number = blocks.number(middle)
    from_before, to_after = blocks.start(number) < start, blocks.start(number + 1) > end
    is_in = first if from_before else last if to_after else True
    return total + max(
        _best_in(start, height - 1, on_left if from_before else first, on_left, blocks)
        + _best_in(middle, height - 1, on_right, on_right if to_after else last, blocks)
        for on_left, on_right in (((True, False), (False, True)) if is_in else ((False, False),))
    )


# Rounds at least `separation` apart. A party with rounds in a node has to rest for some of the next
# rounds. For each number of rounds in a node, the programme keeps the possible values (sums of
# squares) and, for each value and rest before the node, the shortest rest after the node. A rest of
# `separation` rounds means impossible.

_Rounds: TypeAlias = tuple[tuple[IntArray, IntArray], ...]
"""By number of rounds: values, int64 of shape (values,), and rests, of (values, separation)."""


@functools.lru_cache(maxsize=64)
def _complete_node(height: int, most: int, separation: int) -> _Rounds:
    """The table for up to `most` rounds in a node of 2^height, whose own square is included."""
    if height == 0:
        without = np.maximum(np.arange(separation) - 1, 0)
        with_it = np.full(separation, separation)
        with_it[0] = separation - 1
        none, one = (np.zeros(1, np.int64), without[None]), (np.ones(1, np.int64), with_it[None])
        return (none, one) if most else (none,)
    half = _complete_node(height - 1, most, separation)
    return _joined(half, half, most, separation, is_node=True)


def _joined(left: _Rounds, right: _Rounds, most: int, separation: int, *, is_node: bool) -> _Rounds:
    """The table for up to `most` rounds in two neighbours; `is_node` adds their parent's square."""
    joined = []
    for number in range(min(len(left) + len(right) - 2, most) + 1):
        splits = range(max(0, number - len(right) + 1), min(number, len(left) - 1) + 1)
        parts = [_in_turn(left[i], right[number - i], separation) for i in splits]
        values = np.concatenate([value for value, _ in parts]) + number**2 * is_node
        rests = np.concatenate([rest for _, rest in parts])
        possible = _undominated(values, rests, separation)
        if not len(possible[0]):
            break  # nor are more rounds possible
        joined.append(possible)
    return tuple(joined)


def _in_turn(
    left: tuple[IntArray, IntArray], right: tuple[IntArray, IntArray], separation: int
) -> tuple[IntArray, IntArray]:
    """The values of two neighbouring nodes' rounds together, and the rests after both nodes."""
    after = np.pad(right[1], ((0, 0), (0, 1)), constant_values=separation)[:, left[1]]
    return np.add.outer(right[0], left[0]).ravel(), after.reshape(-1, left[1].shape[1])


def _undominated(values: IntArray, rests: IntArray, separation: int) -> tuple[IntArray, IntArray]:
    """Removes impossible values, and values for which a larger value has no larger rest."""
    order = np.argsort(-values)
    values, shortest = values[order], np.minimum.accumulate(rests[order], axis=0)
    is_last = np.append(np.diff(values) < 0, True)
    values, shortest = values[is_last], shortest[is_last]
    before = np.pad(shortest[:-1], ((1, 0), (0, 0)), constant_values=separation)
    is_shorter = (shortest < before).any(axis=1)
    return values[is_shorter], shortest[is_shorter]
