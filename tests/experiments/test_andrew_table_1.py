"""Table 1 of Andrew et al. (2023): mean and deviation of the estimate over 50 trials, d = 10^6."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.andrew2023_table1.law import sample_mean_cosine
from fl_audit.attacks.one_release import release
from fl_audit.canaries.families import GaussianFamily
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)

DIM, CANARIES, DELTA, PAPER_TRIALS = 10**6, 10**3, 1e-6, 50
TRIALS = 400


def estimates(epsilon: float) -> np.ndarray:
    rng = np.random.default_rng(17)
    sigma = sigma_of_epsilon(epsilon, DELTA)
    cosines = sample_mean_cosine(sigma, DIM, CANARIES, TRIALS, rng)
    return np.array([epsilon_of_sigma(estimate_sigma([c], DIM), DELTA) for c in cosines])


@pytest.mark.parametrize(
    ("epsilon", "paper_mean", "paper_std"),
    [(1, 0.972, 0.148), (3, 3.04, 0.137), (10, 9.98, 0.190)],
)
def test_the_papers_50_trials_are_such_as_the_method_gives(epsilon, paper_mean, paper_std):
    ours = estimates(epsilon)
    # Failure probability below 1e-6 each: 4.9 standard errors of both means together, and the
    # central 1 - 1e-6 of the F law of the ratio of both variances.
    error = np.std(ours) * math.sqrt(1 / PAPER_TRIALS + 1 / TRIALS)
    assert abs(paper_mean - np.mean(ours)) < 4.9 * error
    ratio = stats.f(PAPER_TRIALS - 1, TRIALS - 1)
    assert ratio.ppf(5e-7) < paper_std**2 / np.var(ours) < ratio.isf(5e-7)


def test_the_law_is_that_of_real_releases():
    dim, canaries, sigma, trials = 300, 12, 0.4, 400
    rng = np.random.default_rng(23)
    real = []
    for trial in range(trials):
        family = GaussianFamily(trial, canaries, dim)
        real.append(np.mean(family.cosines(release(family, sigma, rng))))
    law = sample_mean_cosine(sigma, dim, canaries, trials, rng)
    assert stats.ks_2samp(real, law).pvalue > 1e-6
    # A law without the canaries' own angles would be told apart: k / dim against sigma^2.
    straight = sample_mean_cosine(sigma, 10**9, canaries, trials, rng) * math.sqrt(10**9 / dim)
    assert stats.ks_2samp(real, straight).pvalue < 1e-3


def test_one_canary_without_noise_is_the_release():
    found = sample_mean_cosine(0.0, 50, 1, 4, np.random.default_rng(1))
    np.testing.assert_allclose(found, 1.0)
