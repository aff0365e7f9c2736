"""Rényi divergences of sampled Gaussians: the paper's table, mpmath, summing on a grid."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy import special, stats

from fl_audit.accounting.renyi import (
    RDP_ORDERS,
    epsilon_of_divergences,
    sampled_gaussian_divergences,
)

DEFAULT_ORDERS = RdpAccountant().orders.tolist()

# Andrew et al., Tables 2 and 3. The text says "Bernoulli sampling at a rate of q = 167/2048
# (about 0.081)", but 2048 is the number of rounds: what reproduces the printed column is q =
# 167/341000, with dp-accounting's default orders, the smallest of which is 1.1.
TABLE_3 = [(0.0644, 100_000), (0.1023, 1000), (0.1836, 100), (0.2344, 50)]


def epsilon_of_the_paper(probability: float, noise_multiplier: float) -> float:
    of_one = sampled_gaussian_divergences(probability, noise_multiplier, DEFAULT_ORDERS)
    return epsilon_of_divergences(DEFAULT_ORDERS, 2048 * of_one, 341_000**-1.1)


@pytest.mark.parametrize(("noise_multiplier", "printed"), TABLE_3[::2])
def test_the_papers_epsilons_come_from_the_share_of_clients_in_a_round(noise_multiplier, printed):
    found = epsilon_of_the_paper(167 / 341_000, noise_multiplier)
    assert found == pytest.approx(printed, rel=5e-3)


def by_quadrature(probability: float, noise_multiplier: float, order: float) -> float:
    """Of a Poisson-sampled Gaussian from pure noise, in arithmetic of 40 digits."""
    with mpmath.workdps(40):
        q, z, a = map(mpmath.mpf, (probability, noise_multiplier, order))

        def integrand(u):
            ratio = 1 - q + q * mpmath.exp((2 * u * z - 1) / (2 * z * z))
            return ratio**a * mpmath.exp(-u * u / 2)

        turn = z * mpmath.log((1 - q) / q) + 1 / (2 * z)
        near = {
            centre + side * mpmath.mpf(width)
            for centre in (0, 2 / z, a / z, turn)
            for width in (0, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 8, 13)
            for side in (-1, 1)
        }
        ends = [mpmath.mpf(-13), a / z + 13]
        points = [ends[0], *sorted(p for p in near if ends[0] < p < ends[1]), ends[1]]
        mean = mpmath.quad(integrand, points, maxdegree=7) / mpmath.sqrt(2 * mpmath.pi)
        return float(mpmath.log(mean) / (a - 1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("q", "z", "order"),
    [
        (1e-9, 2.0, 1.0102),
        (1e-6, 281.0, 1.3),
        (1e-6, 281.0, 3),
        (0.01, 2.5, 1.5),
        (0.08, 0.3, 1.02),
        (0.95, 0.2, 1.01),
        (1 - 1e-6, 0.5, 1.1),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (1e-9, 0.05, 1.5),
                (1e-4, 0.02, 1.05),
                (0.01, 0.05, 2.3),
                (0.5, 2.0, 3.7),
                (0.5, 1.0, 2),
                (0.95, 30.0, 10.9),
                (0.001, 0.1, 700.5),
                (0.3, 5.0, 300.5),
                (0.2, 1.0, 1.9),
            )
        ),
    ],
)
def test_every_digit_is_that_of_quadrature_in_forty_digits(q, z, order):
    (found,) = sampled_gaussian_divergences(q, z, [order])
    assert found == pytest.approx(by_quadrature(q, z, order), rel=1e-11, abs=0)


def on_a_grid(probability: float, noise_multiplier: float, order: float) -> float:
    """Of one Poisson-sampled Gaussian from pure noise, by summing on a fine grid."""
    z, q = noise_multiplier, probability
    x = np.linspace(-40 * z, order + 40 * z, 400_001)
    ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z * z))
    log_integrand = stats.norm.logpdf(x, scale=z) + order * ratio
    return float(special.logsumexp(log_integrand) + math.log(x[1] - x[0])) / (order - 1)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("order", [8, 63, 95.5, 2047.5, 2048])
@pytest.mark.parametrize(
    ("q", "z"), [(167 / 341_000, 0.0644), (0.08, 0.3), (0.5, 2.0), (0.5, 40.0)]
)
def test_orders_up_to_thousands_are_what_a_grid_gives(q, z, order):
    (found,) = sampled_gaussian_divergences(q, z, [order])
    assert found == pytest.approx(on_a_grid(q, z, order), rel=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("q", [1e-12, 0.01, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("z", [1e-100, 1e-6, 0.01, 0.7, 20.0, 1e6])
def test_divergences_rise_with_the_order_to_at_most_those_without_sampling(q, z):
    orders = np.sort(RDP_ORDERS)
    found = sampled_gaussian_divergences(q, z, orders)
    assert (found > 0).all()
    assert (np.diff(found) >= -1e-12 * found[1:]).all()
    assert (found <= orders / 2 / z / z * (1 + 1e-12)).all()


def test_without_noise_they_are_infinite():
    assert sampled_gaussian_divergences(0.1, 0.0, [1.5, 2]).tolist() == [math.inf, math.inf]


def test_a_sample_that_reveals_next_to_nothing_costs_next_to_nothing():
    # dp-accounting finds -4e-17 at order 3 here.
    divergences = sampled_gaussian_divergences(2.3015016624419502e-07, 281.76377375840974)
    assert (divergences > 0).all()
    assert 0 <= epsilon_of_divergences(RDP_ORDERS, divergences, 1e-9) < 0.01


def test_orders_include_dp_accountings_own():
    assert set(np.round(DEFAULT_ORDERS, 9)) <= set(np.round(RDP_ORDERS, 9))
