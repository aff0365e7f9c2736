"""Epsilon* of two laws against dense grids between the trimming points, and in its limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import ExactCosine, Gaussian, epsilon_over_all_regions
from fl_audit.estimators.epsilon_star import epsilon_star_of_laws, epsilon_star_over_all_thresholds

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
    low = max(law.mean - tail * law.std for law in (members, others))
    high = min(law.mean + tail * law.std for law in (members, others))
    return np.linspace(low, high, 20_001) if low < high else np.empty(0)


@given(gaussians, gaussians, deltas)
@settings(derandomize=True, deadline=None, max_examples=50)
def test_supremum_over_moderate_rates_by_a_dense_grid(members, others, delta):
    found = epsilon_star_of_laws(members, others, delta).epsilon
    grid = trimmed_grid(members, others, delta)
    if len(grid):
        best = max(0.0, float(np.nanmax(log_four_ratios(members, others, delta, grid))))
        # The best threshold is often the grid's end, where log ratios are steepest: 0.005.
        assert best - 1e-6 <= found <= best + 0.005
    else:
        # The limit of laws that just have such a threshold.
        assert 0 <= found <= math.log1p(-2 * delta) - math.log(delta) + 1e-12


@given(gaussians, gaussians, deltas)
@settings(derandomize=True, deadline=None, max_examples=20)
def test_symmetric_and_ordered(members, others, delta):
    found = epsilon_star_of_laws(members, others, delta).epsilon
    assert epsilon_star_of_laws(others, members, delta).epsilon == found
    turned = epsilon_star_of_laws(members.reflected(), others.reflected(), delta).epsilon
    assert turned == pytest.approx(found, rel=1e-8, abs=1e-9)
    everywhere = epsilon_star_over_all_thresholds(members, others, delta).epsilon
    assert found <= everywhere * (1 + 1e-9) + 1e-12
    assert epsilon_star_of_laws(members, others, delta / 2).epsilon >= found - 1e-9
    assert found <= max(0.0, math.log(max(1 - 2 * delta, 1e-300)) - math.log(delta)) + 1e-9


@pytest.mark.parametrize("delta", [1e-300, 1e-15, 1e-9, 1e-5, 0.01])
@pytest.mark.parametrize("shift", [0.1, 1.0, 4.0])
def test_equal_deviations_over_all_thresholds_is_the_gaussian_mechanism(shift, delta):
    # Thresholds are the best regions there: Balle & Wang (2018), in code of its own.
    for members in (Gaussian(shift, 1), Gaussian(-shift, 1)):
        found = epsilon_star_over_all_thresholds(members, STANDARD, delta).epsilon
        expected = epsilon_over_all_regions(STANDARD, members, delta)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-15, 1e-5])
def test_equal_deviations_trimmed_is_decided_where_a_rate_is_delta(delta):
    # By hand: the ratio grows with the threshold until FPR = delta.
    x = stats.norm.isf(delta)
    expected = math.log(stats.norm.sf(x - 1) - delta) - math.log(delta)
    found = epsilon_star_of_laws(Gaussian(1, 1), STANDARD, delta)
    assert found.epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("members", "others", "ratio"),
    [
        (Gaussian(1.0, 1.2), STANDARD, "(TPR - delta) / FPR"),
        (Gaussian(1.0, 0.8), STANDARD, "(TNR - delta) / FNR"),
        (Gaussian(-1.0, 1.2), STANDARD, "(FNR - delta) / TNR"),
        (Gaussian(-1.0, 0.8), STANDARD, "(FPR - delta) / TPR"),
    ],
)
def test_each_ratio_can_win_and_is_attained_at_the_threshold(members, others, ratio):
    for function in (epsilon_star_of_laws, epsilon_star_over_all_thresholds):
        found = function(members, others, 1e-4)
        values = log_four_ratios(members, others, 1e-4, np.array([found.threshold]))[:, 0]
        names = [
            "(TPR - delta) / FPR",
            "(TNR - delta) / FNR",
            "(FNR - delta) / TNR",
            "(FPR - delta) / TPR",
        ]
        assert found.ratio == ratio
        assert values[names.index(ratio)] == pytest.approx(found.epsilon, rel=1e-6)


def test_narrow_laws_approach_the_point():
    for mean in (0.0, 0.7, -2.0):
        point = epsilon_star_of_laws(Gaussian(mean, 0.0), STANDARD, 1e-3).epsilon
        narrow = epsilon_star_of_laws(Gaussian(mean, 1e-7), STANDARD, 1e-3).epsilon
        # By hand: FNR or TPR is delta where the other law has all of one side.
        side = max(stats.norm.cdf(mean), stats.norm.sf(mean))
        assert point == pytest.approx(math.log((side - 1e-3) / 1e-3), rel=1e-9)
        assert narrow == pytest.approx(point, abs=1e-5)


def test_laws_far_apart_give_all_that_trimming_leaves():
    for shift in (2 * stats.norm.isf(1e-5), 12.0, 1e6):
        found = epsilon_star_of_laws(Gaussian(shift, 1), STANDARD, 1e-5).epsilon
        assert found == pytest.approx(math.log((1 - 2e-5) / 1e-5), rel=1e-9)


@pytest.mark.parametrize("delta", [1 / 3 + 1e-12, 0.4, 0.5, 0.7, 1 - 1e-12])
def test_nothing_is_left_from_a_third_on(delta):
    assert epsilon_star_of_laws(Gaussian(50.0, 1.0), STANDARD, delta).epsilon == 0
    assert epsilon_star_of_laws(Gaussian(50.0, 0.0), STANDARD, delta).epsilon == 0


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
    for function in (epsilon_star_of_laws, epsilon_star_over_all_thresholds):
        assert function(members, STANDARD, 0.0).epsilon == expected


def test_takes_any_law():
    # The cosine in dimension 3 is uniform on [-1, 1]: by hand, where FPR = 0.01, at 0.2326.
    members, others = ExactCosine(3), Gaussian(0.0, 0.1)
    found = epsilon_star_of_laws(members, others, 0.01)
    tpr = (1 - 0.1 * stats.norm.isf(0.01)) / 2
    assert found.epsilon == pytest.approx(math.log((tpr - 0.01) / 0.01), rel=1e-8)


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_refuses_delta_out_of_range(delta):
    for function in (epsilon_star_of_laws, epsilon_star_over_all_thresholds):
        with pytest.raises(InputError, match="delta must be in"):
            function(STANDARD, STANDARD, delta)
