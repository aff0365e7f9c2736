"""The Gaussian fit against a by-hand fit, the reference's numbers, and its limits."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats

from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.distributions import ExactCosine, Gaussian
from fl_audit.estimators.gaussian.fit import (
    anderson_darling,
    epsilon_of_distributions,
    epsilon_over_all_regions,
)
from tests.gaussian_profile import epsilon_of_mu


def fit(included, excluded=(), **arguments):
    scores = CanaryScores(included, list(excluded))
    return estimate(scores, methods=["gaussian_fit"], **arguments).estimates[0]


def with_moments(mean: float, std: float, n: int = 1000) -> np.ndarray:
    """[n] scores with exactly this mean and population deviation."""
    raw = np.random.default_rng(3).normal(size=n)
    return mean + std * (raw - raw.mean()) / raw.std()


@pytest.mark.parametrize(("dim", "expected"), [(200, 2.375326), (2000, 2.317789)])
def test_pinned_by_the_reference_implementation(dim, expected):
    # google-research/federated, one_shot_epe, test_closed_form_null_gaussian_alt_regression.
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


# Epsilon by thresholds against brute force over dense grids, and in its limits.


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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2, 0.2, 0.5])
@pytest.mark.parametrize(("mean", "std"), PAIRS)
def test_global_maximum_by_brute_force(mean, std, delta):
    null, alternative = Gaussian(0.0, 1.0), Gaussian(mean, std)
    found = epsilon_of_distributions(null, alternative, delta)
    expected = brute_force(null, alternative, delta)
    # Brute force itself loses digits where s1 - delta cancels.
    assert found.epsilon == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert (found.threshold is None) == (found.guess is None) == (found.epsilon == 0)
    if found.threshold is not None:
        at_threshold = formula(null, alternative, delta, np.array([found.threshold]))[0]
        assert at_threshold == pytest.approx(found.epsilon, rel=1e-6)


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
    assert epsilon_of_distributions(null, alternative, 0.0).epsilon == expected


@pytest.mark.parametrize("delta", [1e-9, 0.1])
def test_point_masses(delta):
    point = Gaussian(1.0, 0.0)
    # An alternative without deviation: no false negative at its mean, and true negatives below.
    assert epsilon_of_distributions(Gaussian(0, 1), point, delta).epsilon == math.inf
    assert epsilon_of_distributions(point, Gaussian(0, 1), delta).epsilon == math.inf
    assert epsilon_of_distributions(Gaussian(0, 0), point, delta).epsilon == math.inf
    assert epsilon_of_distributions(point, point, delta).epsilon == 0.0
    assert epsilon_of_distributions(point, Gaussian(0, 0), delta).epsilon == 0.0


# Epsilon over all regions against Balle & Wang and numerical integration.


@pytest.mark.parametrize("delta", [1e-15, 0.3])
@pytest.mark.parametrize(("shift", "scale"), [(1.0, 20.0), (4.0, 1.0), (316.0, 1e-3)])
def test_equal_deviations_are_the_analytic_gaussian_mechanism(delta, shift, scale):
    first, second = Gaussian(5 * scale, scale), Gaussian(5 * scale + shift * scale, scale)
    expected = epsilon_of_mu(shift, delta)
    assert epsilon_over_all_regions(first, second, delta) == pytest.approx(expected, rel=1e-9)
    assert epsilon_of_distributions(first, second, delta).epsilon == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("difference", [-1e-12, 1e-12])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_nearly_equal_deviations_do_not_cancel(difference, delta):
    found = epsilon_over_all_regions(Gaussian(0, 1), Gaussian(1, 1 + difference), delta)
    assert found == pytest.approx(epsilon_of_mu(1.0, delta), rel=1e-8)


def hockey_stick(p: Gaussian, q: Gaussian, epsilon: float) -> float:
    """The integral of max(p - e^epsilon q, 0), by quadrature."""

    def gain(x: float) -> float:
        at_p, at_q = stats.norm.pdf(x, p.mean, p.std), stats.norm.pdf(x, q.mean, q.std)
        return max(float(at_p - math.exp(epsilon) * at_q), 0.0)

    edges = np.linspace(p.mean - 12 * p.std, p.mean + 12 * p.std, 49)
    return sum(integrate.quad(gain, a, b)[0] for a, b in itertools.pairwise(edges))


@pytest.mark.sampled(1)
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


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
@pytest.mark.parametrize("epsilon", [epsilon_of_distributions, epsilon_over_all_regions])
def test_refuses_delta_out_of_range(epsilon, delta):
    with pytest.raises(ValueError, match="delta must be in"):
        epsilon(Gaussian(0, 1), Gaussian(1, 1), delta)


@pytest.mark.parametrize("n", [4, 50, 1000])
def test_the_statistic_of_normality_is_scipys(n):
    rng = np.random.default_rng(n)
    sample = rng.normal(3, 0.1, n) + 0.05 * rng.exponential(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # SciPy 1.17 gets other ways to give p
        theirs = stats.anderson(sample)
    assert anderson_darling(sample).statistic == pytest.approx(theirs.statistic, rel=1e-9)


# As SciPy 1.9.3 prints them, to three digits, for levels of 15, 10, 5, 2.5 and 1 %. SciPy 1.17 has
# those of D'Agostino & Stephens 1986 instead, which are 2 to 5 % smaller at n = 1000.
@pytest.mark.parametrize(
    ("n", "printed"),
    [
        (10, [0.501, 0.570, 0.684, 0.798, 0.950]),
        (50, [0.538, 0.613, 0.736, 0.858, 1.021]),
        (100, [0.555, 0.632, 0.759, 0.885, 1.053]),
        (1000, [0.574, 0.653, 0.784, 0.914, 1.088]),
    ],
)
def test_critical_values_are_those_of_stephens_1974(n, printed):
    critical = anderson_darling(np.arange(float(n))).critical_values
    assert list(critical.values()) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize("values", [[], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
def test_refuses_too_few_values(values):
    with pytest.raises(ValueError, match="at least 4"):
        anderson_darling(values)
