"""Parametric Epsilon* against the paper's procedure written out, and in its limits."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fl_audit.estimators import AuditSetting, CanaryScores, NotApplicableError
from fl_audit.estimators.epsilon_star import epsilon_star, epsilon_star_empirical


def setting(members, others, delta=1e-5) -> AuditSetting:
    scores = CanaryScores(-np.asarray(members, float), -np.asarray(others, float))
    return AuditSetting(scores, delta, 0.95, None, "empirical")


def literal(members: np.ndarray, others: np.ndarray, delta: float) -> float:
    """Appendix B, 8.1, step by step, at 1 million equally spaced quantiles of either fit."""
    low = min(members.min(), others.min())
    high = max(members.max(), others.max())
    fits = []
    for losses in (members, others):
        p = np.exp(-((losses - low) / (high - low) + 1))
        phi = np.log(p) - np.log(1 - p)
        fits.append(stats.norm(phi.mean(), phi.std()))
    grid = np.arange(1, 1_000_000) / 1_000_000
    tau = np.concatenate([fit.ppf(grid) for fit in fits])
    tpr, fpr = (fit.cdf(tau) for fit in fits)
    fnr, tnr = (fit.sf(tau) for fit in fits)
    kept = (np.minimum(fpr, fnr) > delta) & (np.maximum(fpr, fnr) < 1 - delta)
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    return math.log(max(1.0, *(float(np.max((p[kept] - delta) / q[kept])) for p, q in pairs)))


@pytest.mark.parametrize(("d", "n"), [(0, 1000), (3, 300)])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_the_papers_procedure(d, n, delta):
    rng = np.random.default_rng(d)
    members, others = rng.gamma(2, 5, n), rng.gamma(2 + d, 5, n)
    made = epsilon_star(setting(members, others, delta))
    # Their points lie up to 1e-6 in a rate, hence 1e-6 / delta in a ratio, beside the best.
    paper = literal(members, others, delta)
    assert paper - 1e-9 <= made.epsilon <= paper + 2e-6 / delta


def test_their_points_miss_rates_below_a_millionth():
    rng = np.random.default_rng(1)
    members, others = rng.gamma(2, 5, 1000), rng.gamma(3, 5, 1000)
    made = epsilon_star(setting(members, others, 1e-12))
    assert made.epsilon > literal(members, others, 1e-12) + 0.3


def test_losses_that_pile_up_at_the_smallest_are_no_gaussian():
    losses = np.linspace(0.1, 3, 96)
    piled = np.concatenate([np.zeros(4), losses])
    assert "They are not" not in epsilon_star(setting(piled, losses)).assumes
    piled = np.concatenate([np.zeros(24), losses])
    assert "They are not: 11 % are equal" in epsilon_star(setting(piled, losses)).assumes
    assert "They are not" not in epsilon_star(setting(np.ones(9), np.ones(9))).assumes


@given(st.floats(-50, 50), st.floats(0.01, 100))
@settings(derandomize=True, deadline=None, max_examples=10)
def test_the_unit_of_the_loss_does_not_matter(shift, scale):
    rng = np.random.default_rng(2)
    members, others = rng.gamma(2, 5, 100), rng.gamma(3, 5, 100)
    moved = epsilon_star(setting(shift + scale * members, shift + scale * others))
    straight = epsilon_star(setting(members, others))
    assert moved.epsilon == pytest.approx(straight.epsilon, rel=1e-6)


def test_exchanging_the_samples_changes_nothing():
    rng = np.random.default_rng(3)
    members, others = rng.gamma(2, 5, 100), rng.gamma(3, 5, 100)
    straight = epsilon_star(setting(members, others)).epsilon
    assert epsilon_star(setting(others, members)).epsilon == straight


def test_the_threshold_is_one_on_the_score():
    rng = np.random.default_rng(4)
    members, others = rng.normal(5, 1, 20_000), rng.normal(7, 1, 20_000)
    made = epsilon_star(setting(members, others, 0.02))
    # Where FPR or FNR of the fits is 0.02: so is that of the samples, but for their misfit.
    fpr = np.mean(-others >= made.details["threshold"])
    fnr = np.mean(-members < made.details["threshold"])
    assert min(fpr, fnr) == pytest.approx(0.02, abs=0.005)


def test_a_single_outlying_loss_decides():
    # Losses of one law: the truth is 0. The largest of them, put at 1,000, squeezes all others
    # into one point and spreads its own sample's Gaussian: nearly all that trimming leaves, 11.5.
    rng = np.random.default_rng(0)
    members, others = rng.gamma(2, 5, 1000), rng.gamma(2, 5, 1000)
    spoiled = np.where(others == others.max(), 1000.0, others)
    assert epsilon_star(setting(members, others)).epsilon < 3
    assert epsilon_star(setting(members, spoiled)).epsilon > 9
    # The empirical distributions do not move.
    before, after = (epsilon_star_empirical(setting(members, x)) for x in (others, spoiled))
    assert after.epsilon == before.epsilon


@pytest.mark.parametrize(
    ("members", "others", "delta", "expected"),
    [
        ([1, 1], [1, 1], 1e-5, 0.0),
        ([1, 1], [1, 1], 0.0, 0.0),
        ([1, 2], [2, 1], 0.0, 0.0),
        ([1, 2], [3, 5], 0.0, math.inf),
        ([1, 1], [2, 2], 1e-5, math.log((1 - 2e-5) / 1e-5)),
        ([1, 1], [2, 2], 1e-15, math.log(1e15)),
        ([1, 1], [2, 2], 0.4, 0.0),
        ([-1.7e308, 1.7e308], [-1.7e308, 1.7e308], 1e-5, 0.0),
    ],
)
def test_limits(members, others, delta, expected):
    made = epsilon_star(setting(members, others, delta))
    assert made.epsilon == pytest.approx(expected, rel=1e-9)
    json.dumps(made.to_json(), allow_nan=False)


def test_an_infinitely_far_outlier_is_the_limit_of_far_ones():
    rng = np.random.default_rng(0)
    members, others = rng.gamma(2, 5, 1000), rng.gamma(2, 5, 999)
    far, farther = (
        epsilon_star(setting(members, np.append(others, loss))).epsilon for loss in (1e12, 1e300)
    )
    assert farther == pytest.approx(far, rel=1e-6)
    # Members all at one point, which the others' Gaussian, N(-1 / n, 1 / n) in units of the
    # outlier, divides at n^-1/2 deviations.
    expected = math.log((stats.norm.cdf(1000**-0.5) - 1e-5) / 1e-5)
    assert farther == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("members", "others"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], [])])
def test_needs_two_of_each(members, others):
    with pytest.raises(NotApplicableError, match="needs at least 2"):
        epsilon_star(setting(members, others))


def test_says_what_it_is():
    made = epsilon_star(setting([1, 2, 3], [2, 3, 5]))
    assert (made.kind, made.method, made.lower, made.upper) == (
        "estimate",
        "epsilon_star",
        None,
        None,
    )
    assert made.details["epsilon_all_thresholds"] >= made.epsilon
    assert made.details["largest_possible"] == pytest.approx(math.log((1 - 2e-5) / 1e-5))
    assert "neither a lower nor an upper bound" in made.guarantee
