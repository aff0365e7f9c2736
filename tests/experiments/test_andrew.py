"""Andrew et al. 2024: table 1, the figures, and what is released."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.andrew2023_table1 import releases
from experiments.andrew2023_table1.law import sample_mean_cosine
from experiments.stackoverflow import figures
from experiments.stackoverflow.figures import Setting
from fl_audit.attacks.one_release import release
from fl_audit.canaries.families import GaussianFamily
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)

# Table 1 of Andrew et al. (2023): mean and deviation of the estimate over 50 trials, d = 10^6.


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


# Figures 1 and 2 of Andrew et al. (2023).


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    rng = np.random.default_rng(1)
    settings = {
        noise: {
            number: Setting(rng.normal(number * 1e-3, 1e-3, 50), 10**6, number / 2, number / 3)
            for number in (1, 4.9, 10)
        }
        for noise in (0.0, 0.1023, 0.3)
    }
    rows = figures.table(settings)
    assert rows[2].startswith("| 0 | 1 | 0.5 | 5.49 | 0.333 | 3.91 | ")
    assert rows[2].endswith(" | 0.464 |")
    assert rows[3].startswith("| 0 | 4.9 | 2.45 |  | 1.63 |  | ")
    assert rows[3].endswith(" |  |")
    assert rows[7].endswith(" | 0.116 |")
    assert rows[8].startswith("| 0.3 | 1 | 0.5 |  | ")
    figures.draw(settings, tmp_path / "figures.png")
    assert (tmp_path / "figures.png").stat().st_size > 10_000


# The real releases of Andrew et al. (2023), Table 1, in a small dimension.


FOLDER = Path(releases.__file__).parent


def test_rows_are_those_of_the_table_and_share_nothing():
    audits = releases.audits(trials=2, dim=500, canaries=10)
    for epsilon, audit in audits.items():
        shown = json.loads((FOLDER / f"epsilon_{epsilon}.json").read_text())
        assert audit.to_json().keys() == shown.keys()
        assert audit.sigma == shown["sigma"]
    assert len({epsilon for audit in audits.values() for epsilon in audit.epsilons}) == 6
