import math

import numpy as np
import pytest

from fl_audit.planning.prediction import coverage, ends_of, interval_over, median_of


@pytest.mark.parametrize("trials", [3, 19, 39, 79, 100])
def test_a_new_value_lies_between_the_ends_as_often_as_is_said(trials):
    """5,000 samples; 6 standard errors of a share."""
    random = np.random.default_rng(3)
    values = random.standard_exponential((5_000, trials + 1))
    hits = 0
    for row in values:
        low, high = ends_of(row[:-1])
        hits += low <= row[-1] <= high
    share = coverage(trials)
    assert hits / 5_000 == pytest.approx(share, abs=6 * math.sqrt(share * (1 - share) / 5_000))


def test_infinite_values_sort_last():
    values = np.array([1.0, np.inf, 2.0])
    assert ends_of(values) == (1.0, math.inf)
    assert median_of(values) == 2.0
    assert median_of(np.array([1.0, np.inf])) == 1.0


def test_an_interval_covers_all_samples():
    interval = interval_over(np.array([2.0, 3.0, 4.0]), [np.array([0.5, 1.0, 9.0])])
    assert (interval.median, interval.lower, interval.upper) == (3.0, 0.5, 9.0)
    assert interval_over(np.full(3, np.inf), []).to_json() == {
        "median": "inf",
        "lower": "inf",
        "upper": "inf",
    }
