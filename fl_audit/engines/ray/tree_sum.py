"""Shards of a cohort, the tree in which their sums are added, and who works at which part of it.

Which participants make a shard, and which sums are added to which, is a function of the cohort
alone. Floating-point sums depend on their order; so this one is the same to the last bit however
many actors there are, whatever each of them did, and whichever of them were lost.

Work is given out so that sums are merged on the machine where they are made (`RoundWork`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

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
class Subtree:
    """A subtree of the tree: the sum of the shards from `index` times 2^level on, 2^level of them.

    Attributes:
      level: The level; 0 for a single shard.
      index: The number of the subtree in its level, from 0.
    """

    level: int
    index: int

    def shards(self, num_shards: int) -> range:
        """The shards below the subtree, of so many in all."""
        end = min((self.index + 1) << self.level, num_shards)
        return range(self.index << self.level, end)


class TreeSum(Generic[T]):
    """A sum over shards in the order of the tree; subtrees may come in any order."""

    def __init__(self, num_shards: int, merge: Callable[[T, T], T]) -> None:
        """Starts without any subtree.

        Args:
          num_shards: The number of shards, at least 1.
          merge: A function that adds the sum of later shards to that of earlier ones.
        """
        self._num_shards = num_shards
        self._merge = merge
        self.parts: dict[Subtree, T] = {}

    def add(self, subtree: Subtree, total: T) -> None:
        """Adds the sum of a subtree, and the sums of all subtrees above it that are now known."""
        while 1 << subtree.level < self._num_shards:
            sibling = Subtree(subtree.level, subtree.index ^ 1)
            if sibling.shards(self._num_shards):
                if sibling not in self.parts:
                    break
                other = self.parts.pop(sibling)
                pair = (total, other) if subtree < sibling else (other, total)
                total = self._merge(*pair)
            subtree = Subtree(subtree.level + 1, subtree.index >> 1)
        self.parts[subtree] = total

    @property
    def single(self) -> tuple[Subtree, T]:
        """The one subtree that all that was added belongs to, and its sum."""
        (item,) = self.parts.items()
        return item


class OpenWork:
    """The subtrees of a round that nobody works at: large ones first, single shards at the end."""

    def __init__(self, num_shards: int, region: Subtree | None = None) -> None:
        """Starts with all shards.

        Args:
          num_shards: The number of the cohort's shards.
          region: The subtree below which they are; None for the whole tree.
        """
        shards = range(num_shards) if region is None else region.shards(num_shards)
        self._begun, self._end = shards.start, shards.stop
        self._returned: list[Subtree] = []

    @property
    def is_open(self) -> bool:
        """Whether anything is left to give out."""
        return bool(self._returned) or self._begun < self._end

    def take(self, num_workers: int, taking: int = 1) -> Subtree | None:
        """The next subtree for some of so many workers; None where all are given out.

        They get about half of their share of what is left, so that few sums are fetched and yet no
        worker waits long for the last one.

        Args:
          num_workers: The number of workers.
          taking: The number of those who share the subtree.
        """
        if self._returned:
            return self._returned.pop()
        left = self._end - self._begun
        if not left:
            return None
        level = max(left * taking // (2 * num_workers), 1).bit_length() - 1
        while self._begun % (1 << level):
            level -= 1
        subtree = Subtree(level, self._begun >> level)
        self._begun += 1 << level
        return subtree

    def give_back(self, subtree: Subtree) -> None:
        """Takes back a subtree whose worker was lost."""
        self._returned.append(subtree)


# Work of a round. A node is a machine of the cluster. One with several actors is given a region, a
# subtree whose shards its actors share; they merge among themselves, and one sum of the region is
# fetched. The program's own node needs none: it has the sums of its actors in shared memory, and
# adds them as they come.


MergeThere = Callable[[Any, Any], Any]
"""A function from references to the sums of earlier and of later shards, which lie on one node, to
one to their sum, which an actor of that node makes."""


@dataclass(frozen=True, eq=False)
class RemoteSum:
    """A sum that lies on the node where it was made, or is being made there.

    Attributes:
      subtree: The subtree whose sum it is.
      reference: Ray's reference to it.
      merged_from: The two sums that it is merged from; none where an actor made it of shards.
    """

    subtree: Subtree
    reference: Any
    merged_from: tuple["RemoteSum", ...] = ()


class Region:
    """A subtree whose shards the actors of one node share.

    Attributes:
      node: The node.
      work: What is open of it.
      at_work: The number of its pieces that actors work at.
      sums: What lies there of it: in the end one sum, unless others did some of its work.
    """

    def __init__(self, node: str, subtree: Subtree, num_shards: int) -> None:
        """Starts with all its shards open.

        Args:
          node: The node.
          subtree: The subtree.
          num_shards: The number of the cohort's shards.
        """
        self.node = node
        self.work = OpenWork(num_shards, subtree)
        self.at_work = 0
        self.sums: list[RemoteSum] = []
        self._num_shards = num_shards

    @property
    def is_done(self) -> bool:
        """Whether nobody has anything left to do in it."""
        return not (self.work.is_open or self.at_work)

    def add(self, new: RemoteSum, merge_there: MergeThere) -> None:
        """Adds a sum, and merges what has come to belong together."""

        def merge(earlier: RemoteSum, later: RemoteSum) -> RemoteSum:
            parent = Subtree(earlier.subtree.level + 1, earlier.subtree.index >> 1)
            together = merge_there(earlier.reference, later.reference)
            return RemoteSum(parent, together, (earlier, later))

        tree = TreeSum[RemoteSum](self._num_shards, merge)
        for each in [*self.sums, new]:
            tree.add(each.subtree, each)
        self.sums = list(tree.parts.values())


@dataclass(frozen=True, eq=False)
class Piece:
    """What an actor is given to do.

    Attributes:
      subtree: The subtree.
      node: The actor's node.
      region: The region that the subtree is of; None where there is none.
    """

    subtree: Subtree
    node: str
    region: Region | None = None


class RoundWork:
    """The pieces of a round: who is given which, and which sums are fetched."""

    def __init__(self, num_shards: int, own_node: str) -> None:
        """Starts with all shards open.

        Args:
          num_shards: The number of the cohort's shards.
          own_node: The node of the program.
        """
        self._num_shards = num_shards
        self._own_node = own_node
        self._work = OpenWork(num_shards)
        self._regions: dict[str, Region] = {}  # the latest of each node

    @property
    def is_open(self) -> bool:
        """Whether anything is left to give out."""
        return self._work.is_open or any(r.work.is_open for r in self._regions.values())

    def take(self, node: str, workers: Mapping[str, int]) -> Piece | None:
        """The next piece for an actor; None where all are given out.

        Args:
          node: The actor's node.
          workers: The number of actors on each node.
        """
        sharing = 1 if node == self._own_node else workers[node]
        num_workers = sum(workers.values())
        region = self._regions.get(node)
        if region is not None and region.work.is_open:
            return self._piece_of(region, node, sharing)
        subtree = self._work.take(num_workers, sharing)
        if subtree is None:
            open_regions = (r for r in self._regions.values() if r.work.is_open)
            region = next(open_regions, None)  # whose own actors are busy, or lost
            return None if region is None else self._piece_of(region, node, num_workers)
        if sharing == 1 or len(subtree.shards(self._num_shards)) == 1:
            return Piece(subtree, node)
        self._regions[node] = Region(node, subtree, self._num_shards)
        return self._piece_of(self._regions[node], node, sharing)

    def _piece_of(self, region: Region, node: str, workers: int) -> Piece:
        subtree = region.work.take(workers)
        assert subtree is not None
        region.at_work += 1
        return Piece(subtree, node, region)

    def finished(self, piece: Piece, new: RemoteSum, merge_there: MergeThere) -> list[RemoteSum]:
        """Counts a piece as done; returns the sums that are to be fetched now."""
        region = piece.region
        if region is None:
            return [new]
        region.at_work -= 1
        if piece.node == region.node:
            region.add(new, merge_there)
            return region.sums if region.is_done else []
        return [new, *(region.sums if region.is_done else [])]

    def lost(self, piece: Piece) -> list[RemoteSum]:
        """Opens a piece again whose actor was lost; returns the sums that are to be fetched now."""
        self._work.give_back(piece.subtree)
        region = piece.region
        if region is None:
            return []
        region.at_work -= 1
        return region.sums if region.is_done else []

    def lost_sum(self, lost: RemoteSum) -> list[RemoteSum]:
        """What is to be fetched in place of a lost sum; its shards are open again if none."""
        if not lost.merged_from:
            self._work.give_back(lost.subtree)
        return list(lost.merged_from)
