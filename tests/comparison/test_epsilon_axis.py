"""The axis of epsilon: infinity at its edge, zero on it, few ticks."""

import math

import matplotlib.figure
import pytest

from fl_audit.comparison.plots import EpsilonAxis


def scaled(axis, most_ticks=6):
    axes = matplotlib.figure.Figure().add_subplot()
    axis.scale(axes, "x", most_ticks)
    return axes


@pytest.mark.parametrize("largest", [0.03, 0.9, 7.0, 10.0, 10.5, 4e3, 1e9, 1e40])
@pytest.mark.parametrize("has_infinity", [False, True])
def test_everything_is_inside_and_ticks_are_few(largest, has_infinity):
    values = [0.0, largest, *([math.inf] if has_infinity else [])]
    axis = EpsilonAxis.holding(values)
    axes = scaled(axis)
    low, high = axes.get_xlim()
    places = [axis.position(value) for value in values]
    assert all(low < place < high for place in places)
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    ticks = axes.get_xticks()
    assert 2 <= len(ticks) <= 6
    assert all(low <= tick <= high for tick in ticks)
    assert (axes.get_xticklabels()[-1].get_text() == "∞") is has_infinity


def test_decades_only_where_epsilon_spans_them():
    assert scaled(EpsilonAxis.holding([0.1, 9.0])).get_xscale() == "linear"
    assert scaled(EpsilonAxis.holding([0.1, 90.0])).get_xscale() == "symlog"


def test_labels():
    labels = [
        t.get_text() for t in scaled(EpsilonAxis.holding([2e4, math.inf]), 9).get_xticklabels()
    ]
    assert labels == ["0", "0.1", "1", "10", "100", "1,000", "10,000", "100,000", "∞"]


@pytest.mark.parametrize("values", [[], [0.0], [math.inf]])
def test_without_a_positive_finite_epsilon(values):
    axes = scaled(EpsilonAxis.holding(values))
    assert axes.get_xlim()[0] < 0 < axes.get_xlim()[1]


def test_large_labels_are_powers():
    labels = [tick.get_text() for tick in scaled(EpsilonAxis.holding([3e9])).get_xticklabels()]
    assert labels == ["0", "0.1", "100", "100,000", "10⁸"]
