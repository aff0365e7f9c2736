"""Mixture laws against mpmath, their fits, and Epsilon* of mixtures against dense grids."""

import math

import mpmath
import numpy as np
import pytest

from experiments.negoescu2024_appendix_b.mixtures import (
    GaussianMixture,
    fitted_mixture,
    kolmogorov_smirnov_table,
)
from fl_audit.estimators import Gaussian
from fl_audit.estimators.epsilon_star import epsilon_star_of_distributions

TWO = GaussianMixture((0.3, 0.7), (Gaussian(-2.0, 0.5), Gaussian(1.0, 2.0)))
THREE = GaussianMixture(
    (0.1, 0.6, 0.3), (Gaussian(-4.0, 0.2), Gaussian(0.0, 1.0), Gaussian(3.0, 0.1))
)


def log_cdf(distribution: GaussianMixture, x: float) -> float:
    with mpmath.workdps(30):
        parts = [
            weight * mpmath.ncdf(x, component.mean, component.std)
            for weight, component in zip(distribution.weights, distribution.components, strict=True)
        ]
        return float(mpmath.log(mpmath.fsum(parts)))


@pytest.mark.parametrize("x", [-60.0, -1.9, 3.3])
@pytest.mark.parametrize("distribution", [TWO, THREE])
def test_tails_by_mpmath(distribution, x):
    assert float(distribution.logcdf(x)) == pytest.approx(log_cdf(distribution, x), rel=1e-12)
    assert float(distribution.reflected().logsf(-x)) == pytest.approx(
        log_cdf(distribution, x), rel=1e-12
    )
    assert np.logaddexp(distribution.logcdf(x), distribution.logsf(x)) == pytest.approx(
        0.0, abs=1e-12
    )


def test_the_fit_finds_a_mixture_again():
    drawn = TWO.sample(20_000, np.random.default_rng(1))
    fitted = fitted_mixture(drawn, 2, seed=0)
    found = sorted(
        zip(fitted.components, fitted.weights, strict=True), key=lambda pair: pair[0].mean
    )
    # Errors are about 0.02; 0.1 is far out.
    for (component, weight), expected in zip(found, TWO.components, strict=True):
        assert component.mean == pytest.approx(expected.mean, abs=0.1)
        assert component.std == pytest.approx(expected.std, abs=0.1)
        assert weight == pytest.approx(TWO.weights[TWO.components.index(expected)], abs=0.05)


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
@pytest.mark.parametrize("others", [TWO, GaussianMixture((1.0,), (Gaussian(0.5, 1.5),))])
def test_epsilon_star_by_a_dense_grid(others, delta):
    found = epsilon_star_of_distributions(THREE, others, delta).epsilon
    low = max(float(distribution.ppf(delta)) for distribution in (THREE, others))
    high = min(float(distribution.isf(delta)) for distribution in (THREE, others))
    a = np.linspace(low, high, 200_001)
    tpr, fpr = np.exp(THREE.logsf(a)), np.exp(others.logsf(a))
    fnr, tnr = np.exp(THREE.logcdf(a)), np.exp(others.logcdf(a))
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    best = math.log(max(float(np.max((p - delta) / q)) for p, q in pairs))
    assert found == pytest.approx(best, abs=1e-3)


# Goodness of fit: the table rejects what does not fit and keeps its level where the fit is right.


def two_clusters(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(-3, 0.3, n // 2), rng.normal(3, 0.3, n // 2)])


def test_one_gaussian_does_not_fit_two_clusters_but_two_do():
    table = kolmogorov_smirnov_table(
        two_clusters(4000), num_components=(1, 2), num_samples=(300, 1000), seed=1
    )
    assert table.num_components == (1, 2)
    assert table.num_samples == (300, 1000)
    assert np.all(table.p_values[0] < 1e-6)
    # A p-value below 1e-6 has that probability where the fit is right.
    assert np.all(table.p_values[1] > 1e-6)
    assert table.not_rejected(1e-6).tolist() == [0.0, 1.0]
