"""The ROC curve and its area, against scikit-learn, by hand, and DeLong's definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from fl_audit.errors import InputError
from fl_audit.estimators.roc import (
    RocCurve,
    auc,
    auc_interval,
    balanced_accuracy,
    counts_at,
    tpr_at_fpr,
)
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError
from tests.seeds_tried import examples

RATES = (0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.999, 1.0)

# Few values, so that there are ties within and between the classes.
classes = st.lists(st.integers(0, 12).map(float), min_size=1, max_size=40)
steady = examples(60)


def sklearn_curve(scores):
    labels = np.repeat([1, 0], [scores.num_included, scores.num_excluded])
    values = np.concatenate([scores.included, scores.excluded])
    return metrics.roc_curve(labels, values, drop_intermediate=False), labels, values


@given(classes, classes)
@steady
def test_everything_matches_scikit_learn(included, excluded):
    scores = CanaryScores(included, excluded)
    (fpr, tpr, thresholds), labels, values = sklearn_curve(scores)
    curve = RocCurve.from_scores(scores)
    assert np.array_equal(curve.thresholds, thresholds)
    assert curve.false_positive_rates == pytest.approx(fpr, abs=1e-15)
    assert curve.true_positive_rates == pytest.approx(tpr, abs=1e-15)
    assert auc(scores) == pytest.approx(metrics.roc_auc_score(labels, values), abs=1e-14)
    for rate in RATES:
        assert tpr_at_fpr(scores, rate) == pytest.approx(max(tpr[fpr <= rate]), abs=1e-15)
    best = max(
        metrics.balanced_accuracy_score(labels, values >= threshold) for threshold in thresholds
    )
    assert balanced_accuracy(scores) == pytest.approx(best, abs=1e-14)


def test_rate_that_rounds_down_still_counts():
    """0.29 * 100 is 28.999999999999996, and 29 of 100 false positives have a rate of 0.29."""
    excluded = np.arange(100.0)
    scores = CanaryScores(included=[70.5], excluded=excluded)
    assert np.sum(excluded > 70.5) == 29
    assert tpr_at_fpr(scores, 0.29) == 1.0
    assert tpr_at_fpr(scores, 0.289) == 0.0


@pytest.mark.parametrize("threshold", [-np.inf, 0.0, 0.5, 1.0, 3.0, 3.1, np.inf])
def test_counts_at_a_threshold_match_scikit_learn(threshold):
    scores = CanaryScores(included=[1.0, 3.0, 0.5], excluded=[0.0, 1.0])
    _, labels, values = sklearn_curve(scores)
    (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, values >= threshold, labels=[0, 1])
    counts = counts_at(scores, threshold)
    found = (counts.true_negatives, counts.false_positives)
    assert found == (tn, fp)
    assert (counts.false_negatives, counts.true_positives) == (fn, tp)


@pytest.mark.parametrize(
    "statistic",
    [
        RocCurve.from_scores,
        auc,
        balanced_accuracy,
        lambda s: tpr_at_fpr(s, 0.1),
        lambda s: counts_at(s, 0),
    ],
)
def test_one_class_has_no_curve(statistic):
    with pytest.raises(NotApplicableError, match="at least 1 excluded score, got 0"):
        statistic(CanaryScores(included=[1.0], excluded=[]))
    with pytest.raises(NotApplicableError, match="at least 1 included score, got 0"):
        statistic(CanaryScores(included=[], excluded=[1.0]))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_refuses_a_rate_out_of_range(rate):
    with pytest.raises(InputError, match=r"false_positive_rate must be in \[0, 1\]"):
        tpr_at_fpr(CanaryScores([1.0], [0.0]), rate)


# DeLong's interval against its definition over all pairs, and its coverage.


values = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=15)


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


def test_covers_about_as_often_as_it_says():
    """Of 1,000 intervals at 90 %, 900 +- 9.5 cover; by 7 deviations wrong with chance 3e-12."""
    rng = np.random.default_rng(8)
    truth = stats.norm.cdf(1 / math.sqrt(2))
    covered = 0
    for _ in range(1000):
        scores = CanaryScores(rng.normal(1, 1, 200), rng.normal(0, 1, 50))
        interval = auc_interval(scores, 0.9)
        covered += interval.lower <= truth <= interval.upper
    assert abs(covered - 900) < 67
