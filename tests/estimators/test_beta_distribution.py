"""The beta distribution where scipy 1.9's functions do not converge."""

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators.distributions import beta_cdf, beta_quantile


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


# Beta quantiles against scipy.stats (Boost) and a closed form.


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
