"""Intervals from counts: the paper's printed numbers, and brute force over the rectangle."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.counts import (
    ConfusionCounts,
    epsilon_of_rates,
    intervals,
)
from fl_audit.estimators.privacy_region import log_ratio
from fl_audit.estimators.threshold.error_rates import clopper_pearson_upper, jeffreys_upper
from tests.seeds_tried import examples

steady = examples(25)
numbers = st.one_of(st.integers(0, 20), st.sampled_from([100, 5000, 10**6]))
tables = (
    st.tuples(numbers, numbers, numbers, numbers)
    .filter(lambda t: t[0] + t[1] > 0 and t[2] + t[3] > 0)
    .map(lambda t: ConfusionCounts(*t))
)
deltas = st.sampled_from([0.0, 1e-15, 1e-5, 0.05, 0.6])
METHODS = ("clopper_pearson", "jeffreys", "bayes")

WORKED = ConfusionCounts(
    false_negatives=35, true_positives=65, false_positives=25, true_negatives=75
)
FOOTNOTE = ConfusionCounts(
    false_negatives=10, true_positives=90, false_positives=0, true_negatives=100
)


def clopper_pearson(k, n, alpha):
    return (
        0.0 if k == 0 else stats.beta.ppf(alpha / 2, k, n - k + 1),
        1.0 if k == n else stats.beta.ppf(1 - alpha / 2, k + 1, n - k),
    )


def jeffreys(k, n, alpha):
    low, high = stats.beta(k + 0.5, n - k + 0.5).ppf([alpha / 2, 1 - alpha / 2])
    return 0.0 if k == 0 else low, 1.0 if k == n else high


def rectangle(counts, confidence, of_rate):
    """The two rates' intervals, each at 1 - alpha / 2, from scipy's quantiles."""
    alpha = (1 - confidence) / 2
    return (
        of_rate(counts.false_negatives, counts.members, alpha),
        of_rate(counts.false_positives, counts.non_members, alpha),
    )


def brute_force(counts, delta, confidence, of_rate):
    """The extremes of epsilon over 101 x 101 points of the rectangle, its corners included."""
    fnr, fpr = (np.linspace(*ends, 101) for ends in rectangle(counts, confidence, of_rate))
    values = epsilon_of_rates(fnr[:, None], fpr, delta)
    return values.min(), values.max()


class TestPrintedNumbers:
    def test_worked_example(self):
        found = intervals(WORKED, delta=0.05, confidence=0.95)
        rounded = {k: [round(v, 3) for v in ends] for k, ends in found.to_json().items()}
        # Printed for bayes: 1.268, from a root search with a tolerance of 0.01.
        assert rounded == {
            "clopper_pearson": [0.295, 1.489],
            "jeffreys": [0.321, 1.456],
            "bayes": [0.522, 1.267],
        }
        assert found.bayes.upper == pytest.approx(1.2666, abs=5e-5)

    def test_perfect_attack_of_section_3_1(self):
        perfect = ConfusionCounts(0, 1000, 0, 1000)
        found = intervals(perfect, delta=1e-5, confidence=0.9)
        assert found.clopper_pearson.lower == pytest.approx(5.6, abs=0.005)
        # One-sided, so that all of alpha / 2 is in the upper tail of each rate.
        one_sided = [
            float(log_ratio(rate.success, rate.error, 1e-5)[0])
            for bound in (clopper_pearson_upper, jeffreys_upper)
            for rate in [bound(np.array([0]), 1000, 0.95)]
        ]
        assert one_sided == pytest.approx([5.81, 6.25], abs=0.005)

    def test_footnote_1(self):
        # The true minimum is at (FNR+, FPR+). The footnote's 1.736 is the value "at (FNR+, 0)"
        # without the term whose denominator is 0; no finite epsilon allows those rates.
        found = intervals(FOOTNOTE, delta=1e-5, confidence=0.9)
        assert found.clopper_pearson.lower == pytest.approx(3.124, abs=5e-4)
        assert found.clopper_pearson.upper == math.inf

    def test_samples_of_figure_4(self):
        # FPR = FNR = 40 %, 90 %; half of the samples are members. The delta is not printed; 1e-5
        # is Table 2's. Within 0.15 means at most 0.3 wide.
        def width(method, samples):
            wrong = round(0.4 * samples / 2)
            right = samples // 2 - wrong
            found = intervals(ConfusionCounts(wrong, right, wrong, right), 1e-5, 0.9)
            ends = getattr(found, method)
            return ends.upper - ends.lower

        # Printed: "approximately 1500", "marginally" fewer, "just over 500".
        for method, needed in (("clopper_pearson", 1478), ("jeffreys", 1424), ("bayes", 544)):
            assert width(method, needed) <= 0.3 < width(method, needed - 2)

    def test_bayes_is_the_narrowest_as_in_figure_5(self):
        # 1000 samples; the text gives neither delta nor the rates of the figure.
        for fn, fp in ((1, 2), (1, 300), (100, 50), (200, 200)):
            found = intervals(ConfusionCounts(fn, 500 - fn, fp, 500 - fp), 1e-5, 0.9)
            ends = (getattr(found, method) for method in METHODS)
            *others, bayes = (interval.upper - interval.lower for interval in ends)
            assert bayes < 0.85 * min(others)


@steady
@given(counts=tables, delta=deltas, confidence=st.sampled_from([0.5, 0.9, 0.95]))
def test_rectangle_against_brute_force(counts, delta, confidence):
    found = intervals(counts, delta, confidence)
    for of_rate in (clopper_pearson, jeffreys):
        interval = getattr(found, of_rate.__name__)
        lower, upper = brute_force(counts, delta, confidence, of_rate)
        close = {"rel": 1e-6, "abs": 1e-6}
        assert interval.upper == pytest.approx(upper, **close)
        assert interval.lower <= lower + 1e-6 * max(1.0, min(lower, 1e300))
        if interval.lower > 0:
            assert interval.lower == pytest.approx(lower, **close)
        else:
            # The zero lies on a band of the rectangle that a grid may miss by half a step.
            fnr, fpr = rectangle(counts, confidence, of_rate)
            assert fnr[0] + fpr[0] <= 1 + delta + 1e-9
            assert fnr[1] + fpr[1] >= 1 - delta - 1e-9


@steady
@given(counts=tables, delta=deltas)
def test_symmetries(counts, delta):
    fn, tp = counts.false_negatives, counts.true_positives
    fp, tn = counts.false_positives, counts.true_negatives
    here = intervals(counts, delta, 0.9)
    assert set(json.loads(json.dumps(here.to_json(), allow_nan=False))) == set(METHODS)
    assert here.bayes.upper < math.inf
    for other in (ConfusionCounts(fp, tn, fn, tp), ConfusionCounts(tp, fn, tn, fp)):
        there = intervals(other, delta, 0.9)
        for method in METHODS:
            a, b = getattr(here, method), getattr(there, method)
            assert 0 <= a.lower <= a.upper
            assert b.lower == pytest.approx(a.lower, rel=1e-6, abs=1e-6)
            assert b.upper == pytest.approx(a.upper, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("delta", "confidence"), [(1.0, 0.9), (-0.1, 0.9), (0.0, 1.0), (0.0, 95)])
def test_arguments_out_of_range_are_refused(delta, confidence):
    with pytest.raises(InputError, match="must be in"):
        intervals(WORKED, delta, confidence)


def test_numpy_integers_are_integers():
    counts = ConfusionCounts(*np.array([1, 2, 3, 4]))
    assert counts == ConfusionCounts(1, 2, 3, 4)
    assert (counts.members, counts.non_members) == (3, 7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 2, 3, 4), "false_negatives must be at least 0, got -1"),
        ((1, 2.5, 3, 4), "true_positives must be an integer, got 2.5"),
        ((1, 2, None, 4), "false_positives must be an integer, got None"),
        ((0, 0, 3, 4), "false_negatives \\+ true_positives must be at least 1, got 0"),
        ((1, 2, 0, 0), "false_positives \\+ true_negatives must be at least 1, got 0"),
    ],
)
def test_bad_counts_are_refused_in_one_line(values, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        ConfusionCounts(*values)
