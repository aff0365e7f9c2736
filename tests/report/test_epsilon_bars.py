"""The picture of the page: a bar per attacker on a logarithmic axis."""

import math

import pytest

from fl_audit.report.chart import LogAxis, epsilon_bars
from tests.report.made_reports import (
    analytical,
    fitted_and_proven,
    guarantee,
    report,
    statistic,
)

STATISTICS = {
    "final": fitted_and_proven("final", 0.0, 0.5, 0.2, 1.0),
    "max": fitted_and_proven("all_iterates", 6.0, 10.0, 9.0, 11.0),
    "sum": fitted_and_proven("all_iterates", 7.0, 10.0, 9.0, 11.0),
}


def bars(canary, statistics=None):
    guarantees = analytical(guarantee(20.0), guarantee(canary))
    return epsilon_bars(report(statistics or STATISTICS, guarantees))


def test_an_attacker_has_one_bar_on_its_first_statistic_and_the_strongest_leads():
    drawn = bars(15.0)
    assert [(bar.proven, bar.estimated, bar.guaranteed) for bar in drawn.bars] == [
        ("ε ≥ 6.00", "≈ 10.0", "≤ 15.0"),
        ("ε ≥ 0", "≈ 0.500", "≤ 15.0"),
    ]
    strong, weak = drawn.bars
    assert strong.start < strong.interval[0] < strong.estimate < strong.interval[1] < strong.end
    assert weak.start == 0.5 < weak.interval[0] < strong.start
    assert not (strong.is_open or strong.is_broken)
    places = [tick.place for tick in drawn.ticks]
    assert places == sorted(places)
    assert [tick.text for tick in drawn.ticks] == ["0", "0.2", "0.5", "1", "2", "5", "10"]


@pytest.mark.parametrize(("canary", "words"), [(math.inf, "≤ ∞"), (None, "nothing known")])
def test_a_bar_without_a_guarantee_is_open(canary, words):
    drawn = bars(canary)
    assert all(bar.is_open and bar.end == 99.5 for bar in drawn.bars)
    assert {bar.guaranteed for bar in drawn.bars} == {words}
    assert drawn.ticks[-1].text == "∞"


def test_more_proven_than_guaranteed_is_seen():
    bar = bars(4.0).bars[0]
    assert bar.is_broken
    assert bar.end < bar.start


def test_an_estimate_above_the_guarantee_by_chance_ends_there():
    bar = bars(9.5).bars[0]
    assert bar.estimated == "≈ 9.50"
    assert bar.interval[1] == bar.estimate == bar.end


def test_nothing_to_show_is_no_picture():
    assert bars(15.0, {"final": statistic()}) is None


def test_the_axis_holds_any_numbers():
    for values in ([], [0.0], [math.inf], [1e-12, 50.0], [1e-9], [6730.0, math.inf]):
        axis = LogAxis.around(values)
        assert all(0 <= axis.place(value) <= 100 for value in values)
        assert 1 <= len(axis.numbers()) <= 10
        ticks = axis.ticks(values)
        assert [tick.place for tick in ticks] == sorted({tick.place for tick in ticks})
        assert (ticks[0].text == "0") is (0.0 in values)
        assert (ticks[-1].text == "∞") is (math.inf in values)
