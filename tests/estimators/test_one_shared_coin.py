"""A 1-GDP mechanism under which the scores of canaries depend on each other."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu

DELTA, CONFIDENCE, RUNS, COUNT = 1e-5, 0.95, 60, 4000

LEAKS, ERROR = 0.3, 0.25
"""With probability LEAKS all inclusion bits are released, each wrong with probability ERROR."""


def released(seed):
    """A guess of each inclusion bit; without the shared coin it is a coin's."""
    random = np.random.default_rng(seed)
    bits = random.random(COUNT) < 0.5
    wrong = random.random(COUNT) < (ERROR if random.random() < LEAKS else 0.5)
    guesses = np.where(wrong, ~bits, bits) + 1e-3 * random.random(COUNT)
    return CanaryScores(guesses[bits], guesses[~bits])


@pytest.mark.slow
def test_bounds_for_independent_scores_exceed_its_epsilon_and_others_do_not():
    # The trade-off of the mechanism is two lines through one point, above that of 1-GDP.
    alpha = 0.5 * (1 - LEAKS) + LEAKS * ERROR
    assert alpha >= stats.norm.cdf(stats.norm.isf(alpha) - 1)
    truth = epsilon_of_mu(1.0, DELTA)
    exceeding = dict.fromkeys(("threshold_gdp", "one_run_fdp"), 0)
    for seed in range(RUNS):
        setting = AuditSetting(released(seed), DELTA, CONFIDENCE)
        for method in exceeding:
            made = METHODS[method](setting)
            exceeding[method] += made.epsilon > truth
            assert ("independent scores" in made.valid_for) == (method == "threshold_gdp")
    # A valid 95 % bound exceeds this limit with probability below 1e-6.
    limit = stats.binom.isf(1e-6, RUNS, 1 - CONFIDENCE)
    assert exceeding["one_run_fdp"] == 0
    assert exceeding["threshold_gdp"] > limit
