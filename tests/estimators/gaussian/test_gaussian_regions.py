"""Epsilon over all regions against Balle & Wang, Monte Carlo and numerical integration."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.gaussian.fit import epsilon_of_laws, epsilon_over_all_regions


def balle_wang_log_delta(epsilon: float, shift: float) -> float:
    """Log delta of the analytic Gaussian mechanism with sensitivity / sigma = shift."""
    log_p = special.log_ndtr(shift / 2 - epsilon / shift)
    log_q = special.log_ndtr(-shift / 2 - epsilon / shift)
    return float(log_p + np.log1p(-np.exp(epsilon + log_q - log_p)))


def balle_wang_epsilon(shift: float, delta: float) -> float:
    def excess(epsilon: float) -> float:
        return balle_wang_log_delta(epsilon, shift) - math.log(delta)

    return float(optimize.brentq(excess, 0, shift**2 + 50 * shift, xtol=1e-13, rtol=1e-14))


@pytest.mark.parametrize("delta", [1e-15, 1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("shift", [1.0, 4.0, 30.0, 316.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_equal_deviations_are_the_analytic_gaussian_mechanism(delta, shift, scale):
    first, second = Gaussian(5 * scale, scale), Gaussian(5 * scale + shift * scale, scale)
    expected = balle_wang_epsilon(shift, delta)
    assert epsilon_over_all_regions(first, second, delta) == pytest.approx(expected, rel=1e-9)
    assert epsilon_of_laws(first, second, delta).epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("sigma", "epsilon"), [(4.22, 1.0), (1.54, 3.0), (0.541, 10.0)])
def test_paper_table_1_sigmas(sigma, epsilon):
    # Andrew et al., Table 1, delta = 1e-6: sigma is printed to three digits.
    found = epsilon_over_all_regions(Gaussian(0, sigma), Gaussian(1, sigma), 1e-6)
    assert found == pytest.approx(epsilon, rel=3e-3)


@pytest.mark.parametrize("difference", [-1e-12, 1e-12])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_nearly_equal_deviations_do_not_cancel(difference, delta):
    found = epsilon_over_all_regions(Gaussian(0, 1), Gaussian(1, 1 + difference), delta)
    assert found == pytest.approx(balle_wang_epsilon(1.0, delta), rel=1e-8)


def hockey_stick(p: Gaussian, q: Gaussian, epsilon: float) -> float:
    """The integral of max(p - e^epsilon q, 0), by quadrature."""

    def gain(x: float) -> float:
        at_p, at_q = stats.norm.pdf(x, p.mean, p.std), stats.norm.pdf(x, q.mean, q.std)
        return max(float(at_p - math.exp(epsilon) * at_q), 0.0)

    edges = np.linspace(p.mean - 12 * p.std, p.mean + 12 * p.std, 97)
    return sum(integrate.quad(gain, a, b)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize("seed", range(6))
def test_unequal_deviations_by_quadrature(seed):
    rng = np.random.default_rng(seed)
    first = Gaussian(*rng.uniform([0, 0.5], [3, 3]))
    second = Gaussian(*rng.uniform([0, 0.5], [3, 3]))
    delta = float(10 ** rng.uniform(-4, -2))
    epsilon = epsilon_over_all_regions(first, second, delta)
    largest = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
    assert epsilon > 0
    assert largest == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-5, 1e-2, 0.3])
@pytest.mark.parametrize("std", [0.2, 0.9, 1.1, 5.0])
@pytest.mark.parametrize("mean", [-1.0, 0.0, 2.0, 50.0])
def test_no_threshold_beats_all_regions(mean, std, delta):
    null, alternative = Gaussian(0, 1), Gaussian(mean, std)
    best = epsilon_of_laws(null, alternative, delta).epsilon
    assert best <= epsilon_over_all_regions(null, alternative, delta) * (1 + 1e-9) + 1e-12


def test_order_and_units_do_not_matter():
    first, second = Gaussian(0.1, 1.1), Gaussian(0.9, 0.8)
    moved = Gaussian(3.1 + 2.7 * 0.1, 2.7 * 1.1), Gaussian(3.1 + 2.7 * 0.9, 2.7 * 0.8)
    epsilon = epsilon_over_all_regions(first, second, 1e-5)
    assert epsilon_over_all_regions(second, first, 1e-5) == pytest.approx(epsilon, rel=1e-12)
    assert epsilon_over_all_regions(*moved, 1e-5) == pytest.approx(epsilon, rel=1e-9)


def test_equal_means_differ_by_deviation_alone():
    # Only the outside of an interval tells them apart; thresholds see half of it.
    epsilon = epsilon_over_all_regions(Gaussian(0, 1), Gaussian(0, 2), 1e-3)
    assert epsilon > epsilon_of_laws(Gaussian(0, 1), Gaussian(0, 2), 1e-3).epsilon > 0


@pytest.mark.parametrize(
    ("first", "second", "delta", "expected"),
    [
        (Gaussian(1, 2), Gaussian(1, 2), 0.0, 0.0),
        (Gaussian(1, 0), Gaussian(1, 0), 0.0, 0.0),
        (Gaussian(0, 1), Gaussian(1e-9, 1), 0.0, math.inf),
        (Gaussian(0, 0), Gaussian(0, 1), 0.4, math.inf),
        (Gaussian(0, 0), Gaussian(1, 0), 0.4, math.inf),
        (Gaussian(0, 1), Gaussian(0.1, 1), 0.5, 0.0),
    ],
)
def test_limits(first, second, delta, expected):
    assert epsilon_over_all_regions(first, second, delta) == expected


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_refuses_delta_out_of_range(delta):
    with pytest.raises(ValueError, match="delta must be in"):
        epsilon_over_all_regions(Gaussian(0, 1), Gaussian(1, 1), delta)
