"""What stands around a number: the check before it, the race, the row."""

import numpy as np
import pytest

from benchmarks.equality import check
from benchmarks.rows import Rows
from benchmarks.timing import Race


@pytest.mark.parametrize(
    ("ours", "peer"),
    [(1.0, 1.2), (np.nan, 1.0), (1.0, np.nan), ([1.0], [1.0, 1.0]), ([1, 5], [1, 2])],
)
def test_different_results_are_not_timed(ours, peer):
    with pytest.raises(SystemExit):
        check(ours, peer, 0.1)


def test_a_race_by_unit_of_work():
    taken = Race((1.0, 2.0), (6.0, 3.0)).per(10, 5)
    assert taken.ours == (0.1, 0.2)
    assert taken.peer == (1.2, 0.6)
    assert taken.ratios == (pytest.approx(3.0), pytest.approx(12.0))
    assert str(taken).endswith("7.50 times (3.00 to 12.0)")


def refuse():
    check(1.0, 2.0, 0.1)


def run_out_of_memory():
    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate")


def test_a_row_that_fails_says_why_and_others_follow(capsys):
    rows = Rows(60.0)
    rows.row("good", lambda: "7")
    assert rows.all_came_out
    rows.row("wrong", refuse)
    rows.row("large", run_out_of_memory)
    rows.row("good again", lambda: "8")
    assert not rows.all_came_out
    shown = [line[34:] for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == "7"
    assert shown[1].startswith("no number: results differ by 1")
    assert shown[2:] == ["out of memory", "8"]
