"""Epsilon*: of two distributions, of parametric fits, and of samples."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import (
    AuditSetting,
    CanaryScores,
    Gaussian,
    epsilon_over_all_regions,
)
from fl_audit.estimators.epsilon_star import (
    LossTransform,
    empirical_epsilon_star,
    epsilon_star,
    epsilon_star_of_distributions,
    epsilon_star_over_all_thresholds,
)
from tests.seeds_tried import examples

# Epsilon* of two laws against dense grids between the trimming points, and in its limits.


STANDARD = Gaussian(0.0, 1.0)
gaussians = st.builds(
    Gaussian, st.floats(-6, 6), st.floats(-1, 1).map(lambda exponent: 10.0**exponent)
)
deltas = st.floats(-9, -0.5).map(lambda exponent: 10.0**exponent)


def log_four_ratios(members: Gaussian, others: Gaussian, delta: float, a: np.ndarray) -> np.ndarray:
    """[4, t] equation 7 with scipy.stats; the statistic at least a means member."""
    law1, law0 = stats.norm(members.mean, members.std), stats.norm(others.mean, others.std)
    pairs = (
        (law1.sf(a), law0.sf(a)),
        (law0.cdf(a), law1.cdf(a)),
        (law1.cdf(a), law0.cdf(a)),
        (law0.sf(a), law1.sf(a)),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.stack([np.maximum(p - delta, 0) / q for p, q in pairs]))


def trimmed_grid(members: Gaussian, others: Gaussian, delta: float) -> np.ndarray:
    """Thresholds from the first to the last with both rates in [delta, 1 - delta]."""
    tail = -stats.norm.ppf(delta)
    low = max(distribution.mean - tail * distribution.std for distribution in (members, others))
    high = min(distribution.mean + tail * distribution.std for distribution in (members, others))
    return np.linspace(low, high, 20_001) if low < high else np.empty(0)


@given(gaussians, gaussians, deltas)
@examples(50)
def test_supremum_over_moderate_rates_by_a_dense_grid(members, others, delta):
    found = epsilon_star_of_distributions(members, others, delta).epsilon
    grid = trimmed_grid(members, others, delta)
    if len(grid):
        best = max(0.0, float(np.nanmax(log_four_ratios(members, others, delta, grid))))
        # The best threshold is often the grid's end, where log ratios are steepest: 0.005.
        assert best - 1e-6 <= found <= best + 0.005
    else:
        # The limit of laws that just have such a threshold.
        assert 0 <= found <= math.log1p(-2 * delta) - math.log(delta) + 1e-12


@pytest.mark.parametrize("delta", [1e-300, 1e-5])
@pytest.mark.parametrize("shift", [0.1, 4.0])
def test_equal_deviations_over_all_thresholds_is_the_gaussian_mechanism(shift, delta):
    # Thresholds are the best regions there: Balle & Wang (2018), in code of its own.
    for members in (Gaussian(shift, 1), Gaussian(-shift, 1)):
        found = epsilon_star_over_all_thresholds(members, STANDARD, delta).epsilon
        expected = epsilon_over_all_regions(STANDARD, members, delta)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-9)


def test_equal_deviations_trimmed_is_decided_where_a_rate_is_delta():
    delta = 1e-15  # by hand: the ratio grows with the threshold until FPR = delta
    x = stats.norm.isf(delta)
    expected = math.log(stats.norm.sf(x - 1) - delta) - math.log(delta)
    found = epsilon_star_of_distributions(Gaussian(1, 1), STANDARD, delta)
    assert found.epsilon == pytest.approx(expected, rel=1e-9)


RATIOS = (
    "(TPR - delta) / FPR", "(TNR - delta) / FNR", "(FNR - delta) / TNR", "(FPR - delta) / TPR",
)  # fmt: skip


@pytest.mark.parametrize(
    ("mean", "std", "ratio"),
    zip([1.0, 1.0, -1.0, -1.0], [1.2, 0.8, 1.2, 0.8], RATIOS, strict=True),
)
def test_each_ratio_can_win_and_is_attained_at_the_threshold(mean, std, ratio):
    members = Gaussian(mean, std)
    for function in (epsilon_star_of_distributions, epsilon_star_over_all_thresholds):
        found = function(members, STANDARD, 1e-4)
        values = log_four_ratios(members, STANDARD, 1e-4, np.array([found.threshold]))[:, 0]
        assert found.ratio == ratio
        assert values[RATIOS.index(ratio)] == pytest.approx(found.epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (STANDARD, 0.0),
        (Gaussian(1e-9, 1.0), math.inf),
        (Gaussian(-1.0, 1.0), math.inf),
        (Gaussian(0.0, 0.5), math.inf),
        (Gaussian(0.0, 0.0), math.inf),
    ],
)
def test_without_delta_the_tails_decide(members, expected):
    for function in (epsilon_star_of_distributions, epsilon_star_over_all_thresholds):
        assert function(members, STANDARD, 0.0).epsilon == expected


# Parametric Epsilon* against the paper's procedure written out, and in its limits.


def setting(members, others, delta=1e-5) -> AuditSetting:
    scores = CanaryScores(-np.asarray(members, float), -np.asarray(others, float))
    return AuditSetting(scores, delta, 0.95)


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


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("d", "n"), [(0, 1000), (3, 300)])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_the_papers_procedure(d, n, delta):
    rng = np.random.default_rng(d)
    members, others = rng.gamma(2, 5, n), rng.gamma(2 + d, 5, n)
    made = epsilon_star(setting(members, others, delta))
    # Their points lie up to 1e-6 in a rate, hence 1e-6 / delta in a ratio, beside the best.
    paper = literal(members, others, delta)
    assert paper - 1e-9 <= made.epsilon <= paper + 2e-6 / delta


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


# Epsilon* of samples against fractions, and in its limits.


few_losses = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("zeros", "others", "share"),
    [(1, 7, None), (2, 18, 10), (2, 38, 5), (2, 39, None), (20, 0, None), (3, 1, 75)],
)
def test_many_losses_that_equal_the_smallest_are_told(zeros, others, share):
    losses = np.append(np.zeros(zeros), np.arange(others) + 1.0)
    assumes = epsilon_star(setting(losses[::2], losses[1::2])).assumes
    warning = f"tails. They are not: {share} % are equal to the smallest"
    assert (warning in assumes) if share else assumes.endswith("tails.")


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
@examples(150)
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


def test_the_reported_threshold_attains_it():
    rng = np.random.default_rng(4)
    members, others = rng.gamma(2, 5, 3000), rng.gamma(3, 5, 2000)
    found = empirical_epsilon_star(members, others, 1e-3)
    tpr, fpr = np.mean(members <= found.threshold), np.mean(others <= found.threshold)
    pairs = ((tpr, fpr), (1 - fpr, 1 - tpr), (1 - tpr, 1 - fpr), (fpr, tpr))
    p, q = pairs[RATIOS.index(found.ratio)]
    assert math.log((p - 1e-3) / q) == pytest.approx(found.epsilon, rel=1e-9)


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
def test_limits_empirical(members, others, expected):
    found = empirical_epsilon_star(list(members), list(others), 1e-5)
    assert found.epsilon == pytest.approx(expected, rel=1e-9)
    assert (found.threshold is None) == (found.ratio is None) == (expected == 0)


@pytest.mark.parametrize(
    ("made", "arguments", "message"),
    [
        (empirical_epsilon_star, ([], [1.0], 0.1), "member_losses must be"),
        (empirical_epsilon_star, ([1.0], [math.nan], 0.1), "non_member_losses must be"),
        (empirical_epsilon_star, ([1.0], [[1.0]], 0.1), "non_member_losses must be"),
        (empirical_epsilon_star, ([1.0], [2.0], 1.0), "delta must be in"),
        (LossTransform.from_losses, ([1.0], [math.inf]), "non_member_losses must be"),
    ],
)
def test_refuses_bad_input(made, arguments, message):
    with pytest.raises(InputError, match=message):
        made(*arguments)
