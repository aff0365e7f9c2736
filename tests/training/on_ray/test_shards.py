"""Shards and the tree of their sums: the same result in any order, whoever does the work."""

import itertools
import random

import numpy as np
import pytest

from fl_audit.engines.tff.ray.tree_sum import Node, OpenWork, TreeSum, shard_size, shards_of
from fl_audit.participation import Cohort
from tests.training.on_ray.written_trees import merged, tree_of


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


def test_shards_are_whole_blocks():
    assert [shard_size(block) for block in (1, 2, 3, 4, 5, 64)] == [4, 4, 6, 4, 5, 64]


@pytest.mark.parametrize("num_shards", range(1, 10))
def test_a_sum_is_that_of_the_tree_in_any_order(num_shards):
    order = list(range(num_shards))
    for attempt in range(20):
        random.Random(attempt).shuffle(order)
        tree = TreeSum(num_shards, merged)
        for leaf in order:
            tree.add(Node(0, leaf), str(leaf))
        assert tree.single[1] == tree_of(0, num_shards)


@pytest.mark.parametrize(
    ("num_shards", "workers"), itertools.product([1, 2, 7, 42, 133], [1, 2, 5])
)
def test_work_that_is_given_out_and_lost_gives_the_same_sum(num_shards, workers):
    """Workers sum their nodes by themselves, and every third loses its first."""
    work, tree = OpenWork(num_shards), TreeSum(num_shards, merged)
    taken = []
    while work.is_open:
        node = work.take(workers)
        taken.append(node)
        if len(taken) % 3 == 1 and taken.count(node) == 1:
            work.give_back(node)
            continue
        below = TreeSum(num_shards, merged)
        for shard in node.shards(num_shards):
            below.add(Node(0, shard), str(shard))
        tree.add(*below.single)
    assert work.take(workers) is None
    assert tree.single[1] == tree_of(0, num_shards)


def test_the_last_pieces_of_work_are_single_shards():
    work, sizes = OpenWork(1000), []
    while (node := work.take(10)) is not None:
        sizes.append(len(node.shards(1000)))
    assert sum(sizes) == 1000
    assert sizes[0] == 32
    assert sizes[-19:] == [1] * 19
    assert len(sizes) < 130
