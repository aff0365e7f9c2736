"""Trade-off curves: closed forms, brute force over orders, what is between points."""

import math

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.optimal_tests import gaussian_tests
from fl_audit.estimators.trade_off import (
    GaussianTradeOff,
    PointTradeOff,
    TabulatedTradeOff,
    epsilon_of_curve,
    lower_hull,
    trade_off_of_profile,
    trade_off_of_tests,
    zcdp_trade_off,
)
from tests.gaussian_profile import delta_of_mu

RATES = np.array([1e-30, 1e-9, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.8, 0.99, 0.9999])


def power(curve, rates=RATES):
    return np.exp(curve.log_power(np.log(rates)))


def least(curve, rates=RATES):
    return np.array([curve.least(rate) for rate in rates])


EPSILONS = np.linspace(0, 40, 2000)

GAUSSIANS = [
    lambda mu: trade_off_of_tests(gaussian_tests(mu)),
    lambda mu: trade_off_of_profile(EPSILONS, [delta_of_mu(mu, epsilon) for epsilon in EPSILONS]),
]


@pytest.mark.parametrize("mu", [0.1, 3.3])
@pytest.mark.parametrize("tabulated", GAUSSIANS, ids=["tests", "profile"])
def test_a_table_of_a_gaussian_is_next_to_it_and_never_better(tabulated, mu):
    table, exact = tabulated(mu), GaussianTradeOff(mu)
    rates = RATES[1:]
    assert np.all(power(table, rates) >= power(exact, rates) * (1 - 1e-9))
    assert power(table, rates) == pytest.approx(power(exact, rates), rel=0.06)
    assert np.all(least(table, rates) <= least(exact, rates) * (1 + 1e-9))
    assert least(table, rates) == pytest.approx(least(exact, rates), rel=0.35, abs=1e-9)
    middle = np.array([0.01, 0.1, 0.5, 0.9, 0.99])
    assert least(table, middle) == pytest.approx(least(exact, middle), rel=0.04)


def brute_zcdp(rho, rate, orders):
    """1 - p of the largest p that all orders allow, by a search on a fine grid of p's log odds."""
    odds = np.linspace(special.logit(rate), 25, 20_001)
    p, q = (special.log_expit(odds), special.log_expit(-odds)), (np.log(rate), np.log1p(-rate))
    allowed = np.ones(len(odds), bool)
    for a in orders:
        for one, other in ((p, q), (q, p)):
            terms = (a * x + (1 - a) * y for x, y in zip(one, other, strict=True))
            allowed &= np.logaddexp(*terms) <= (a - 1) * rho * a
    return special.expit(-odds[allowed].max())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rho", [0.005, 0.5, 5.0])
@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.3, 0.9])
def test_zcdp_is_what_a_fine_search_over_orders_allows(rho, rate):
    found = -np.expm1(zcdp_trade_off(rho).log_power(math.log(rate)))
    brute = brute_zcdp(rho, rate, 1 + np.geomspace(1e-2, 60, 150))
    assert found <= brute * (1 + 1e-3)  # the grid of the search
    assert found >= 0.93 * brute
    assert 1 - found <= 1.06 * (1 - brute)


@pytest.mark.parametrize(("rho", "delta"), [(0.005, 1e-12), (0.5, 1e-3), (50.0, 1e-10)])
def test_the_epsilon_of_a_curve(rho, delta):
    mu = math.sqrt(2 * rho)
    exact = epsilon_of_mu(mu, delta)
    assert exact <= epsilon_of_curve(GaussianTradeOff(mu), delta) <= 1.07 * exact
    by_rho = epsilon_of_curve(zcdp_trade_off(rho), delta)
    # Bun & Steinke 2016, proposition 1.3.
    assert exact <= by_rho <= 1.01 * (rho + 2 * math.sqrt(rho * math.log(1 / delta)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (2.0, 1e-6), (8.0, 1e-3), (30.0, 0.1)])
@pytest.mark.parametrize(
    "curve_of",
    [PointTradeOff, lambda *point: trade_off_of_profile(*np.transpose([point, (0.0, 1.0)]))],
    ids=["point", "profile"],
)
def test_the_epsilon_of_a_point_at_its_delta_and_around_it(curve_of, epsilon, delta):
    curve = curve_of(epsilon, delta)
    assert epsilon <= epsilon_of_curve(curve, delta) <= epsilon + 0.11  # the width of a cell
    # At a larger delta the ratio is largest where both lines of the curve meet.
    rate = (1 - delta) / (1 + math.exp(epsilon))
    exact = math.log((1 - rate - 2 * delta) / rate)
    assert exact <= epsilon_of_curve(curve, 2 * delta) <= exact + 0.11
    assert epsilon_of_curve(curve, 0.99 * delta) == math.inf


def test_a_curve_that_rises_below_the_grid_has_no_smaller_bound():
    assert epsilon_of_curve(GaussianTradeOff(45), 1e-5) >= epsilon_of_mu(45, 1e-5)


def test_a_profile_of_the_laplace_mechanism_is_its_curve():
    # delta(epsilon) = 1 - e^((epsilon - 1) / 2) up to epsilon 1; Dong, Roth & Su 2022, section 2.
    epsilons = np.linspace(0, 1, 400)
    table = trade_off_of_profile(epsilons, -np.expm1((epsilons - 1) / 2))
    exact = stats.laplace.sf(stats.laplace.isf(RATES) - 1)
    assert np.all(power(table) >= exact * (1 - 1e-9))
    assert power(table)[1:] == pytest.approx(exact[1:], rel=0.08)


CURVES = [
    GaussianTradeOff(1.0),
    PointTradeOff(1.0, 1e-3),
    trade_off_of_tests(gaussian_tests(2.0)),
    zcdp_trade_off(0.3),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: type(curve).__name__)
def test_curves_rise_are_convex_read_backwards_and_agree_with_themselves(curve):
    rates = np.linspace(1e-6, 1 - 1e-6, 2001)
    forth, back = power(curve, rates), least(curve, rates)
    assert np.all(np.diff(forth) >= 0)
    assert np.all(forth >= rates * (1 - 1e-9))
    assert np.all(back <= rates * (1 + 1e-9))
    assert np.all(np.diff(back, 2) >= -1e-12)
    for rate in RATES[2:]:  # an event as improbable as can be has at most that power again
        assert power(curve, np.array([max(curve.least(rate), 1e-300)]))[0] <= rate * 1.1 + 1e-3


def test_the_hull_of_points_is_below_all_of_them_and_convex():
    rng = np.random.default_rng(3)
    x, y = rng.random(200), rng.random(200)
    corners, heights = lower_hull(x, y)
    assert np.all(np.interp(x, corners, heights) <= y + 1e-12)
    assert np.all(np.diff(np.diff(heights) / np.diff(corners)) > 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianTradeOff(-1.0),
        lambda: GaussianTradeOff(math.inf),
        lambda: PointTradeOff(1.0, 1.0),
        lambda: zcdp_trade_off(-0.1),
    ],
)
def test_numbers_out_of_range_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_below_its_points_a_table_allows_what_the_lowest_one_does():
    logs = np.log([1e-3, 0.1])
    table = TabulatedTradeOff(logs, np.log([0.01, 0.5]), logs, np.log([0.01, 0.5]))
    assert power(table, np.array([1e-9, 1e-3, 0.05, 0.2])) == pytest.approx([0.01, 0.01, 0.5, 1.0])
