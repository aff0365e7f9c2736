"""Epsilon by thresholds against brute force over dense grids, and in its limits."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.distributions import ExactCosine, Gaussian, closed_form_null
from fl_audit.estimators.gaussian.fit import epsilon_of_laws


def formula(null: Gaussian, alternative: Gaussian, delta: float, a: np.ndarray) -> np.ndarray:
    """Andrew et al., section 4, written out with scipy.stats, for delta well above rounding."""
    law0, law1 = stats.norm(null.mean, null.std), stats.norm(alternative.mean, alternative.std)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_excluded = np.log(law0.cdf(a) - delta) - law1.logcdf(a)
        by_included = np.log(law1.sf(a) - delta) - law0.logsf(a)
    return np.fmax(by_excluded, by_included)


def brute_force(null: Gaussian, alternative: Gaussian, delta: float) -> float:
    spread = 9 * max(null.std, alternative.std)
    low = min(null.mean, alternative.mean) - spread
    high = max(null.mean, alternative.mean) + spread
    for _ in range(6):
        a = np.linspace(low, high, 40_001)
        values = formula(null, alternative, delta, a)
        best = int(np.nanargmax(values))
        low, high = a[max(best - 100, 0)], a[min(best + 100, len(a) - 1)]
    return max(float(values[best]), 0.0)


PAIRS = [
    (0.3, 1.0), (1.0, 1.0), (1.0, 3.0), (1.0, 0.3), (-1.0, 1.0), (-1.0, 0.5), (-1.0, 2.0),
    (0.0, 0.5), (0.0, 2.0), (6.0, 0.05), (6.0, 4.0), (3.0, 0.001),
]  # fmt: skip


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2, 0.2, 0.5])
@pytest.mark.parametrize(("mean", "std"), PAIRS)
def test_global_maximum_by_brute_force(mean, std, delta):
    null, alternative = Gaussian(0.0, 1.0), Gaussian(mean, std)
    found = epsilon_of_laws(null, alternative, delta)
    expected = brute_force(null, alternative, delta)
    # Brute force itself loses digits where s1 - delta cancels.
    assert found.epsilon == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert (found.threshold is None) == (found.guess is None) == (found.epsilon == 0)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("mean", "std"), PAIRS[:4])
def test_the_reported_threshold_attains_epsilon(mean, std, delta):
    null, alternative = Gaussian(0.0, 1.0), Gaussian(mean, std)
    found = epsilon_of_laws(null, alternative, delta)
    at_threshold = formula(null, alternative, delta, np.array([found.threshold]))[0]
    assert at_threshold == pytest.approx(found.epsilon, rel=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_no_random_threshold_beats_it(seed):
    rng = np.random.default_rng(seed)
    alternative = Gaussian(rng.normal() * 5, 10 ** rng.uniform(-3, 1))
    delta = 10 ** rng.uniform(-9, -0.5)
    a = rng.choice([0.0, alternative.mean], 20_000) + rng.normal(size=20_000) * rng.choice(
        [1.0, alternative.std, 5.0], 20_000
    )
    values = formula(Gaussian(0, 1), alternative, delta, a)
    found = epsilon_of_laws(Gaussian(0, 1), alternative, delta).epsilon
    # The formula in plain floats is off by about 1e-16 / (s1 - delta): leave those out.
    reliable = stats.norm.sf(a, alternative.mean, alternative.std) - delta > 1e-3 * delta
    assert np.nanmax(values[reliable]) <= found + 1e-6 * (1 + found)


@pytest.mark.parametrize(("dim", "expected"), [(200, 2.375326), (2000, 2.317789)])
def test_pinned_by_the_reference_implementation(dim, expected):
    # google-research/federated, one_shot_epe, test_closed_form_null_gaussian_alt_regression.
    sigma = dim**-0.5
    found = epsilon_of_laws(closed_form_null(dim), Gaussian(sigma, sigma), 1e-2)
    assert found.epsilon == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dim", [200, 2000])
def test_decreases_with_delta(dim):
    sigma = dim**-0.5
    laws = closed_form_null(dim), Gaussian(sigma, sigma)
    epsilons = [epsilon_of_laws(*laws, delta).epsilon for delta in np.logspace(-15, -0.31, 30)]
    assert np.all(np.diff(epsilons) < 0)


@pytest.mark.parametrize("dim", [200, 2000])
@pytest.mark.parametrize("delta", [1e-15, 1e-5, 1e-2])
def test_increases_with_the_mean(dim, delta):
    sigma = dim**-0.5
    means = np.linspace(sigma / 4, 2 * sigma, 8)
    epsilons = [
        epsilon_of_laws(closed_form_null(dim), Gaussian(m, sigma), delta).epsilon for m in means
    ]
    assert np.all(np.diff(epsilons) > 0)


def test_invariant_under_affine_maps():
    epsilon = epsilon_of_laws(Gaussian(0.1, 1.1), Gaussian(0.9, 0.8), 1e-5).epsilon
    moved = Gaussian(3.1 + 2.7 * 0.1, 2.7 * 1.1), Gaussian(3.1 + 2.7 * 0.9, 2.7 * 0.8)
    assert epsilon_of_laws(*moved, 1e-5).epsilon == pytest.approx(epsilon, rel=1e-9)


def test_turning_both_laws_around_exchanges_them():
    straight = epsilon_of_laws(Gaussian(0, 1), Gaussian(2, 3), 1e-6)
    turned = epsilon_of_laws(Gaussian(-2, 3), Gaussian(0, 1), 1e-6)
    assert turned.epsilon == pytest.approx(straight.epsilon, rel=1e-12)
    assert turned.threshold == pytest.approx(-straight.threshold)
    assert (straight.guess, turned.guess) == ("included", "excluded")


def test_exact_cosine_approaches_its_gaussian_limit_like_one_over_dim():
    def gap(dim: int) -> float:
        std = dim**-0.5
        exact = epsilon_of_laws(ExactCosine(dim), Gaussian(std, std), 1e-2).epsilon
        return exact - epsilon_of_laws(Gaussian(0.0, std), Gaussian(std, std), 1e-2).epsilon

    assert 0 < gap(999) < 0.02
    assert 999 * gap(999) == pytest.approx(333 * gap(333), rel=0.03)


def test_cosines_beyond_one_are_impossible_under_the_exact_null():
    # P(N(0.9, 0.2) > 1) = 0.31 > delta, where the null has no mass at all.
    assert epsilon_of_laws(ExactCosine(10), Gaussian(0.9, 0.2), 0.1).epsilon == math.inf


@pytest.mark.parametrize(
    ("null", "alternative", "expected"),
    [
        (Gaussian(0, 1), Gaussian(1e-6, 1), math.inf),
        (Gaussian(0, 1), Gaussian(0, 1), 0.0),
        (Gaussian(0, 1), Gaussian(-1, 1), 0.0),
        (Gaussian(0, 1), Gaussian(-1, 1.01), math.inf),
        (Gaussian(0, 1), Gaussian(-1, 0.99), math.inf),
        (Gaussian(0, 0), Gaussian(0, 0), 0.0),
        (Gaussian(0, 0), Gaussian(1, 0), math.inf),
        (ExactCosine(100), Gaussian(0.0, 0.1), math.inf),
    ],
)
def test_without_delta_the_tails_decide(null, alternative, expected):
    assert epsilon_of_laws(null, alternative, 0.0).epsilon == expected


def test_approaches_the_limit_without_delta():
    # Unequal deviations: epsilon grows without bound as delta goes to 0.
    deltas = [1e-10, 1e-100, 1e-300]
    epsilons = [epsilon_of_laws(Gaussian(0, 1), Gaussian(0, 1.1), d).epsilon for d in deltas]
    assert epsilons[0] < epsilons[1] / 5 < epsilons[2] / 10


@pytest.mark.parametrize("delta", [1e-9, 0.1])
def test_point_masses(delta):
    point = Gaussian(1.0, 0.0)
    # An alternative without deviation: no false negative at its mean, and true negatives below.
    assert epsilon_of_laws(Gaussian(0, 1), point, delta).epsilon == math.inf
    assert epsilon_of_laws(point, Gaussian(0, 1), delta).epsilon == math.inf
    assert epsilon_of_laws(Gaussian(0, 0), point, delta).epsilon == math.inf
    assert epsilon_of_laws(point, point, delta).epsilon == 0.0
    assert epsilon_of_laws(point, Gaussian(0, 0), delta).epsilon == 0.0


def test_point_mass_below_the_null():
    # No null mass below -50 worth a delta; above, P(X0 >= -50) is 1: nothing is proven.
    assert epsilon_of_laws(Gaussian(0, 1), Gaussian(-50.0, 0.0), 1e-9).epsilon == 0.0


def test_no_floating_point_warning():
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        epsilon_of_laws(Gaussian(0, 1e-3), Gaussian(5, 1e-6), 1e-15)
        epsilon_of_laws(ExactCosine(50), Gaussian(0.1, 0.2), 1e-15)
        epsilon_of_laws(Gaussian(0, 0), Gaussian(1, 0), 0.5)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_refuses_delta_out_of_range(delta):
    with pytest.raises(ValueError, match="delta must be in"):
        epsilon_of_laws(Gaussian(0, 1), Gaussian(1, 1), delta)
