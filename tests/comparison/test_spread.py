"""Mean, deviation and ends over runs."""

import math

import pytest

from fl_audit.comparison.settings import Spread


def test_of_several_values():
    spread = Spread((1.0, 2.0, 6.0))
    assert (spread.mean, spread.smallest, spread.largest) == (3.0, 1.0, 6.0)
    assert spread.std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))


def test_a_single_value_has_no_deviation():
    assert Spread((1.0,)).std is None


def test_an_infinite_value_makes_the_mean_infinite():
    assert Spread((1.0, math.inf)).to_json() == {
        "values": [1.0, "inf"],
        "mean": "inf",
        "std": None,
        "smallest": 1.0,
        "largest": "inf",
    }


def test_unknown_values_are_left_out():
    assert Spread.of([None, 2.0]) == Spread((2.0,))
    assert Spread.of([None, None]) is None
