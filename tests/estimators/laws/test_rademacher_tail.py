"""The tail bound for Rademacher canaries, against all signs of adversarial vectors."""

import math

import numpy as np
import pytest
from scipy import special

from fl_audit.estimators.distributions import ExactCosine, Gaussian
from fl_audit.estimators.random_signs import rademacher_log_tail_bound

N = 14


def sign_sums(weights):
    """All 2^n signed sums of the weights."""
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums - weight, sums + weight])
    return np.sort(sums)


def adversarial_weights():
    yield "one spike", [1.0]
    for n in (2, 3, 4, 5, 6, 9, N):
        yield f"{n} equal", [1.0] * n
    for ratio in (0.5, 0.6, 0.75, 0.9):
        yield f"geometric {ratio}", ratio ** np.arange(N)
    for spike in (0.5, 1.0, 2.0, 5.0):
        yield f"spike {spike} and equal ones", [spike] + [1.0] * (N - 1)
    yield "harmonic", 1 / np.arange(1, N + 1)
    rng = np.random.default_rng(3)
    for draw in range(10):
        yield f"random {draw}", rng.exponential(size=N) ** 2


WEIGHTS = dict(adversarial_weights())


def exact_tails(weights, dim):
    """Cosines that some signs give, and the exact P(cosine >= each) in dimension dim."""
    weights = np.asarray(weights) / np.linalg.norm(weights)
    sums = sign_sums(weights)
    sums[np.abs(sums) < 1e-12] = 0  # without rounding
    # What exact arithmetic makes equal counts as equal, which can only raise the exact tail.
    above = len(sums) - np.searchsorted(sums, sums - 1e-12)
    return sums / math.sqrt(dim), above / len(sums)


@pytest.mark.parametrize("name", WEIGHTS)
def test_bounds_the_exact_tail(name):
    # Zero entries fill the vector up: only the weights that are not zero matter.
    for dim in (N, 1000):
        cosines, tails = exact_tails(WEIGHTS[name], dim)
        assert np.all(np.log(tails) <= rademacher_log_tail_bound(cosines, dim) + 1e-12)


def test_is_attained():
    """By one weight just above 0, and by two equal ones at sqrt(2) deviations."""
    assert np.exp(rademacher_log_tail_bound(1.0, 1)) == pytest.approx(0.5)
    assert np.exp(rademacher_log_tail_bound(1.0, 2)) == pytest.approx(0.25)


def test_gaussian_limit_and_uniform_law_are_no_bounds():
    """So that the correction is needed: they fall short by up to 3.178, the factor's value."""
    worst = {"gaussian": 0.0, "uniform": 0.0}
    for weights in WEIGHTS.values():
        cosines, tails = exact_tails(weights, N)
        far = cosines > 0
        for name, law in ("gaussian", Gaussian(0.0, N**-0.5)), ("uniform", ExactCosine(N)):
            excess = np.log(tails[far]) - law.logsf(cosines[far])
            worst[name] = max(worst[name], float(np.exp(excess.max())))
    assert worst["gaussian"] == pytest.approx(3.178, abs=1e-3)
    assert worst["uniform"] > 3


@pytest.mark.parametrize("dim", [1, 2, 100, 10**9])
def test_hoeffding_is_nowhere_smaller(dim):
    y = np.concatenate([np.linspace(1e-9, 6, 5001), np.linspace(6, 60, 100)])
    cosines = y / math.sqrt(dim)
    assert np.all(rademacher_log_tail_bound(cosines, dim) <= -(y**2) / 2)


def test_far_tail_is_the_gaussian_one_times_the_constant():
    bound = rademacher_log_tail_bound(40 / math.sqrt(10**7), 10**7)
    constant = 1 / (4 * special.ndtr(-math.sqrt(2)))
    assert bound == pytest.approx(math.log(constant) + special.log_ndtr(-40.0), rel=1e-12)


def test_falls_from_one():
    cosines = np.linspace(-1, 1, 20_001)
    bound = rademacher_log_tail_bound(cosines, 50)
    assert np.all(bound[cosines <= 0] == 0)
    assert np.all(np.diff(bound) <= 0)
    assert not np.isnan(bound).any()
    assert rademacher_log_tail_bound([[0.1, 0.2]], 50).shape == (1, 2)


def test_refuses_no_dimension():
    with pytest.raises(ValueError, match="dim must be at least 1, got 0"):
        rademacher_log_tail_bound(0.1, 0)
