"""Beta quantiles against scipy.stats (Boost) and a closed form."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.beta_distribution import beta_quantile


@pytest.mark.parametrize("p", [1e-12, 1e-9, 1e-4, 0.05, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 30, 1000, 1_000_000])
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
