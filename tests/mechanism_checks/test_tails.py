"""The closed forms against the laws that they bound."""

import numpy as np
import pytest
import scipy.stats

from fl_audit.mechanism_checks.tails import log_p_autocorrelation, log_p_longer, log_p_shorter

DOFS = np.array([1.0, 2, 10, 1000, 4_050_748])


@pytest.mark.parametrize("dof", DOFS)
def test_shorter_bounds_chi_square(dof):
    """Tightly enough: not more than 3 + log(dof) / 2 above the logarithm."""
    lengths = dof * (1 - np.linspace(0.02, 5, 40) * np.sqrt(2 / dof))
    lengths = lengths[lengths > 0]
    exact = scipy.stats.chi2.logcdf(lengths, dof)
    bound = log_p_shorter(lengths, np.full_like(lengths, dof))
    assert (bound >= exact).all()
    assert (bound <= exact + 3 + np.log(dof) / 2).all()


def test_shorter_is_certain_from_the_mean_on():
    dof = np.array([5.0, 5, 5])
    assert log_p_shorter(np.array([5.0, 6, 1e9]), dof).tolist() == [0, 0, 0]
    assert log_p_shorter(np.array([0.0]), dof[:1]).tolist() == [-np.inf]


def test_shorter_where_the_probability_is_no_float():
    """Half the length of 4 million numbers: d / 2 (1 - 1/4 + log 1/4), in exact arithmetic."""
    found = log_p_shorter(np.array([1e6]), np.array([4e6]))
    assert found[0] == pytest.approx(2e6 * (0.75 - np.log(4)), rel=1e-12)


@pytest.mark.parametrize("dof", DOFS[:4])
@pytest.mark.parametrize("norm_bound", [0.0, 1.0, 30.0])
def test_longer_bounds_noncentral_chi_square(dof, norm_bound):
    mean, spread = dof + norm_bound**2, np.sqrt(2 * (dof + 2 * norm_bound**2))
    lengths = mean + np.linspace(-2, 6, 33) * spread
    exact = (
        scipy.stats.ncx2.logsf(lengths, dof, norm_bound**2)
        if norm_bound
        else scipy.stats.chi2.logsf(lengths, dof)
    )
    bound = log_p_longer(lengths, np.full_like(lengths, dof), np.full_like(lengths, norm_bound))
    assert (bound >= exact - 1e-9).all()
    assert bound[0] == 0
    # y standard deviations up the bound is between e^(-y^2 / 2) and what a chi-square of 1 has.
    assert bound[-1] <= -2.5


def test_longer_of_an_infinite_length():
    one = np.ones(1)
    assert log_p_longer(np.array([np.inf]), one, one)[0] == -np.inf


@pytest.mark.parametrize("lag", [1, 7])
@pytest.mark.parametrize("norm_bound", [0.0, 5.0])
def test_autocorrelation_bounds_simulated_correlations(lag, norm_bound):
    """Share of 20,000 vectors above thresholds that the bound gives 1 % to 50 %.

    The signal has the largest correlation with itself that its length allows. If the bound did not
    hold with the share p, the count would exceed 20,000 p + 6 standard deviations with a
    probability below 1e-6 at most if the true share were p: far below where it does hold.
    """
    dim, trials = 40, 20_000
    random = np.random.default_rng(3)
    shape = np.cos(np.pi * np.arange(dim) / lag) if lag == 1 else np.ones(dim)
    signal = norm_bound * shape / np.linalg.norm(shape)
    x = signal + random.normal(size=(trials, dim))
    products = np.abs((x[:, lag:] * x[:, :-lag]).sum(axis=1))
    log_p = log_p_autocorrelation(products, np.full(trials, float(dim - lag)), norm_bound)
    for p in (0.01, 0.1, 0.5):
        most = trials * p + 6 * np.sqrt(trials * p * (1 - p))
        assert (log_p <= np.log(p)).sum() <= most


def test_autocorrelation_of_a_repeated_half_is_certain():
    """50,000 pairs of equal numbers: 2 r^2 + sqrt(100,000) r = 50,000 for r^2 = log 4 - log p."""
    found = log_p_autocorrelation(np.array(50_000.0), np.array(50_000.0), 0.0)
    root = (-np.sqrt(1e5) + np.sqrt(1e5 + 4 * 2 * 5e4)) / 4
    assert found == pytest.approx(np.log(4) - root**2, rel=1e-12)
    assert found < -9_000
