"""Shards of a cohort, the tree in which they are added, and the assignment of parts to actors.

Floating-point sums depend on their order. Here the shards and the order of addition follow from the
cohort alone. So the sum is bit for bit the same for any number of actors and any assignment, even
if actors are lost.

Sums are merged on the node where they were computed (`RoundWork`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fl_audit.participation import Cohort

CLIENTS_IN_SHARD = 4
"""The least size of a full shard. Each shard costs one more pass over the model's weights."""

T = TypeVar("T")


def shard_size(clients_per_block: int) -> int:
    """The number of participants of a shard: whole blocks of clients that train at once."""
    return -(-CLIENTS_IN_SHARD // clients_per_block) * clients_per_block


def shards_of(cohort: Cohort, size: int) -> list[Cohort]:
    """Splits a cohort into shards, clients first, then canaries; the last may be smaller."""
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
    """A subtree of up to 2^level shards from number `index` * 2^level on; level 0 is one shard."""

    level: int
    index: int

    def shards(self, num_shards: int) -> range:
        """The numbers of the subtree's shards; `num_shards` is the number of all shards."""
        end = min((self.index + 1) << self.level, num_shards)
        return range(self.index << self.level, end)


class TreeSum(Generic[T]):
    """A sum over shards in the order of the tree; subtrees may be added in any order."""

    def __init__(self, num_shards: int, merge: Callable[[T, T], T]) -> None:
        """`merge` adds the sum of later shards to the sum of earlier shards."""
        self._num_shards = num_shards
        self._merge = merge
        self.parts: dict[Subtree, T] = {}

    def add(self, subtree: Subtree, total: T) -> None:
        """Adds the sum of a subtree, then merges every pair of siblings that both have sums."""
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
        """The single subtree that remains after all merges, and its sum."""
        (item,) = self.parts.items()
        return item


class OpenWork:
    """Unclaimed subtrees of a round, largest first, single shards last."""

    def __init__(self, num_shards: int, region: Subtree | None = None) -> None:
        """Starts with all shards, or with those below `region`."""
        shards = range(num_shards) if region is None else region.shards(num_shards)
        self._begun, self._end = shards.start, shards.stop
        self._returned: list[Subtree] = []

    @property
    def is_open(self) -> bool:
        return bool(self._returned) or self._begun < self._end

    def take(self, num_workers: int, taking: int = 1) -> Subtree | None:
        """The next subtree for `taking` of `num_workers` workers; None if nothing is left.

        It has about half of the `taking` workers' share of the unclaimed shards, so that few sums
        are fetched and no worker waits long for others at the end of the round.
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


# Work of a round. A node is a machine of the cluster. A node with several actors gets a region, a
# subtree whose shards the actors share; the actors' sums are merged on the node, and only the
# region's sum is fetched. The program's own node needs no region: the program reads the sums of its
# actors from shared memory and adds them as they are finished.

MergeThere = Callable[[Any, Any], Any]
"""A function from Ray's references to two sums on one node to a reference to their sum."""


@dataclass(frozen=True, eq=False)
class RemoteSum:
    """A sum on the node of the actor that computes it, with Ray's `reference` to the sum."""

    subtree: Subtree
    reference: Any
    merged_from: tuple["RemoteSum", ...] = ()  # two sums, or none if an actor summed shards


class Region:
    """A subtree whose shards the actors of one node share."""

    def __init__(self, node: str, subtree: Subtree, num_shards: int) -> None:
        self.node = node
        self.work = OpenWork(num_shards, subtree)
        self.at_work = 0
        self.sums: list[
            RemoteSum
        ] = []  # a single one in the end, unless other nodes did some of its work
        self._num_shards = num_shards

    @property
    def is_done(self) -> bool:
        """Whether none of the region's work is open or under way."""
        return not (self.work.is_open or self.at_work)

    def add(self, new: RemoteSum, merge_there: MergeThere) -> None:
        """Adds a sum, and has every pair of siblings that both have sums merged on the node."""

        def merge(earlier: RemoteSum, later: RemoteSum) -> RemoteSum:
            parent = Subtree(earlier.subtree.level + 1, earlier.subtree.index >> 1)
            merged = merge_there(earlier.reference, later.reference)
            return RemoteSum(parent, merged, (earlier, later))

        tree = TreeSum[RemoteSum](self._num_shards, merge)
        for remote in [*self.sums, new]:
            tree.add(remote.subtree, remote)
        self.sums = list(tree.parts.values())


@dataclass(frozen=True, eq=False)
class Piece:
    """The work of one actor: a subtree, the actor's node, and the region of the subtree, if any."""

    subtree: Subtree
    node: str
    region: Region | None = None


class RoundWork:
    """The assignment of a round's pieces to actors, and the sums to fetch."""

    def __init__(self, num_shards: int, own_node: str) -> None:
        """`own_node` is the node of the program itself."""
        self._num_shards = num_shards
        self._own_node = own_node
        self._work = OpenWork(num_shards)
        self._regions: dict[str, Region] = {}  # the latest of each node

    @property
    def is_open(self) -> bool:
        return self._work.is_open or any(r.work.is_open for r in self._regions.values())

    def take(self, node: str, workers: Mapping[str, int]) -> Piece | None:
        """The next piece for an actor on `node`; `workers` counts the actors per node."""
        sharing = 1 if node == self._own_node else workers[node]
        num_workers = sum(workers.values())
        region = self._regions.get(node)
        if region is not None and region.work.is_open:
            return self._piece_of(region, node, sharing)
        subtree = self._work.take(num_workers, sharing)
        if subtree is None:
            open_regions = (r for r in self._regions.values() if r.work.is_open)
            region = next(open_regions, None)  # whose node's actors are busy, or lost
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
        """Records a piece as done; returns the sums to fetch now."""
        region = piece.region
        if region is None:
            return [new]
        region.at_work -= 1
        if piece.node == region.node:
            region.add(new, merge_there)
            return region.sums if region.is_done else []
        return [new, *(region.sums if region.is_done else [])]

    def lost(self, piece: Piece) -> list[RemoteSum]:
        """Puts back the piece of a lost actor; returns the sums to fetch now."""
        self._work.give_back(piece.subtree)
        region = piece.region
        if region is None:
            return []
        region.at_work -= 1
        return region.sums if region.is_done else []

    def lost_sum(self, lost: RemoteSum) -> list[RemoteSum]:
        """The sums to fetch instead of a lost sum; if there are none, its shards are put back."""
        if not lost.merged_from:
            self._work.give_back(lost.subtree)
        return list(lost.merged_from)
