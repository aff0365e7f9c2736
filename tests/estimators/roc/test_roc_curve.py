"""The ROC curve and what is read off it, against scikit-learn and by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from fl_audit.errors import InputError
from fl_audit.estimators.roc import RocCurve, auc, balanced_accuracy, counts_at, tpr_at_fpr
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError

RATES = (0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.999, 1.0)

# Few values, so that there are ties within and between the classes.
classes = st.lists(st.integers(0, 12).map(float), min_size=1, max_size=40)
steady = settings(derandomize=True, deadline=None, max_examples=300)


def sklearn_curve(scores):
    labels = np.repeat([1, 0], [scores.num_included, scores.num_excluded])
    values = np.concatenate([scores.included, scores.excluded])
    return metrics.roc_curve(labels, values, drop_intermediate=False), labels, values


@given(classes, classes)
@steady
def test_everything_matches_scikit_learn(included, excluded):
    scores = CanaryScores(included, excluded)
    (fpr, tpr, thresholds), labels, values = sklearn_curve(scores)
    curve = RocCurve.of(scores)
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


@given(classes, classes)
@steady
def test_auc_counts_pairs(included, excluded):
    wins = sum(Fraction(1 + (x > y) - (x < y), 2) for x in included for y in excluded)
    exact = wins / (len(included) * len(excluded))
    assert auc(CanaryScores(included, excluded)) == pytest.approx(float(exact), rel=1e-14)
    assert auc(CanaryScores(excluded, included)) == pytest.approx(float(1 - exact), abs=1e-14)


@given(classes, classes, st.sampled_from(["shift", "cube"]))
@steady
def test_only_the_order_of_scores_matters(included, excluded, change):
    changed = {"shift": lambda x: 7 * np.array(x) - 3, "cube": lambda x: np.array(x) ** 3}[change]
    before = CanaryScores(included, excluded)
    after = CanaryScores(changed(included), changed(excluded))
    assert auc(before) == auc(after)
    assert balanced_accuracy(before) == balanced_accuracy(after)
    assert [tpr_at_fpr(before, r) for r in RATES] == [tpr_at_fpr(after, r) for r in RATES]


@given(classes, classes)
@steady
def test_rates_grow_along_the_curve(included, excluded):
    curve = RocCurve.of(CanaryScores(included, excluded))
    assert np.all(np.diff(curve.thresholds) < 0)
    for rates in (curve.false_positive_rates, curve.true_positive_rates):
        assert rates[0] == 0 and rates[-1] == 1
        assert np.all(np.diff(rates) >= 0)


def test_auc_of_gaussians():
    # Phi(1 / sqrt(2)); the statistic's deviation is 0.0005, so 6 of them fail with chance 2e-9.
    rng = np.random.default_rng(4)
    scores = CanaryScores(rng.normal(1, 1, 400_000), rng.normal(0, 1, 400_000))
    assert auc(scores) == pytest.approx(0.760250, abs=0.003)


def test_ties_are_passed_at_once():
    scores = CanaryScores(included=[1.0] * 4, excluded=[1.0] * 4)
    assert RocCurve.of(scores).true_positive_rates.tolist() == [0.0, 1.0]
    assert auc(scores) == 0.5
    assert balanced_accuracy(scores) == 0.5
    assert tpr_at_fpr(scores, 0.99) == 0.0


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
        RocCurve.of,
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
