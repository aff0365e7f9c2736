"""Epsilon* of samples against fractions and the paper's 2 million points, and in its limits."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_audit.errors import InputError
from fl_audit.estimators import AuditSetting, CanaryScores, NotApplicableError
from fl_audit.estimators.epsilon_star import empirical_epsilon_star, epsilon_star_empirical

few_losses = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def setting(members, others, delta=1e-5) -> AuditSetting:
    scores = CanaryScores(-np.asarray(members, float), -np.asarray(others, float))
    return AuditSetting(scores, delta, 0.95, None, "empirical")


def by_fractions(members, others, delta: Fraction) -> Fraction:
    """Equation 7 with exact rates; samples so small that only rates of 0 and 1 are trimmed."""
    best = Fraction(1)
    for tau in {*members, *others}:
        tpr = Fraction(sum(x <= tau for x in members), len(members))
        fpr = Fraction(sum(x <= tau for x in others), len(others))
        fnr, tnr = 1 - tpr, 1 - fpr
        if 0 < tpr < 1 and 0 < fpr < 1:
            pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
            best = max(best, *((p - delta) / q for p, q in pairs))
    return best


@given(few_losses, few_losses, st.sampled_from([0, 1, 10, 300, 900]))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_equation_7_by_fractions(members, others, thousandths):
    delta = Fraction(thousandths, 1000)
    kept = [
        tau
        for tau in {*members, *others}
        if min(members) <= tau < max(members) and min(others) <= tau < max(others)
    ]
    found = empirical_epsilon_star(members, others, float(delta)).epsilon
    if kept:
        expected = by_fractions(members, others, delta)
        assert found == pytest.approx(math.log(expected), rel=1e-12, abs=1e-12)
    else:
        assert 0 <= found < math.log(999)


@given(few_losses, few_losses, st.floats(0, 0.999))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_exchanging_or_negating_changes_nothing(members, others, delta):
    found = empirical_epsilon_star(members, others, delta).epsilon
    negated = [-x for x in members], [-x for x in others]
    assert empirical_epsilon_star(others, members, delta).epsilon == found
    assert empirical_epsilon_star(*negated, delta).epsilon == pytest.approx(found, abs=1e-12)
    warped = np.exp(members), np.exp(others)
    assert empirical_epsilon_star(*warped, delta).epsilon == found


def literal(members: np.ndarray, others: np.ndarray, delta: float) -> float:
    """Appendix B, 8.1: empirical CDFs at 1 million quantiles of either sample."""
    grid = np.linspace(0, 1, 1_000_000)
    tau = np.concatenate([np.quantile(members, grid), np.quantile(others, grid)])
    tpr = np.searchsorted(np.sort(members), tau, side="right") / len(members)
    fpr = np.searchsorted(np.sort(others), tau, side="right") / len(others)
    kept = (np.minimum(fpr, tpr) > 0.001) & (np.maximum(fpr, tpr) < 0.999)
    tpr, fpr = tpr[kept], fpr[kept]
    fnr, tnr = 1 - tpr, 1 - fpr
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    return math.log(max(1.0, *(float(np.max((p - delta) / q)) for p, q in pairs)))


@pytest.mark.parametrize("d", [0, 3])
def test_all_observed_thresholds_are_the_papers_two_million(d):
    rng = np.random.default_rng(d)
    members, others = rng.gamma(2, 5, 2000), rng.gamma(2 + d, 5, 2000)
    found = empirical_epsilon_star(members, others, 1e-5).epsilon
    assert found == pytest.approx(literal(members, others, 1e-5), rel=1e-9)


def test_the_reported_threshold_attains_it():
    rng = np.random.default_rng(4)
    members, others = rng.gamma(2, 5, 3000), rng.gamma(3, 5, 2000)
    found = empirical_epsilon_star(members, others, 1e-3)
    tpr, fpr = np.mean(members <= found.threshold), np.mean(others <= found.threshold)
    value = {
        "(TPR - delta) / FPR": (tpr - 1e-3) / fpr,
        "(TNR - delta) / FNR": (1 - fpr - 1e-3) / (1 - tpr),
        "(FNR - delta) / TNR": (1 - tpr - 1e-3) / (1 - fpr),
        "(FPR - delta) / TPR": (fpr - 1e-3) / tpr,
    }[found.ratio]
    assert math.log(value) == pytest.approx(found.epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("members", "others", "expected"),
    [
        ([1.0] * 5, [1.0] * 7, 0.0),
        ([1.0], [2.0], math.log((0.999 - 1e-5) / 0.001)),  # all that trimming leaves
        ([2.0], [1.0], math.log((0.999 - 1e-5) / 0.001)),
        (range(2000), range(5000, 9000), math.log((0.999 - 1e-5) / 0.001)),
        ([1.0] * 4, [0.0, 2.0], math.log((0.5 - 1e-5) / 0.001)),  # a point within the others
        ([0.0, 1.0], [0.0, 1.0], 0.0),
    ],
)
def test_limits(members, others, expected):
    found = empirical_epsilon_star(list(members), list(others), 1e-5)
    assert found.epsilon == pytest.approx(expected, rel=1e-9)
    assert (found.threshold is None) == (found.ratio is None) == (expected == 0)


def test_rates_of_a_thousandth_are_left_out():
    # One of 1,000 non-members among the members: FPR 0.001 does not count, 0.002 does.
    members = np.arange(1000.0)
    others = np.concatenate([[-1.0], np.arange(499.5, 1498.5)])
    # By hand: FPR 0.002 where TPR is 0.5; the mirrored ratio has TNR 0.499 at FNR 0.002.
    expected = math.log(0.5 / 0.002)
    assert empirical_epsilon_star(members, others, 0.0).epsilon == pytest.approx(expected, abs=0.01)


def test_decreases_with_delta():
    rng = np.random.default_rng(2)
    members, others = rng.normal(0, 1, 500), rng.normal(1, 1, 400)
    deltas = [0.0, 1e-15, 1e-5, 0.01, 0.1, 0.5, 0.9, 0.999999]
    epsilons = [empirical_epsilon_star(members, others, delta).epsilon for delta in deltas]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] > 2
    assert epsilons[-1] == 0


def test_the_estimate_takes_scores_for_negated_losses():
    members, others = [1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 5.0, 6.0]
    made = epsilon_star_empirical(setting(members, others, 0.0))
    assert made.epsilon == pytest.approx(math.log(2))
    assert (made.kind, made.method) == ("estimate", "epsilon_star_empirical")
    assert (made.lower, made.upper, made.valid_for) == (None, None, None)
    assert made.details["threshold"] == -2.0
    assert "neither a lower nor an upper bound" in made.guarantee
    json.dumps(made.to_json(), allow_nan=False)


@pytest.mark.parametrize(("members", "others"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], [])])
def test_needs_two_of_each(members, others):
    with pytest.raises(NotApplicableError, match="needs at least 2"):
        epsilon_star_empirical(setting(members, others))


@pytest.mark.parametrize(
    ("members", "others", "delta", "message"),
    [
        ([], [1.0], 0.1, "member_losses must be"),
        ([1.0], [math.nan], 0.1, "non_member_losses must be"),
        ([1.0], [[1.0]], 0.1, "non_member_losses must be"),
        ([1.0], [2.0], 1.0, "delta must be in"),
    ],
)
def test_refuses_bad_input(members, others, delta, message):
    with pytest.raises(InputError, match=message):
        empirical_epsilon_star(members, others, delta)
