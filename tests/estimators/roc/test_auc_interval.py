"""DeLong's interval against its definition over all pairs, and its coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.roc import auc, auc_interval
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError

values = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=15)
steady = settings(derandomize=True, deadline=None, max_examples=300)


def delong_by_pairs(included, excluded):
    """The area and DeLong's variance from the matrix of all pairs."""
    wins = np.array([[(x > y) + 0.5 * (x == y) for y in excluded] for x in included])
    rows, columns = wins.mean(axis=1), wins.mean(axis=0)
    variance = rows.var(ddof=1) / len(included) + columns.var(ddof=1) / len(excluded)
    return wins.mean(), variance


@given(values, values)
@steady
def test_matches_all_pairs(included, excluded):
    interval = auc_interval(CanaryScores(included, excluded), 0.9)
    if min(len(included), len(excluded)) < 2:
        assert (interval.lower, interval.upper) == (0.0, 1.0)
        return
    area, variance = delong_by_pairs(included, excluded)
    if variance == 0:
        assert interval.lower <= area <= interval.upper and interval.upper > interval.lower
        return
    margin = stats.norm.ppf(0.95) * math.sqrt(variance) / (area * (1 - area))
    odds = area / (1 - area)
    for end, sign in ((interval.lower, -1), (interval.upper, 1)):
        end_odds = odds * math.exp(sign * margin)
        assert end == pytest.approx(end_odds / (1 + end_odds), rel=1e-9)


@given(values, values, st.floats(0.01, 0.99))
@steady
def test_mirrors_when_the_classes_are_exchanged(included, excluded, confidence):
    one = auc_interval(CanaryScores(included, excluded), confidence)
    other = auc_interval(CanaryScores(excluded, included), confidence)
    assert 0 <= one.lower <= one.upper <= 1
    assert one.lower == pytest.approx(1 - other.upper, abs=1e-12)
    assert one.upper == pytest.approx(1 - other.lower, abs=1e-12)


@pytest.mark.parametrize(
    ("included", "excluded", "lower", "upper"),
    [
        ([2.0] * 50, [1.0] * 80, 0.05 ** (1 / 50), 1.0),  # 50 pairs, all won
        ([1.0] * 80, [2.0] * 50, 0.0, 1 - 0.05 ** (1 / 50)),
        ([1.0] * 20, [1.0] * 20, 0.05 ** (1 / 20) / 2, 1 - 0.05 ** (1 / 20) / 2),
    ],
)
def test_pairs_that_all_come_out_the_same(included, excluded, lower, upper):
    interval = auc_interval(CanaryScores(included, excluded), 0.95)
    assert interval.lower == pytest.approx(lower, rel=1e-12)
    assert interval.upper == pytest.approx(upper, rel=1e-12)


@pytest.mark.parametrize(("shift", "members", "others"), [(0.0, 60, 60), (1.0, 200, 50)])
def test_covers_about_as_often_as_it_says(shift, members, others):
    """Of 2,000 intervals at 90 %, 1,800 +- 13.4 cover; by 7 deviations wrong with chance 3e-12."""
    rng = np.random.default_rng(8)
    truth = stats.norm.cdf(shift / math.sqrt(2))
    covered = 0
    for _ in range(2000):
        scores = CanaryScores(rng.normal(shift, 1, members), rng.normal(0, 1, others))
        interval = auc_interval(scores, 0.9)
        covered += interval.lower <= truth <= interval.upper
    assert abs(covered - 1800) < 94


def test_holds_the_area():
    rng = np.random.default_rng(2)
    scores = CanaryScores(rng.normal(3, 1, 30), rng.normal(0, 1, 20))
    narrow, wide = auc_interval(scores, 0.5), auc_interval(scores, 0.999999)
    assert wide.lower < narrow.lower < auc(scores) < narrow.upper < wide.upper <= 1


def test_refuses_bad_input():
    with pytest.raises(InputError, match="confidence must be in"):
        auc_interval(CanaryScores([1.0, 2.0], [0.0, 1.0]), 95)
    with pytest.raises(NotApplicableError, match="excluded"):
        auc_interval(CanaryScores([1.0, 2.0], []), 0.95)
