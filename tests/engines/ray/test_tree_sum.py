"""Shards and the tree of their sums: the same result in any order, whoever does the work."""

import random
from collections import Counter

import numpy as np
import pytest

from fl_audit.engines.ray.tree_sum import (
    RemoteSum,
    RoundWork,
    Subtree,
    TreeSum,
    shards_of,
)
from fl_audit.participation import Cohort


def merged(left, right):
    """The sum of two texts, which show their tree."""
    return f"({left}{right})"


def tree_of(first, last):
    """The tree by its definition: the left part is the largest power of two."""
    if last - first == 1:
        return str(first)
    half = 1 << ((last - first - 1).bit_length() - 1)
    return merged(tree_of(first, first + half), tree_of(first + half, last))


def _cohort(clients, canaries):
    return Cohort(np.arange(clients), np.arange(100, 100 + canaries))


@pytest.mark.parametrize(("clients", "canaries"), [(0, 0), (3, 0), (0, 5), (7, 2), (8, 4), (9, 13)])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_shards_hold_everybody_once_in_order(clients, canaries, size):
    shards = shards_of(_cohort(clients, canaries), size)
    sizes = [len(shard.clients) + len(shard.canaries) for shard in shards]
    assert all(count == size for count in sizes[:-1])
    assert sum(sizes) == clients + canaries
    assert [c for shard in shards for c in shard.clients] == list(range(clients))
    assert [c for shard in shards for c in shard.canaries] == list(range(100, 100 + canaries))


# Sums are merged where they are made: the same tree, whoever works, and whoever is lost.


def _round(num_shards, nodes, seed, loss=0.0):
    """A round whose actors end in any order; the sum, and how many sums fetched.

    A reference is the sum itself. Pieces and in_flight sums are lost with the probability `loss`,
    the latter for all that comes after.
    """
    rng, workers = random.Random(seed), Counter(nodes)
    work, tree = RoundWork(num_shards, "own"), TreeSum(num_shards, merged)
    idle, busy, in_flight, fetched = list(nodes), [], [], 0
    while work.is_open or busy or in_flight:
        rng.shuffle(idle)
        while idle and (piece := work.take(idle[-1], workers)) is not None:
            busy.append((idle.pop(), piece))
        if busy and (not in_flight or rng.random() < 0.7):
            node, piece = busy.pop(rng.randrange(len(busy)))
            idle.append(node)
            if rng.random() < loss:
                in_flight += work.lost(piece)
                continue
            below = TreeSum(num_shards, merged)
            for shard in piece.subtree.shards(num_shards):
                below.add(Subtree(0, shard), str(shard))
            in_flight += work.finished(piece, RemoteSum(*below.single), merged)
        elif in_flight:
            one = in_flight.pop(rng.randrange(len(in_flight)))
            if rng.random() < loss:
                in_flight += work.lost_sum(one)
            else:
                tree.add(one.subtree, one.reference)
                fetched += 1
    return tree.single[1], fetched


_PLACES = [["own"] * 4, ["a"] * 4, ["a"] * 3 + ["b"] * 5, ["own", "a", "a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("num_shards", [1, 2, 7, 11, 42, 133])
@pytest.mark.parametrize("nodes", _PLACES, ids="".join)
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_sum_is_that_of_the_tree(num_shards, nodes, loss):
    expected = tree_of(0, num_shards)
    for seed in range(10):
        assert _round(num_shards, nodes, seed, loss)[0] == expected


def test_less_is_fetched_where_actors_share_a_node():
    apart = [f"{node}{number}" for node in "abcd" for number in range(16)]
    together = [node[0] for node in apart]
    assert _round(2000, together, 1)[1] < _round(2000, apart, 1)[1] / 5


def test_the_programs_own_place_merges_nothing_there():
    def nothing(earlier, later):
        raise AssertionError

    work, workers = RoundWork(20, "own"), Counter(own=3)
    while (piece := work.take("own", workers)) is not None:
        made = RemoteSum(piece.subtree, None)
        assert work.finished(piece, made, nothing) == [made]


def test_the_work_of_a_place_that_is_lost_is_done_elsewhere():
    work, workers = RoundWork(64, "own"), Counter(a=4, b=1)
    first = work.take("a", workers)
    assert first is not None
    assert first.region is not None
    workers = Counter(b=1)  # all of the other node's actors are gone
    assert work.lost(first) == []
    seen = set()
    while (piece := work.take("b", workers)) is not None:
        seen.update(piece.subtree.shards(64))
        work.finished(piece, RemoteSum(piece.subtree, None), merged)
    assert seen == set(range(64))
    assert not work.is_open
