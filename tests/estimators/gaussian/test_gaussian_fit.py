"""The Gaussian fit against a by-hand fit, the reference's numbers, and its limits."""

import math

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores, Gaussian, epsilon_of_laws, estimate
from fl_audit.estimators.gaussian.fit import anderson_darling


def fit(included, excluded=(), **arguments):
    scores = CanaryScores(included, list(excluded))
    return estimate(scores, methods=["gaussian_fit"], **arguments).estimates[0]


def with_moments(mean: float, std: float, n: int = 1000) -> np.ndarray:
    """[n] scores with exactly this mean and population deviation."""
    raw = np.random.default_rng(3).normal(size=n)
    return mean + std * (raw - raw.mean()) / raw.std()


@pytest.mark.parametrize(("dim", "expected"), [(200, 2.375326), (2000, 2.317789)])
def test_pinned_by_the_reference_implementation(dim, expected):
    included = with_moments(dim**-0.5, dim**-0.5)
    assert fit(included, delta=1e-2, dim=dim).epsilon == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("dim", "direction"), [(50, "excluded"), (5000, "included")])
def test_details_describe_the_fit(dim, direction):
    # The narrower law's tail gives more away: 50^-1/2 > 0.05 > 5000^-1/2.
    included = with_moments(0.1, 0.05)
    made = fit(included, delta=1e-5, dim=dim)
    details = made.details
    assert (made.kind, made.lower, made.upper) == ("estimate", None, None)
    assert details["mean"] == pytest.approx(0.1)
    assert details["std"] == pytest.approx(0.05)
    assert details["null_law"] == ("exact_cosine" if dim < 1000 else "gaussian_limit")
    assert details["null_std"] == pytest.approx(dim**-0.5)
    assert details["direction"] == direction
    assert details["anderson_darling"] == anderson_darling(included).statistic
    assert (details["epsilon_all_regions"] is None) == (dim < 1000)
    assert "not a bound" in made.guarantee


def test_empirical_null_is_fitted_with_population_deviation():
    included, excluded = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0])
    made = fit(included, excluded, delta=1e-3)
    null = Gaussian(0.5, 0.5)
    alternative = Gaussian(7 / 3, math.sqrt(14 / 9))
    assert made.epsilon == pytest.approx(epsilon_of_laws(null, alternative, 1e-3).epsilon)
    assert made.details["null_law"] == "gaussian_fitted_to_excluded"


def test_all_regions_is_at_least_the_best_threshold():
    made = fit(with_moments(1.0, 3.0), with_moments(0.0, 1.0), delta=1e-5)
    assert made.details["epsilon_all_regions"] > made.epsilon


def test_recovers_the_epsilon_of_gaussian_scores():
    # Equal deviations, means one apart: epsilon(1e-2) = 2.3178. With 1,000 + 1,000 scores the
    # estimate has a spread of 0.21 and is 0.21 too large on average (unequal fitted deviations
    # only ever add). Both fall as n^-1/2, to 0.015 each here: 0.12 is off by 7 deviations.
    rng = np.random.default_rng(5)
    made = fit(rng.normal(1, 1, 200_000), rng.normal(0, 1, 200_000), delta=1e-2)
    assert made.epsilon == pytest.approx(2.3178, abs=0.12)


@pytest.mark.parametrize("equal", [0.1, 0.0])
def test_equal_included_scores_are_a_point_mass(equal):
    made = fit([equal] * 7, delta=1e-5, dim=2000)
    assert made.epsilon == math.inf
    assert made.details["std"] == 0.0
    assert made.details["anderson_darling"] is None
    assert made.to_json()["epsilon"] == "inf"


def test_included_scores_below_the_null_give_nothing_away_above_a_threshold():
    made = fit(with_moments(-1.0, 1.0), with_moments(0.0, 1.0), delta=1e-5)
    assert made.epsilon == 0.0
    assert made.details["threshold"] is None
    assert made.details["epsilon_all_regions"] > 1


@pytest.mark.parametrize(
    ("included", "excluded", "message"),
    [
        ([1.0], [0.0, 1.0], "at least 2 included scores, got 1"),
        ([1.0, 2.0], [0.0], "empirical null needs at least 2 excluded scores, got 1"),
    ],
)
def test_refuses_too_few_scores(included, excluded, message):
    with pytest.raises(InputError, match=message):
        fit(included, excluded, delta=1e-5)
