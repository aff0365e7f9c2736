"""Shards of a cohort, and the tree in which their sums are added.

Which participants make a shard, and which sums are added to which, is a function of the cohort
alone. Floating-point sums depend on their order; so this one is the same to the last bit however
many actors there are, whatever each of them did, and whichever of them were lost.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fl_audit.participation import Cohort

CLIENTS_IN_SHARD = 4
"""The participants of a shard. Each shard costs a further pass over the model's numbers."""

T = TypeVar("T")


def shard_size(clients_per_block: int) -> int:
    """The participants of a shard: whole blocks of clients that train at once."""
    return -(-CLIENTS_IN_SHARD // clients_per_block) * clients_per_block


def shards_of(cohort: Cohort, size: int) -> list[Cohort]:
    """A cohort cut into shards of this size, the last one smaller; clients first, then canaries."""
    num_clients, count = len(cohort.clients), len(cohort.clients) + len(cohort.canaries)
    return [
        Cohort(
            cohort.clients[start : start + size],
            cohort.canaries[max(start - num_clients, 0) : max(start + size - num_clients, 0)],
        )
        for start in range(0, count, size)
    ]


@dataclass(frozen=True, order=True)
class Node:
    """A node of the tree: the sum of the shards from `index` times 2^level on, 2^level of them.

    Attributes:
      level: The level; 0 for a single shard.
      index: The number of the node in its level, from 0.
    """

    level: int
    index: int

    def shards(self, num_shards: int) -> range:
        """The shards below the node, of so many in all."""
        end = min((self.index + 1) << self.level, num_shards)
        return range(self.index << self.level, end)


class TreeSum(Generic[T]):
    """A sum over shards in the order of the tree; nodes may come in any order."""

    def __init__(self, num_shards: int, merge: Callable[[T, T], T]) -> None:
        """Starts without any node.

        Args:
          num_shards: The number of shards, at least 1.
          merge: A function that adds the sum of later shards to that of earlier ones.
        """
        self._num_shards = num_shards
        self._merge = merge
        self.parts: dict[Node, T] = {}

    def add(self, node: Node, total: T) -> None:
        """Adds the sum of a node, and the sums of all nodes above it that are now known."""
        while 1 << node.level < self._num_shards:
            sibling = Node(node.level, node.index ^ 1)
            if sibling.shards(self._num_shards):
                if sibling not in self.parts:
                    break
                other = self.parts.pop(sibling)
                pair = (total, other) if node < sibling else (other, total)
                total = self._merge(*pair)
            node = Node(node.level + 1, node.index >> 1)
        self.parts[node] = total

    @property
    def single(self) -> tuple[Node, T]:
        """The one node that all that was added belongs to, and its sum."""
        (item,) = self.parts.items()
        return item


class OpenWork:
    """The nodes of a round that nobody works at: large ones first, single shards at the end."""

    def __init__(self, num_shards: int, region: Node | None = None) -> None:
        """Starts with all shards.

        Args:
          num_shards: The number of the cohort's shards.
          region: The node below which they are; None for the whole tree.
        """
        shards = range(num_shards) if region is None else region.shards(num_shards)
        self._begun, self._end = shards.start, shards.stop
        self._returned: list[Node] = []

    @property
    def is_open(self) -> bool:
        """Whether anything is left to give out."""
        return bool(self._returned) or self._begun < self._end

    def take(self, num_workers: int, taking: int = 1) -> Node | None:
        """The next node for some of so many workers; None where all are given out.

        They get about half of their share of what is left, so that few sums travel and yet no
        worker waits long for the last one.

        Args:
          num_workers: The number of workers.
          taking: The number of those who share the node.
        """
        if self._returned:
            return self._returned.pop()
        left = self._end - self._begun
        if not left:
            return None
        level = max(left * taking // (2 * num_workers), 1).bit_length() - 1
        while self._begun % (1 << level):
            level -= 1
        node = Node(level, self._begun >> level)
        self._begun += 1 << level
        return node

    def give_back(self, node: Node) -> None:
        """Takes back a node whose worker was lost."""
        self._returned.append(node)
