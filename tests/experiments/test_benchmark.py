"""The benchmark of real bugs: what is found of a few of them, and nothing of what is right."""

import pytest

from experiments.broken_mechanisms.benchmark import audited, is_found, table
from experiments.broken_mechanisms.bugs import BUGS, RIGHT

NAMED = {bug.name: bug for bug in (*BUGS, *RIGHT)}


def test_there_are_enough_and_each_is_named_once():
    assert len(BUGS) >= 25
    assert len(NAMED) == len(BUGS) + len(RIGHT)
    threads = [bug.thread for bug in BUGS if bug.thread is not None]
    assert len(threads) == len(set(threads))
    assert all(bug.is_broken for bug in BUGS)


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("one upload in ten counted twice", "replay"),
        ("shuffled batches, accounted as Poisson", "sampling"),
        ("noise generated once, used in every round", "checks"),
        ("noise over the denominator twice", "contradicted"),
    ],
)
def test_bugs_are_found(name, by):
    row = audited(NAMED[name], seed=1)
    assert row[by]
    assert is_found(row)
    assert f"[{name}]" in table([{"name": name, **row}]) or NAMED[name].thread is None


@pytest.mark.parametrize("bug", RIGHT, ids=lambda bug: bug.name)
def test_right_runs_are_not_called_broken(bug):
    row = audited(bug, seed=2)
    assert not is_found(row), row
    assert "0 of 1 right runs called broken" in table([{"name": bug.name, **row}])
