"""Estimates of table 1 under their exact distribution, in 50 and in 20,000 trials; see README.md.

Nothing but lengths and angles matters of one audited release of the Gaussian mechanism, so a
release in a million dimensions with a thousand canaries is simulated with a few thousand numbers.
"""

import sys

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)

DIM, CANARIES, DELTA = 10**6, 10**3, 1e-6


def sample_mean_cosine(
    sigma: float, dim: int, num_canaries: int, trials: int, rng: np.random.Generator
) -> FloatArray:
    """The mean cosine of random canaries with their noised sum, in independent trials.

    With C the sum of the unit canaries and R = C + sigma Z, the mean cosine is <C, R> / (k |R|)
    (Andrew et al. 2023, section 3). |C| grows canary by canary, each at an exact random angle
    with the sum so far; then Z is its component along C and the length of the rest.

    Args:
      sigma: Noise, as a multiple of a canary's length, at least 0.
      dim: Dimension d of the release, at least 2.
      num_canaries: Number of canaries k, at least 1.
      trials: Number of releases.
      rng: Source of the randomness.

    Returns:
      The mean cosines, float64 of shape (trials,); `estimate_sigma` of one of them is that
        release's estimate.

    >>> cosines = sample_mean_cosine(2.0, 10**6, 1000, 3, np.random.default_rng(1))
    >>> (1 / (cosines * 1000)).round(1).tolist()
    [2.1, 1.9, 1.9]
    """
    squared = np.ones(trials)
    for _ in range(num_canaries - 1):
        along = rng.standard_normal(trials)
        cosine = along / np.sqrt(along**2 + rng.chisquare(dim - 1, trials))
        squared = squared + 1 + 2 * np.sqrt(squared) * cosine
    length = np.sqrt(np.maximum(squared, 0.0))
    along = length + sigma * rng.standard_normal(trials)
    across = sigma**2 * rng.chisquare(dim - 1, trials)
    return np.asarray(length * along / (num_canaries * np.sqrt(along**2 + across)))


def main() -> None:
    """Prints mean and deviation of the estimate for every epsilon of the table."""
    rng = np.random.default_rng(2023)
    for epsilon in (1.0, 3.0, 10.0):
        sigma = sigma_of_epsilon(epsilon, DELTA)
        for trials in (50, 20_000):
            cosines = sample_mean_cosine(sigma, DIM, CANARIES, trials, rng)
            estimates = [
                epsilon_of_sigma(estimate_sigma([cosine], DIM), DELTA) for cosine in cosines
            ]
            mean, std = np.mean(estimates), np.std(estimates)
            sys.stdout.write(f"epsilon {epsilon:g}, {trials} trials: {mean:.3f} ± {std:.3f}\n")


if __name__ == "__main__":
    main()
