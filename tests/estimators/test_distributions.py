"""Distributions against elementary closed forms, scipy and mpmath."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators.distributions import (
    EXACT_COSINE_BELOW,
    ExactCosine,
    Gaussian,
    beta_cdf,
    beta_quantile,
    closed_form_null,
    supremum,
)


@pytest.mark.parametrize("dim", [2, 3, 10, 500, 999])
def test_exact_cosine_has_no_mass_outside_its_range(dim):
    distribution = ExactCosine(dim)
    assert distribution.logsf([1.0, 1.5]).tolist() == [-math.inf, -math.inf]
    assert distribution.logsf([-1.0, -1.5]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("x", [-40.0, -3.0, 0.0, 2.0, 9.0, 60.0, 2000.0])
def test_gaussian_tails_match_scipy(x):
    distribution = Gaussian(1.5, 2.5)
    assert distribution.logsf(x) == pytest.approx(stats.norm.logsf(x, 1.5, 2.5), rel=1e-12)
    assert distribution.logcdf(x) == pytest.approx(stats.norm.logcdf(x, 1.5, 2.5), rel=1e-12)
    for p in np.exp(distribution.logsf(x)), 1e-12:
        assert distribution.isf(p) == pytest.approx(stats.norm.isf(p, 1.5, 2.5), rel=1e-12)
        assert distribution.ppf(p) == pytest.approx(stats.norm.ppf(p, 1.5, 2.5), rel=1e-12)


def test_fit_uses_the_population_deviation():
    assert Gaussian.fitted_to([1.0, 3.0]) == Gaussian(2.0, 1.0)


def test_closed_form_null_changes_at_the_papers_dimension():
    assert closed_form_null(EXACT_COSINE_BELOW - 1) == ExactCosine(999)
    assert closed_form_null(EXACT_COSINE_BELOW) == Gaussian(0.0, 1000**-0.5)


# The cosine's law in any dimension, against mpmath's incomplete beta function.


DIMS = [2, 3, 10, 50, 999, 1000, 4050748, 10**15]
DEVIATIONS = [0, 1e-6, 0.5, 1, 2.999, 3.001, 5, 20, 37, 40]


def exact_log_sf(dim, cosine):
    """Log P(X >= cosine) for a cosine >= 0, from X^2 ~ Beta(1/2, (dim - 1) / 2)."""
    # Terms as large as exp(800) cancel in mpmath's series.
    with mpmath.workdps(800):
        x, half = mpmath.mpf(float(cosine)), mpmath.mpf(1) / 2
        shape = mpmath.mpf(dim - 1) / 2
        if x < half:
            tail = mpmath.betainc(half, shape, x**2, 1, regularized=True)
        else:
            tail = mpmath.betainc(shape, half, 0, (1 - x) * (1 + x), regularized=True)
        return mpmath.log(tail / 2)


@pytest.mark.parametrize("dim", DIMS)
def test_tail_by_deviations(dim):
    distribution = ExactCosine(dim)
    points = [t * distribution.std for t in DEVIATIONS if t * distribution.std < 1]
    exact = [exact_log_sf(dim, x) for x in points]
    assert distribution.logsf(points) == pytest.approx([float(e) for e in exact], rel=5e-15)
    assert np.array_equal(distribution.logcdf(-np.array(points)), distribution.logsf(points))
    below = [float(mpmath.log1p(-mpmath.exp(e))) for e in exact]
    assert distribution.logcdf(points) == pytest.approx(below, rel=2e-12, abs=1e-320)


@pytest.mark.parametrize("dim", [2, 51, 10**5])
@pytest.mark.parametrize("gap", [0.1, 2.0**-53])
def test_tail_to_the_edge_of_the_range(dim, gap):
    x = 1 - gap
    assert ExactCosine(dim).logsf(x) == pytest.approx(float(exact_log_sf(dim, x)), rel=5e-15)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-12, 1e-3, 0.1, 0.3, 0.49, 0.5 - 2.0**-40])
def test_quantile_has_its_probability(dim, p):
    distribution = ExactCosine(dim)
    x = float(distribution.isf(p))
    assert distribution.ppf(p) == -x
    if p > 1e-4:
        assert distribution.isf(1 - p) == pytest.approx(-x, rel=1e-9, abs=1e-11 / dim**0.5)
    if x < 1 - 1e-6:  # closer to 1, neighbouring floats differ more than this in probability
        exact = float(mpmath.expm1(exact_log_sf(dim, x) - mpmath.log(mpmath.mpf(p))))
        slope_at_rounding = dim * x / max(1 - x * x, 1e-300) * x * 1e-15
        assert abs(exact) < 4e-13 + slope_at_rounding


@pytest.mark.parametrize("dim", [2, 3, 1000, 10**9])
def test_quantiles_at_the_ends(dim):
    distribution = ExactCosine(dim)
    assert distribution.isf([0.0, 0.5, 1.0]).tolist() == [1.0, 0.0, -1.0]
    assert distribution.ppf([0.0, 0.5, 1.0]).tolist() == [-1.0, 0.0, 1.0]
    assert distribution.isf(5e-324) <= 1
    assert np.isnan(distribution.isf([-0.1, 1.1, math.nan])).all()


# The beta distribution where scipy 1.9's functions do not converge.


@pytest.mark.parametrize("n", [10.0, 1e5, 1e6, 1e7, 1e8])
def test_symmetric_about_one_half(n):
    a = np.array([n + 0.5])
    assert beta_cdf(a, a, np.array([0.5])) == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize(
    ("a", "b"), [(3.5, 8.5), (4e4, 6e4), (1.5e5, 5.5e4), (1e6, 3e6), (2.5, 3e7)]
)
def test_rises_by_the_integral_of_the_density(a, b):
    mean = a / (a + b)
    deviation = np.sqrt(mean * (1 - mean) / (a + b))
    nodes, weights = np.polynomial.legendre.leggauss(30)
    start = max(mean - deviation, 0.1 * mean)
    half = (mean + deviation - start) / 2
    x = start + half * (1 + nodes)
    log_density = (a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b)
    mass = half * np.sum(weights * np.exp(log_density))
    low, high = beta_cdf(np.array([a]), np.array([b]), np.array([start, start + 2 * half]))
    # At a + b = 4e6 the density here has lost 8 digits to betaln.
    assert high - low == pytest.approx(mass, abs=2e-8)


@pytest.mark.parametrize("p", [1e-12, 1e-4, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 30, 1_000_000])
def test_matches_scipy_stats(n, p):
    k = np.unique(np.linspace(0, n, 200).astype(int))
    a, b = n - k + 0.5, k + 0.5
    assert beta_quantile(a, b, p) == pytest.approx(stats.beta.ppf(p, a, b), rel=1e-10)


def test_the_case_where_betaincinv_fails():
    rest = beta_quantile(1000.5, 0.5, 1e-9)
    assert stats.beta.cdf(rest, 1000.5, 0.5) == pytest.approx(1e-9, rel=1e-9)


@pytest.mark.parametrize("a", [0.5, 3.0, 499.0])
@pytest.mark.parametrize("p", [1e-300, 1e-150, 1e-20])
def test_far_tail_has_a_closed_form(a, p):
    # Beta(a, 1) has the distribution function x^a.
    if p ** (1 / a) > 0:
        assert beta_quantile(a, 1.0, p) == pytest.approx(p ** (1 / a), rel=1e-10)


def test_broadcasts():
    assert beta_quantile([[1.0], [2.0]], [1.0, 2.0, 3.0], 0.5).shape == (2, 3)


# The supremum by bisection.


@pytest.mark.parametrize("edge", [1e-300, 0.1, 1.0, 3.7, 1e5, 1e300])
def test_finds_the_edge_to_the_last_bit(edge):
    assert supremum(lambda epsilon: epsilon < edge) == edge


def test_never_and_always():
    assert supremum(lambda epsilon: False) == 0.0
    assert supremum(lambda epsilon: True) == math.inf
