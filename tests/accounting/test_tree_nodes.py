"""How far a party moves the nodes of trees, against every node and every choice of rounds."""

import itertools

import numpy as np
import pytest

from fl_audit.accounting.tree_nodes import Trees, squared_sensitivities


def by_hand(rounds, trees):
    """The sum over nodes |S in node|^2, node by node."""
    total, period = 0, trees.restart_every or trees.num_rounds
    for start in range(0, trees.num_rounds, period):
        end = min(start + period, trees.num_rounds)
        width = 1
        while start + width <= end:
            for first in range(start, end - width + 1, width):
                total += sum(first <= r < first + width for r in rounds) ** 2
            width *= 2
    return total


@pytest.mark.parametrize("num_rounds", [1, 2, 7, 8, 11])
def test_the_worst_rounds_of_all_choices(num_rounds):
    for restart in (None, *range(1, num_rounds + 2)):
        trees = Trees(num_rounds, restart)
        for block in range(1, num_rounds + 2):
            blocks = [
                range(start, min(start + block, num_rounds))
                for start in range(0, num_rounds, block)
            ]
            choices = [by_hand(rounds, trees) for rounds in itertools.product(*blocks)]
            assert trees.once_per_block(block) == max(choices)


@pytest.mark.parametrize(
    ("num_rounds", "parts"), [(3, 2), (5, 3), (5, 4), (7, 2), (8, 3), (11, 4), (13, 3), (17, 3)]
)
def test_one_round_of_each_of_nearly_equal_parts(num_rounds, parts):
    length, longer = divmod(num_rounds, parts)
    blocks = np.array_split(np.arange(num_rounds), parts)
    for restart in (None, length, length + 1, 5):
        trees = Trees(num_rounds, restart)
        choices = [by_hand(rounds, trees) for rounds in itertools.product(*blocks)]
        assert trees.once_per_block(length, longer) == max(choices)


def test_of_several_parties():
    random = np.random.default_rng(1)
    trees = Trees(100, 37)
    sets = [random.choice(100, size, replace=False) for size in (1, 5, 60, 100)]
    members = np.repeat([0, 2, 3, 5], [len(rounds) for rounds in sets])
    found = squared_sensitivities(members, np.concatenate(sets), trees)
    assert found.tolist() == [
        by_hand(sets[0], trees), 0, by_hand(sets[1], trees), by_hand(sets[2], trees), 0,
        by_hand(sets[3], trees),
    ]  # fmt: skip


def test_who_takes_part_in_nothing():
    nobody = np.zeros(0, np.int64)
    assert squared_sensitivities(nobody, nobody, Trees(3)).size == 0


@pytest.mark.parametrize(
    ("rounds", "every", "most", "separation"),
    [(13, None, 3, 4), (12, 5, 4, 3), (11, 6, 4, 5), (14, None, 14, 2), (9, 3, 2, 1), (7, 7, 1, 9)],
)
def test_the_worst_rounds_so_far_apart(rounds, every, most, separation):
    """As of all sets of rounds, across restarts too."""
    trees = Trees(rounds, every)
    sets = [
        chosen
        for number in range(1, most + 1)
        for chosen in itertools.combinations(range(rounds), number)
        if all(b - a >= separation for a, b in itertools.pairwise(chosen))
    ]
    members = np.repeat(np.arange(len(sets)), [len(chosen) for chosen in sets])
    worst = squared_sensitivities(members, np.concatenate(sets), trees).max()
    assert trees.min_separation(most, separation) == worst


def test_every_round_of_thousands_needs_no_search():
    """4,096 rounds: at each of 13 heights the rounds of all nodes, squared, are 4,096 times 2^h."""
    assert Trees(4096).min_separation(4096, 1) == 4096 * (2**13 - 1)


def test_the_sensitivity_of_gboards_model_is_published():
    """0.81 is printed for 79 / 98 of 2,000 rounds, 6 of a client at least 314 apart."""
    assert Trees(2000).min_separation(6, 314) == 79
