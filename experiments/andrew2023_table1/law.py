"""The mean and standard deviation that theory gives Table 1's estimates; see README.md."""

import math
import sys

import numpy as np

from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma, sigma_of_epsilon

DIM, CANARIES, DELTA = 10**6, 10**3, 1e-6


def mean_and_deviation(epsilon: float) -> tuple[float, float]:
    """Of the estimate, by Gauss-Hermite quadrature over the Gaussian law of 1 / sigma."""
    sigma = sigma_of_epsilon(epsilon, DELTA)
    centre = 1 / math.sqrt(sigma**2 + CANARIES / DIM)
    relative_deviation = math.sqrt(sigma**2 / CANARIES + 2 / DIM)
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    inverses = centre * (1 + relative_deviation * nodes)
    estimates = [epsilon_of_sigma(1 / inverse, DELTA) for inverse in inverses]
    mean = float(np.average(estimates, weights=weights))
    return mean, math.sqrt(np.average((np.array(estimates) - mean) ** 2, weights=weights))


for true_epsilon in (1.0, 3.0, 10.0):
    mean, deviation = mean_and_deviation(true_epsilon)
    sys.stdout.write(f"epsilon {true_epsilon:g}: {mean:.3f} ± {deviation:.3f}\n")
