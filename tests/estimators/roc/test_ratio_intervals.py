"""The Katz bound against R's asbio and by its exact law."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.counts.confusion import ConfusionCounts
from fl_audit.estimators.roc import katz_log_bound
from fl_audit.estimators.setting import NotApplicableError


@pytest.mark.parametrize(
    ("tp", "fn", "fp", "tn", "ratio"),
    [
        (473, 511, 755, 950, 1.01166194),
        (2, 697, 213, 313, 0.00220470),
        (1000, 10, 10, 10000, 589.27335593),
        (473, 0, 755, 950, 2.15959024),
        (2, 697, 213, 0, 0.00089568),
        (1000, 0, 10, 0, 0.93375356),
    ],
)
def test_matches_r(tp, fn, fp, tn, ratio):
    """Lower ends at 95 % by ci.prat of R's asbio, as tensorflow-privacy's tests print them."""
    counts = ConfusionCounts(fn, tp, fp, tn)
    found = katz_log_bound(counts, "included", 0.95).epsilon
    assert math.exp(found) == pytest.approx(max(1.0, ratio), abs=1e-8)


def test_guess_excluded_exchanges_the_classes():
    counts = ConfusionCounts(5, 95, 40, 60)
    mirrored = ConfusionCounts(40, 60, 5, 95)
    excluded = katz_log_bound(counts, "excluded", 0.9)
    included = katz_log_bound(mirrored, "included", 0.9)
    assert excluded.epsilon == included.epsilon > 0
    assert excluded.log_ratio == included.log_ratio == pytest.approx(math.log(0.6 / 0.05))


def test_one_half_is_no_margin():
    bound = katz_log_bound(ConfusionCounts(50, 50, 10, 90), "included", 0.5)
    assert bound.epsilon == pytest.approx(bound.log_ratio)
    assert bound.log_ratio == pytest.approx(math.log(5))


def test_falls_with_confidence():
    counts = ConfusionCounts(50, 50, 10, 90)
    epsilons = [katz_log_bound(counts, "included", c).epsilon for c in (0.5, 0.9, 0.999, 1 - 1e-9)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] == 0


def test_no_right_guess_proves_nothing():
    bound = katz_log_bound(ConfusionCounts(10, 0, 3, 7), "included", 0.95)
    assert (bound.epsilon, bound.log_ratio) == (0.0, -math.inf)
    assert json.loads(json.dumps(bound.to_json()))["log_ratio"] == "-inf"


def test_refuses_counts_without_an_error():
    with pytest.raises(NotApplicableError, match="at least 1 false positive, got 0"):
        katz_log_bound(ConfusionCounts(1, 9, 0, 10), "included", 0.95)
    with pytest.raises(NotApplicableError, match="at least 1 false negative, got 0"):
        katz_log_bound(ConfusionCounts(0, 10, 1, 9), "excluded", 0.95)


@pytest.mark.parametrize("confidence", [0.0, 0.4, 1.0, 95])
def test_refuses_a_confidence_out_of_range(confidence):
    with pytest.raises(InputError, match="confidence"):
        katz_log_bound(ConfusionCounts(1, 9, 1, 9), "included", confidence)


@pytest.mark.parametrize(
    ("audit", "failing", "defined"),
    [
        ((100, 10_000, 0.002, 0.001), 0.072, 1.0),
        ((100, 10_000, 0.05, 0.01), 0.061, 1.0),
        ((100, 100, 0.5, 0.01), 0.0, 0.634),
    ],
)
def test_fails_as_often_as_documented(audit, failing, defined):
    """By the binomial laws of both counts, given that there is a bound."""
    members, others, tpr, fpr = audit
    likely = [
        [k for k in range(n + 1) if stats.binom.pmf(k, n, rate) > 1e-7]
        for n, rate in ((members, tpr), (others, fpr))
    ]
    fails = total = 0.0
    for right in likely[0]:
        for wrong in likely[1]:
            if wrong == 0:
                continue
            chance = stats.binom.pmf(right, members, tpr) * stats.binom.pmf(wrong, others, fpr)
            counts = ConfusionCounts(members - right, right, wrong, others - wrong)
            epsilon = katz_log_bound(counts, "included", 0.95).epsilon
            total += chance
            fails += chance * (epsilon > np.log(tpr / fpr))
    assert fails / total == pytest.approx(failing, abs=6e-4)
    assert total == pytest.approx(defined, abs=6e-4)
