"""Estimates of table 1 under their exact law, in 50 and in 20,000 trials; see README.md."""

import sys

import numpy as np

from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)
from fl_audit.estimators.papers.andrew2023.release_law import sample_mean_cosine

DIM, CANARIES, DELTA = 10**6, 10**3, 1e-6

rng = np.random.default_rng(2023)
for epsilon in (1.0, 3.0, 10.0):
    for trials in (50, 20_000):
        cosines = sample_mean_cosine(sigma_of_epsilon(epsilon, DELTA), DIM, CANARIES, trials, rng)
        found = [epsilon_of_sigma(estimate_sigma([cosine], DIM), DELTA) for cosine in cosines]
        mean, std = np.mean(found), np.std(found)
        sys.stdout.write(f"epsilon {epsilon:g}, {trials} trials: {mean:.3f} ± {std:.3f}\n")
