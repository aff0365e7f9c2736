"""Skellam noise under secure aggregation: its theorem against brute force, and what counts."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.accounting import (
    Denominator,
    FixedRounds,
    Grid,
    Noise,
    Party,
    PoissonSampling,
    Release,
    account,
)
from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.accounting.skellam import ORDERS, skellam_divergences, skellam_epsilon


def exact_divergence(shift, variance, order):
    """The Renyi divergence of Skellam noise shifted by whole numbers, summed over its support."""
    reach = int(40 + 60 * math.sqrt(variance))
    values = np.arange(-reach, reach + 1)
    with np.errstate(divide="ignore"):
        log_masses = [
            stats.skellam.logpmf(values - moved, variance / 2, variance / 2) for moved in (shift, 0)
        ]
    is_there = np.isfinite(log_masses[0]) & np.isfinite(log_masses[1])
    first, second = (masses[is_there] for masses in log_masses)
    return special.logsumexp(order * first + (1 - order) * second) / (order - 1)


@pytest.mark.parametrize("variance", [4.0, 30.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_theorem_is_above_what_it_bounds(shift, variance):
    bounds = skellam_divergences(shift**2, shift, variance)
    for order in (2, 3, 8):
        exact = exact_divergence(shift, variance, order)
        bound = bounds[ORDERS.index(order)]
        gaussian = order * shift**2 / (2 * variance)
        assert exact <= bound * (1 + 1e-9)
        assert gaussian < bound < 1.7 * max(exact, gaussian)


def test_coordinates_add_up():
    """In several coordinates the exact divergence is a sum, and the bound is of both norms."""
    shift, variance = np.array([2, 1, 1, 0]), 9.0
    bounds = skellam_divergences(float(shift @ shift), float(shift.sum()), variance)
    for order in (2, 5):
        exact = sum(exact_divergence(one, variance, order) for one in shift)
        assert exact <= bounds[ORDERS.index(order)]


def test_a_fine_grid_is_as_private_as_gaussian_noise():
    gaussian = account_gaussian(1.0, 5, 1e-5)[0].epsilon  # Renyi DP too, at more orders
    epsilon = skellam_epsilon(Grid(1e5, 1e-9), 1.0, 1.0, 5, 1e-5)
    assert gaussian <= epsilon < 1.01 * gaussian


def test_coarse_grids_long_updates_and_missing_shares_cost():
    plain = skellam_epsilon(Grid(1e4, 1e-3), 1.0, 1.0, 5, 1e-5)
    assert skellam_epsilon(Grid(3.0, 1e-3), 1.0, 1.0, 5, 1e-5) > 1.05 * plain
    assert skellam_epsilon(Grid(1e4, 0.5), 1.0, 1.0, 5, 1e-5) > 1.3 * plain
    half = skellam_epsilon(Grid(1e4, 1e-3), 1.0, 0.5, 5, 1e-5)
    assert half == pytest.approx(
        skellam_epsilon(Grid(1e4, 1e-3), math.sqrt(0.5), 1.0, 5, 1e-5), rel=1e-6
    )


FIVE = FixedRounds(5)


def released(fewest=20, sampling=FIVE, **noise):
    party = Party(sampling)
    return Release(
        rounds=50,
        noise=Noise("skellam", 1.0, 1.0, **{"grid": Grid(1e5, 0.01)} | noise),
        denominator=Denominator("actual_cohort", 20.3),
        client=party,
        canary=party,
        fewest=fewest,
    )


def test_the_smallest_round_counts():
    epsilons = [account(released(fewest), 1e-5).client.epsilon for fewest in (40, 20, 10, 1)]
    assert epsilons[0] == epsilons[1] < epsilons[2] < epsilons[3]
    assert epsilons[1] == skellam_epsilon(Grid(1e5, 0.01), 1.0, 1.0, 5, 1e-5)
    assert account(released(sampling=FixedRounds(0)), 1e-5).client.epsilon == 0


def test_what_is_not_known_is_said():
    moving = account(released(grid=None), 1e-5).client.by_accountant[0]
    assert moving.epsilon is None
    assert "the clip norm is adaptive" in moving.reason
    drawn = account(released(sampling=PoissonSampling(0.1)), 1e-5).client.by_accountant[0]
    assert drawn.epsilon is None
    assert "sampled rounds" in drawn.reason
    silent = dataclasses.replace(released(), noise=Noise("skellam", 0.0, 0.0))
    assert math.isinf(account(silent, 1e-5).client.epsilon)
