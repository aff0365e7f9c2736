"""The beta cdf where scipy 1.9's betainc does not converge."""

import numpy as np
import pytest
from scipy import special

from fl_audit.estimators.beta_distribution import beta_cdf


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
