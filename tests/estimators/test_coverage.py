"""How often lower bounds exceed the truth, on mechanisms whose epsilon is known.

Each of about 2 n canaries is included by a fair coin, and its bit is released. A valid 95 % bound
exceeds the truth in at most 5 % of runs: more failures than `limit` have probability below 1e-6.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma

Bits = npt.NDArray[np.int64]
Release = Callable[[np.random.Generator, Bits], npt.NDArray[np.float64]]


def laplace(rng: np.random.Generator, bits: Bits) -> npt.NDArray[np.float64]:
    """Epsilon 1: every threshold outside (0, 1) attains it."""
    return bits + rng.laplace(size=len(bits))


def randomised_response(rng: np.random.Generator, bits: Bits) -> npt.NDArray[np.float64]:
    """Epsilon 1, with two scores only: all ties."""
    lies = rng.random(len(bits)) < 1 / (1 + math.e)
    return (bits ^ lies).astype(float)


def gaussian(rng: np.random.Generator, bits: Bits) -> npt.NDArray[np.float64]:
    """Noise multiplier 1/2, as cosines in dimension 10,000."""
    return (2 * bits + rng.normal(size=len(bits))) / 100


def bounds(method: str, release: Release, runs: int, n: int = 1000, delta=0.0, **arguments):
    """[runs] the bounds of one method."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(runs):
        bits = rng.integers(0, 2, 2 * n)
        scores = release(rng, bits)
        canaries = CanaryScores(scores[bits == 1], scores[bits == 0])
        found.append(estimate(canaries, delta=delta, methods=[method], **arguments).estimates[0])
    return np.array([made.epsilon for made in found])


def limit(runs: int) -> float:
    """More failures than this have probability below 1e-6 if each run fails with 5 %."""
    return float(stats.binom.isf(1e-6, runs, 0.05))


@pytest.mark.parametrize("release", [laplace, randomised_response])
@pytest.mark.parametrize("method", ["threshold_valid", "one_run_valid"])
def test_valid_bounds_cover_epsilon_1(method, release):
    found = bounds(method, release, runs=1000)
    assert np.sum(found > 1) <= limit(1000)
    assert np.median(found) > 0.35  # they do not hold by proving nothing


@pytest.mark.slow
@pytest.mark.parametrize("method", ["threshold_valid", "one_run_valid"])
@pytest.mark.parametrize("n", [100, 5000])
def test_valid_bounds_cover_epsilon_1_at_other_sizes(method, n):
    assert np.sum(bounds(method, laplace, runs=5000, n=n) > 1) <= limit(5000)


@pytest.mark.parametrize("dim", [None, 10_000])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_valid_threshold_covers_the_gaussian_mechanism(dim, delta):
    truth = epsilon_of_sigma(0.5, delta)
    found = bounds("threshold_valid", gaussian, runs=1000, delta=delta, dim=dim)
    assert np.sum(found > truth) <= limit(1000)
    assert np.median(found) > 0.25 * truth


@pytest.mark.parametrize(
    ("method", "confidence", "n", "runs"),
    [
        # 97.5 % for each of two rates would make 95 % for a fixed threshold.
        ("threshold_jeffreys", 0.975, 1000, 1000),
        ("one_run", 0.95, 150, 300),
    ],
)
def test_unadjusted_bounds_do_not_cover(method, confidence, n, runs):
    # The excess over 5 % is no chance either: it has probability below 1e-6.
    found = bounds(method, laplace, runs=runs, n=n, confidence=confidence)
    assert np.sum(found > 1) > limit(runs)
