"""The Gaussian mechanism: calibration against the paper and dp_accounting; mu-GDP from scores."""

import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy import special

from fl_audit.estimators import AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_mu,
    epsilon_of_sigma,
    estimate_sigma,
    gdp_fit,
    sigma_of_epsilon,
)
from fl_audit.estimators.null import Null
from tests.gaussian_profile import delta_of_mu


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 0.5), (1.0, 1e-6), (5000.0, 1e-12)])
def test_round_trip(epsilon, delta):
    assert epsilon_of_sigma(sigma_of_epsilon(epsilon, delta), delta) == pytest.approx(
        epsilon, rel=1e-9
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (1.0, 1e-6), (50.0, 1e-9)])
def test_delta_of_dp_accounting(epsilon, delta):
    loss = GaussianPrivacyLoss(sigma_of_epsilon(epsilon, delta))
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-6, 1e-2, 0.5])
def test_epsilon_0_is_total_variation(delta):
    # 2 Phi(1 / (2 sigma)) - 1 = delta.
    shift = 2 * special.ndtri((1 + delta) / 2)
    assert sigma_of_epsilon(0, delta) == pytest.approx(1 / shift, rel=1e-8)
    assert epsilon_of_sigma(1.001 / shift, delta) == 0
    assert epsilon_of_sigma(0.999 / shift, delta) > 0


@pytest.mark.parametrize(
    ("sigma", "delta", "epsilon"), [(math.inf, 1e-6, 0.0), (math.inf, 0.0, 0.0), (5, 0.0, math.inf)]
)
def test_limits_of_epsilon(sigma, delta, epsilon):
    assert epsilon_of_sigma(sigma, delta) == epsilon


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (epsilon_of_sigma, (0.0, 1e-6), "sigma must be at least 1e-150, got"),
        (epsilon_of_sigma, (math.nan, 1e-6), "sigma must be at least 1e-150, got"),
        (epsilon_of_mu, (math.nan, 1e-5), "mu must be a number, got nan"),
        (sigma_of_epsilon, (-1.0, 1e-6), "epsilon must be finite and at least 0"),
        (sigma_of_epsilon, (math.inf, 1e-6), "epsilon must be finite and at least 0"),
        (sigma_of_epsilon, (math.nan, 1e-6), "epsilon must be finite and at least 0"),
        (sigma_of_epsilon, (1e300, 1e-6), r"epsilon must be at most 1e\+299"),
        (sigma_of_epsilon, (1.0, 0.0), r"delta must be in \(0, 1\)"),
        (sigma_of_epsilon, (1.0, math.nan), r"delta must be in \(0, 1\)"),
        (estimate_sigma, ([], 10), "cosines must be finite and at least one"),
        (estimate_sigma, ([0.1, math.nan], 10), "cosines must be finite"),
        (estimate_sigma, ([0.1], 0), "dim must be at least 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


# mu-GDP from scores: closed forms, its standard error by simulation, limits.


SEED = 2022


def fit(included, excluded, delta=1e-5, dim=None):
    null = "empirical" if dim is None else "closed_form"
    return gdp_fit(AuditSetting(CanaryScores(included, excluded), delta, 0.95, Null(null, dim=dim)))


def test_by_hand():
    # Means 4 and 1; sums of squares 2 and 8, over 3 + 3 - 2 degrees of freedom.
    made = fit([3, 4, 5], [-1, 1, 3])
    assert made.details["std"] == pytest.approx(math.sqrt(10 / 4), rel=1e-15)
    assert made.details["mu"] == pytest.approx(3 / math.sqrt(2.5), rel=1e-15)
    assert made.details["std_ratio"] == pytest.approx(0.5, rel=1e-15)
    squared = 2 / 3 + (9 / 2.5) / (2 * 4)
    assert made.details["mu_standard_error"] == pytest.approx(math.sqrt(squared), rel=1e-15)


@pytest.mark.parametrize(("mu", "delta"), [(0.1, 0.1), (1.0, 1e-5), (5.0, 1e-10)])
def test_epsilon_solves_corollary_2_13(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    if epsilon == 0:
        assert delta_of_mu(mu, 0.0) <= delta
    else:
        assert delta_of_mu(mu, epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(
    "mu", [1.0, *(pytest.param(mu, marks=pytest.mark.slow) for mu in (0.0, 4.0))]
)
@pytest.mark.parametrize("dim", [pytest.param(None, marks=pytest.mark.slow), 10**6])
def test_unbiased_with_the_standard_error_it_tells(mu, dim):
    # z-scores of 300 fits. Their mean has deviation 0.058 and their deviation one of 0.041: five
    # of either are exceeded with probability below 1e-6. At mu = 4 the bias is 0.04.
    rng, runs, n1, n0 = np.random.default_rng(SEED), 300, 300, 200
    unit = 1.0 if dim is None else dim**-0.5
    z = []
    for _ in range(runs):
        included = unit * (mu + rng.standard_normal(n1))
        details = fit(included, unit * rng.standard_normal(n0), dim=dim).details
        z.append((details["mu"] - mu) / details["mu_standard_error"])
    assert abs(np.mean(z)) < 5 * 0.058 + 0.04
    assert abs(np.std(z) - 1) < 5 * 0.041


@pytest.mark.parametrize(
    ("included", "excluded", "mu", "epsilon"),
    [
        ([0.3] * 7, [0.3] * 5, 0.0, 0.0),
        ([0.3] * 7, [0.1] * 5, math.inf, math.inf),
        ([0.1] * 7, [0.3] * 5, -math.inf, 0.0),
    ],
)
def test_equal_scores(included, excluded, mu, epsilon):
    made = fit(included, excluded)
    assert (made.details["mu"], made.epsilon) == (mu, epsilon)
    assert made.details["mu_standard_error"] is made.details["std_ratio"] is None
    made.to_json()


@pytest.mark.parametrize(
    ("included", "excluded", "dim", "ratio"),
    [
        ([0.1, 0.2, 0.3], [0.1] * 3, None, None),
        ([0.1] * 3, [0.1, 0.2, 0.3], None, 0.0),
        ([0.1] * 7, [0.01, 0.02], 10_000, 0.0),
    ],
)
def test_the_ratio_of_deviations_where_one_group_has_equal_scores(included, excluded, dim, ratio):
    assert fit(included, excluded, dim=dim).details["std_ratio"] == ratio  # 0.1 * 3 / 3 is not 0.1
