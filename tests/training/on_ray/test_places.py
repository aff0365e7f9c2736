"""Sums that are merged where they are made: the same tree, whoever works, and whoever is lost."""

import random
from collections import Counter

import pytest

from fl_audit.engines.tff.ray.tree_sum import LyingSum, Node, RoundWork, TreeSum
from tests.training.on_ray.written_trees import merged, tree_of


def _round(num_shards, places, seed, loss=0.0):
    """A round whose actors end in any order; the sum, and how many sums travelled.

    A reference is the sum itself. Pieces and travelling sums are lost with the probability `loss`,
    the latter for all that comes after.
    """
    rng, crews = random.Random(seed), Counter(places)
    work, tree = RoundWork(num_shards, "own"), TreeSum(num_shards, merged)
    idle, busy, travelling, travelled = list(places), [], [], 0
    while work.is_open or busy or travelling:
        rng.shuffle(idle)
        while idle and (piece := work.take(idle[-1], crews)) is not None:
            busy.append((idle.pop(), piece))
        if busy and (not travelling or rng.random() < 0.7):
            place, piece = busy.pop(rng.randrange(len(busy)))
            idle.append(place)
            if rng.random() < loss:
                travelling += work.lost(piece)
                continue
            below = TreeSum(num_shards, merged)
            for shard in piece.node.shards(num_shards):
                below.add(Node(0, shard), str(shard))
            travelling += work.made(piece, LyingSum(*below.single), merged)
        elif travelling:
            one = travelling.pop(rng.randrange(len(travelling)))
            if rng.random() < loss:
                travelling += work.lost_sum(one)
            else:
                tree.add(one.node, one.reference)
                travelled += 1
    return tree.single[1], travelled


_PLACES = [["own"] * 4, ["a"] * 4, ["a"] * 3 + ["b"] * 5, ["own", "a", "a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("num_shards", [1, 2, 7, 11, 42, 133])
@pytest.mark.parametrize("places", _PLACES, ids="".join)
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_sum_is_that_of_the_tree(num_shards, places, loss):
    expected = tree_of(0, num_shards)
    for seed in range(10):
        assert _round(num_shards, places, seed, loss)[0] == expected


def test_less_travels_where_actors_share_a_place():
    apart = [f"{place}{number}" for place in "abcd" for number in range(16)]
    together = [place[0] for place in apart]
    assert _round(2000, together, 1)[1] < _round(2000, apart, 1)[1] / 5


def test_the_programs_own_place_merges_nothing_there():
    def nothing(earlier, later):
        raise AssertionError

    work, crews = RoundWork(20, "own"), Counter(own=3)
    while (piece := work.take("own", crews)) is not None:
        made = LyingSum(piece.node, None)
        assert work.made(piece, made, nothing) == [made]


def test_the_work_of_a_place_that_is_lost_is_done_elsewhere():
    work, crews = RoundWork(64, "own"), Counter(a=4, b=1)
    first = work.take("a", crews)
    assert first is not None
    assert first.region is not None
    crews = Counter(b=1)  # all of the other place's actors are gone
    assert work.lost(first) == []
    seen = set()
    while (piece := work.take("b", crews)) is not None:
        seen.update(piece.node.shards(64))
        work.made(piece, LyingSum(piece.node, None), merged)
    assert seen == set(range(64))
    assert not work.is_open
