"""The summary of an attack: its parts, its JSON and its time."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.roc import (
    auc,
    auc_interval,
    balanced_accuracy,
    roc_summary,
    tpr_at_fpr,
    tpr_at_fpr_interval,
)
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError


def gaussian_scores(n):
    rng = np.random.default_rng(1)
    return CanaryScores(rng.normal(1, 1, n // 2), rng.normal(0, 1, n // 2))


def test_is_made_of_its_parts():
    scores = gaussian_scores(4000)
    summary = roc_summary(scores, confidence=0.9, seed=3)
    assert (summary.num_included, summary.num_excluded) == (2000, 2000)
    assert summary.auc == auc(scores)
    assert summary.auc_interval == auc_interval(scores, 0.9)
    assert summary.balanced_accuracy == balanced_accuracy(scores)
    points = summary.operating_points
    assert [point.false_positive_rate for point in points] == [0.001, 0.01, 0.1]
    assert [point.false_positives for point in points] == [2, 20, 200]
    for point in points:
        assert point.true_positive_rate == tpr_at_fpr(scores, point.false_positive_rate)
    assert points[0].interval is None
    for point in points[1:]:
        assert point.interval == tpr_at_fpr_interval(
            scores, point.false_positive_rate, confidence=0.9, seed=3
        )


@pytest.mark.parametrize("n", [2, 40, 4000])
def test_json_has_plain_numbers(n):
    found = json.loads(json.dumps(roc_summary(gaussian_scores(n)).to_json(), allow_nan=False))
    assert len(found["auc_interval"]) == 2
    assert len(found["operating_points"]) == 3
    assert found["confidence"] == 0.95


def test_perfect_separation():
    summary = roc_summary(CanaryScores(included=[2.0] * 30, excluded=[1.0] * 30))
    assert summary.auc == summary.balanced_accuracy == 1.0
    assert {point.true_positive_rate for point in summary.operating_points} == {1.0}
    assert summary.auc_interval.lower == pytest.approx(0.05 ** (1 / 30))


def test_equal_scores_tell_nothing():
    summary = roc_summary(CanaryScores(included=[1.0] * 100, excluded=[1.0] * 100))
    assert summary.auc == summary.balanced_accuracy == 0.5
    assert {point.true_positive_rate for point in summary.operating_points} == {0.0}


def test_refuses_bad_input():
    with pytest.raises(InputError, match="confidence must be in"):
        roc_summary(gaussian_scores(10), confidence=95)
    with pytest.raises(NotApplicableError, match="at least 1 included score, got 0"):
        roc_summary(CanaryScores(included=[], excluded=[1.0]))


@pytest.mark.parametrize(("n", "seconds"), [(2000, 0.3), (1_000_000, 5.0)])
def test_is_fast(n, seconds):
    scores = gaussian_scores(n)
    start = time.process_time()
    roc_summary(scores)
    assert time.process_time() - start < seconds


def test_does_without_scikit_learn():
    program = "import fl_audit.estimators.roc, sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
