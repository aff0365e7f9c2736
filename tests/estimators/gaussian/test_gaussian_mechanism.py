"""The Gaussian mechanism's calibration against the paper, dp_accounting and closed forms."""

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy import optimize, special

from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1, 4.22), (3, 1.54), (10, 0.541)])
def test_paper_table_1_sigmas(epsilon, sigma):
    # Andrew et al., Table 1, delta = 1e-6, printed to three digits.
    assert float(f"{sigma_of_epsilon(epsilon, 1e-6):.3g}") == sigma


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0, 5000.0])
def test_round_trip(epsilon, delta):
    assert epsilon_of_sigma(sigma_of_epsilon(epsilon, delta), delta) == pytest.approx(
        epsilon, rel=1e-9
    )


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 50.0])
def test_delta_of_dp_accounting(epsilon, delta):
    loss = GaussianPrivacyLoss(sigma_of_epsilon(epsilon, delta))
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


def balle_wang_sigma(epsilon: float, delta: float) -> float:
    """Balle & Wang (2018), algorithm 1, as printed: B+ and B- differ by a sign."""
    delta_0 = 0.5 - math.exp(epsilon) * special.ndtr(-math.sqrt(2 * epsilon))
    sign = 1 if delta >= delta_0 else -1

    def excess(v: float) -> float:
        far = special.log_ndtr(-math.sqrt(epsilon * (v + 2)))
        return float(special.ndtr(sign * math.sqrt(epsilon * v)) - math.exp(epsilon + far) - delta)

    v = float(optimize.brentq(excess, 0, 1e6, xtol=1e-14, rtol=1e-14))
    return (math.sqrt(1 + v / 2) - sign * math.sqrt(v / 2)) / math.sqrt(2 * epsilon)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 50.0])
def test_algorithm_1_of_balle_and_wang(epsilon, delta):
    assert sigma_of_epsilon(epsilon, delta) == pytest.approx(
        balle_wang_sigma(epsilon, delta), rel=1e-8
    )


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 0.5])
def test_epsilon_0_is_total_variation(delta):
    # 2 Phi(1 / (2 sigma)) - 1 = delta.
    shift = 2 * special.ndtri((1 + delta) / 2)
    assert sigma_of_epsilon(0, delta) == pytest.approx(1 / shift, rel=1e-8)
    assert epsilon_of_sigma(1.001 / shift, delta) == 0
    assert epsilon_of_sigma(0.999 / shift, delta) > 0


def test_more_noise_or_delta_is_less_epsilon():
    by_sigma = [epsilon_of_sigma(sigma, 1e-6) for sigma in np.geomspace(1e-3, 1e3, 40)]
    by_delta = [epsilon_of_sigma(1.0, delta) for delta in np.geomspace(1e-15, 0.3, 40)]
    assert (np.diff(by_sigma) < 0).all()
    assert (np.diff(by_delta) < 0).all()


@pytest.mark.parametrize(
    ("sigma", "delta", "epsilon"), [(math.inf, 1e-6, 0.0), (math.inf, 0.0, 0.0), (5, 0.0, math.inf)]
)
def test_limits_of_epsilon(sigma, delta, epsilon):
    assert epsilon_of_sigma(sigma, delta) == epsilon


def test_the_least_sigma_stays_in_range():
    # So far out epsilon = 1 / (2 sigma^2) up to a vanishing share.
    assert epsilon_of_sigma(1e-150, 1e-6) == pytest.approx(5e299, rel=1e-6)


@pytest.mark.slow
def test_the_largest_epsilon_stays_in_range():
    assert sigma_of_epsilon(1e299, 1e-6) == pytest.approx(math.sqrt(0.5 / 1e299), rel=1e-6)


@pytest.mark.parametrize("sigma", [0.0, -1.0, 1e-151, math.nan])
def test_refuses_sigma_out_of_range(sigma):
    with pytest.raises(ValueError, match="sigma must be at least 1e-150, got"):
        epsilon_of_sigma(sigma, 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (-1.0, 1e-6, "epsilon must be finite and at least 0"),
        (math.inf, 1e-6, "epsilon must be finite and at least 0"),
        (math.nan, 1e-6, "epsilon must be finite and at least 0"),
        (1e300, 1e-6, r"epsilon must be at most 1e\+299"),
        (1.0, 0.0, r"delta must be in \(0, 1\)"),
        (1.0, 1.0, r"delta must be in \(0, 1\)"),
        (1.0, math.nan, r"delta must be in \(0, 1\)"),
    ],
)
def test_no_sigma_for_arguments_out_of_range(epsilon, delta, message):
    with pytest.raises(InputError, match=message):
        sigma_of_epsilon(epsilon, delta)


def test_sigma_is_the_inverse_of_the_scaled_mean_cosine():
    assert estimate_sigma(np.array([0.001, 0.003]), 250_000) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("cosines", [[0.0], [-0.5, 0.25]])
def test_no_trace_of_the_canaries_is_epsilon_0(cosines):
    assert estimate_sigma(cosines, 100) == math.inf
    assert epsilon_of_sigma(estimate_sigma(cosines, 100), 1e-6) == 0


@pytest.mark.parametrize(
    ("cosines", "dim", "message"),
    [
        ([], 10, "cosines must be finite and at least one"),
        ([0.1, math.nan], 10, "cosines must be finite"),
        ([0.1], 0, "dim must be at least 1, got 0"),
    ],
)
def test_refuses_what_gives_no_estimate(cosines, dim, message):
    with pytest.raises(ValueError, match=message):
        estimate_sigma(cosines, dim)
