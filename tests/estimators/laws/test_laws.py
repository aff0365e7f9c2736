"""The laws against exact arithmetic, elementary closed forms and scipy."""

import math
from fractions import Fraction

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
    law = ExactCosine(dim)
    point = float(Fraction(x))
    assert law.logsf(point) == pytest.approx(log_fraction(exact), rel=1e-11)
    assert law.logcdf(point) == pytest.approx(math.log1p(-float(exact)), rel=1e-11, abs=1e-320)
    assert law.logcdf(-point) == law.logsf(point)


def test_exact_cosine_tail_below_the_smallest_float():
    exact = exact_cosine_sf(999, Fraction(99, 100))
    assert log_fraction(exact) < math.log(1e-300)
    assert ExactCosine(999).logsf(0.99) == pytest.approx(log_fraction(exact), rel=1e-12)


def test_exact_cosine_in_the_plane_is_the_arcsine_law():
    x = np.linspace(-0.999, 0.999, 41)
    assert np.exp(ExactCosine(2).logsf(x)) == pytest.approx(np.arccos(x) / math.pi, rel=1e-12)


def test_exact_cosine_in_four_dimensions_is_the_semicircle_law():
    x = np.linspace(-0.99, 0.99, 41)
    sf = 0.5 - (x * np.sqrt(1 - x**2) + np.arcsin(x)) / math.pi
    assert np.exp(ExactCosine(4).logsf(x)) == pytest.approx(sf, rel=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 10, 500, 999])
def test_exact_cosine_has_no_mass_outside_its_range(dim):
    law = ExactCosine(dim)
    assert law.logsf([1.0, 1.5]).tolist() == [-math.inf, -math.inf]
    assert law.logsf([-1.0, -1.5]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dim", [2, 3, 47, 500, 999])
def test_exact_cosine_forms_join_smoothly(dim):
    # The three forms meet inside this grid: a jump at a seam would show as an increase.
    x = np.linspace(0, 0.9999, 20_001)
    assert np.all(np.diff(ExactCosine(dim).logsf(x)) < 0)


def test_exact_cosine_describes_random_directions():
    # Kolmogorov-Smirnov on 20,000 draws rejects a true law at 1e-7 with probability 1e-7.
    draws = np.random.default_rng(7).normal(size=(20_000, 12))
    cosines = draws[:, 0] / np.linalg.norm(draws, axis=1)
    assert stats.kstest(cosines, lambda x: np.exp(ExactCosine(12).logcdf(x))).pvalue > 1e-7


@pytest.mark.parametrize("law", [ExactCosine(2), ExactCosine(30), ExactCosine(999), Gaussian(2, 3)])
@pytest.mark.parametrize("p", [1e-12, 1e-5, 0.2, 0.3, 0.499999, 0.5, 0.6, 0.9])
def test_quantiles_invert_the_tails(law, p):
    assert np.exp(law.logsf(law.isf(p))) == pytest.approx(p, rel=1e-6)
    assert np.exp(law.logcdf(law.ppf(p))) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("x", [-40.0, -3.0, 0.0, 2.0, 9.0, 60.0, 2000.0])
def test_gaussian_tails_match_scipy(x):
    law = Gaussian(1.5, 2.5)
    assert law.logsf(x) == pytest.approx(stats.norm.logsf(x, 1.5, 2.5), rel=1e-12)
    assert law.logcdf(x) == pytest.approx(stats.norm.logcdf(x, 1.5, 2.5), rel=1e-12)


def test_gaussian_without_deviation_is_a_point_mass():
    law = Gaussian(2.0, 0.0)
    assert law.logsf([1.9, 2.0, 2.1]).tolist() == [0.0, 0.0, -math.inf]
    assert law.logcdf([1.9, 2.0, 2.1]).tolist() == [-math.inf, 0.0, 0.0]


def test_fit_uses_the_population_deviation():
    assert Gaussian.fitted_to([1.0, 3.0]) == Gaussian(2.0, 1.0)


def test_fit_to_equal_values_has_no_deviation_from_rounding():
    values = np.full(1000, 0.1)
    values_with_rounding = values.mean() != 0.1 or values.std() != 0
    assert values_with_rounding  # numpy alone would report a tiny deviation or another mean
    assert Gaussian.fitted_to(values) == Gaussian(0.1, 0.0)


def test_closed_form_null_changes_at_the_papers_dimension():
    assert closed_form_null(EXACT_COSINE_BELOW - 1) == ExactCosine(999)
    assert closed_form_null(EXACT_COSINE_BELOW) == Gaussian(0.0, 1000**-0.5)


def test_gaussian_limit_is_close_where_it_takes_over():
    x = np.linspace(-0.1, 0.1, 101)
    limit = Gaussian(0.0, 999**-0.5)
    gap = np.exp(ExactCosine(999).logsf(x)) - np.exp(limit.logsf(x))
    assert np.max(np.abs(gap)) < 2e-4


@pytest.mark.parametrize("dim", [1, 0, -3, 2**53 + 1])
def test_exact_cosine_refuses_other_dimensions(dim):
    with pytest.raises(ValueError, match=f"got {dim}"):
        ExactCosine(dim)


@pytest.mark.parametrize(("mean", "std"), [(math.nan, 1), (0, -1), (0, math.inf), (math.inf, 1)])
def test_gaussian_refuses_bad_parameters(mean, std):
    with pytest.raises(ValueError, match="must be finite"):
        Gaussian(mean, std)


def test_fit_refuses_no_values():
    with pytest.raises(ValueError, match="got none"):
        Gaussian.fitted_to([])
