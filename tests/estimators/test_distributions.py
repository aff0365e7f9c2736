"""Distributions against exact arithmetic, elementary closed forms, scipy and mpmath."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.distributions import (
    EXACT_COSINE_BELOW,
    ExactCosine,
    Gaussian,
    closed_form_null,
)


def exact_cosine_sf(dim: int, x: Fraction) -> Fraction:
    """P(cosine >= x) for odd dim, where the density is a polynomial, in rational arithmetic."""
    power = (dim - 3) // 2

    def integral(t: Fraction) -> Fraction:
        terms = (
            Fraction((-1) ** j * math.comb(power, j), 2 * j + 1) * t ** (2 * j + 1)
            for j in range(power + 1)
        )
        return sum(terms, Fraction(0))

    whole = integral(Fraction(1))
    return (whole - integral(x)) / (2 * whole)


def log_fraction(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


@pytest.mark.parametrize("dim", [3, 5, 51, 199, 999])
@pytest.mark.parametrize(
    "x", ["0", "1/1000000000", "1/100", "1/10", "1/2", "7/10", "9/10", "999/1000"]
)
def test_exact_cosine_tail_in_rational_arithmetic(dim, x):
    exact = exact_cosine_sf(dim, Fraction(x))
    distribution = ExactCosine(dim)
    point = float(Fraction(x))
    assert distribution.logsf(point) == pytest.approx(log_fraction(exact), rel=1e-11)
    assert distribution.logcdf(point) == pytest.approx(
        math.log1p(-float(exact)), rel=1e-11, abs=1e-320
    )
    assert distribution.logcdf(-point) == distribution.logsf(point)


def test_exact_cosine_tail_below_the_smallest_float():
    exact = exact_cosine_sf(999, Fraction(99, 100))
    assert log_fraction(exact) < math.log(1e-300)
    assert ExactCosine(999).logsf(0.99) == pytest.approx(log_fraction(exact), rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 10, 500, 999])
def test_exact_cosine_has_no_mass_outside_its_range(dim):
    distribution = ExactCosine(dim)
    assert distribution.logsf([1.0, 1.5]).tolist() == [-math.inf, -math.inf]
    assert distribution.logsf([-1.0, -1.5]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "distribution", [ExactCosine(2), ExactCosine(30), ExactCosine(999), Gaussian(2, 3)]
)
@pytest.mark.parametrize("p", [1e-12, 1e-5, 0.2, 0.3, 0.499999, 0.5, 0.6, 0.9])
def test_quantiles_invert_the_tails(distribution, p):
    assert np.exp(distribution.logsf(distribution.isf(p))) == pytest.approx(p, rel=1e-6)
    assert np.exp(distribution.logcdf(distribution.ppf(p))) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("x", [-40.0, -3.0, 0.0, 2.0, 9.0, 60.0, 2000.0])
def test_gaussian_tails_match_scipy(x):
    distribution = Gaussian(1.5, 2.5)
    assert distribution.logsf(x) == pytest.approx(stats.norm.logsf(x, 1.5, 2.5), rel=1e-12)
    assert distribution.logcdf(x) == pytest.approx(stats.norm.logcdf(x, 1.5, 2.5), rel=1e-12)


def test_fit_uses_the_population_deviation():
    assert Gaussian.fitted_to([1.0, 3.0]) == Gaussian(2.0, 1.0)


def test_closed_form_null_changes_at_the_papers_dimension():
    assert closed_form_null(EXACT_COSINE_BELOW - 1) == ExactCosine(999)
    assert closed_form_null(EXACT_COSINE_BELOW) == Gaussian(0.0, 1000**-0.5)


# The cosine's law in any dimension, against mpmath's incomplete beta function.


DIMS = [2, 3, 10, 50, 101, 999, 1000, 10**5, 4050748, 10**9, 10**15]
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


@pytest.mark.parametrize("dim", [2, 3, 4, 10, 51, 1000, 10**5])
@pytest.mark.parametrize("gap", [0.5, 0.1, 1e-3, 1e-9, 2.0**-53])
def test_tail_to_the_edge_of_the_range(dim, gap):
    x = 1 - gap
    assert ExactCosine(dim).logsf(x) == pytest.approx(float(exact_log_sf(dim, x)), rel=5e-15)


@pytest.mark.parametrize("dim", DIMS)
def test_tail_probability_itself_keeps_its_digits(dim):
    # Just below 3 deviations it is 1/2 minus the mass from 0, which costs 2.5 of 16 digits.
    for t in (1.0, 2.9, 3.1, 5.0):
        x = t / math.sqrt(dim)
        if x < 1:
            found = float(ExactCosine(dim).logsf(x))
            assert abs(float(mpmath.mpf(found) - exact_log_sf(dim, x))) < 4e-13


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-12, 1e-3, 0.1, 0.3, 0.49, 0.5 - 2.0**-40])
def test_quantile_has_its_probability(dim, p):
    distribution = ExactCosine(dim)
    x = float(distribution.isf(p))
    assert distribution.ppf(p) == -x
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
