"""The price of several runs on the same data, against closed forms and the published theorem."""

import math

import numpy as np
import pytest

from fl_audit.accounting import FixedRounds, PoissonSampling, UnknownRounds
from fl_audit.accounting.renyi import RDP_ORDERS
from fl_audit.accounting.selection import price_of_selection
from tests.accounting.releases import release
from tests.gaussian_profile import epsilon_of_mu

DELTA = 1e-5


def theorem_2(rho, mean, delta):
    """Papernot & Steinke 2022, theorem 2 with eta = 1, for Gaussian runs; epsilon by the orders."""
    orders = np.array(RDP_ORDERS)
    one = rho * orders
    constant = 2 * np.min((1 - 1 / orders) * one + math.log(mean) / orders)
    repeated = one + constant + math.log(mean) / (orders - 1)
    # Canonne, Kamath & Steinke 2020, proposition 12.
    epsilons = repeated + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return max(0.0, float(np.min(epsilons)))


@pytest.mark.parametrize("noise", [0.5, 4.0])
@pytest.mark.parametrize("number", [1, 12])
def test_runs_of_one_release_each_compose_to_one_release(noise, number):
    price = price_of_selection([release(noise, FixedRounds(3))] * number, DELTA)
    mu = math.sqrt(3 * number) / noise
    assert price.composed == pytest.approx(epsilon_of_mu(mu, DELTA), rel=1e-6)
    assert price.if_drawn == pytest.approx(theorem_2(3 / (2 * noise**2), number, DELTA), rel=1e-6)
    if number > 1:
        assert price.if_drawn < price.composed
    assert (price.num_runs, price.unknown) == (number, None)


def test_runs_that_differ_compose_by_their_squares_and_count_as_the_worst():
    runs = [release(noise, FixedRounds(1)) for noise in (1.0, 2.0, 4.0)]
    price = price_of_selection(runs, DELTA)
    mu = math.sqrt(1 + 1 / 4 + 1 / 16)
    assert price.composed == pytest.approx(epsilon_of_mu(mu, DELTA), rel=1e-6)
    assert price.if_drawn == pytest.approx(theorem_2(1 / 2, 3, DELTA), rel=1e-6)


def test_sampled_runs_compose_as_more_rounds():
    one = release(1.0, PoissonSampling(0.01), rounds=100)
    both = release(1.0, PoissonSampling(0.01), rounds=200)
    price = price_of_selection([one, one], DELTA)
    assert price.composed == pytest.approx(price_of_selection([both], DELTA).composed, rel=1e-9)
    assert price.if_drawn is not None
    mixed = price_of_selection([one, release(1.0, FixedRounds(1))], DELTA)
    assert mixed.composed > price_of_selection([one], DELTA).composed
    assert mixed.if_drawn is None


def test_without_noise_in_one_run_nothing_is_guaranteed():
    runs = [release(1.0, FixedRounds(1)), release(0.0, FixedRounds(1))]
    assert price_of_selection(runs, DELTA).composed == math.inf


def test_rounds_that_are_not_known_are_said():
    runs = [release(1.0, FixedRounds(1)), release(1.0, UnknownRounds())]
    price = price_of_selection(runs, DELTA)
    assert (price.composed, price.if_drawn) == (None, None)
    assert price.unknown.startswith("1 of 2 runs")
