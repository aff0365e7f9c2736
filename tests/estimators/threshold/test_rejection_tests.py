"""Tests at ranks of excluded scores: their levels, and how often the worst case is rejected."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.threshold.rejection_tests import (
    largest_rate,
    largest_rejected_claim,
    rank_tests,
)

SEED = 1941


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n0", [2, 3, 50, 10**6])
@pytest.mark.parametrize("confidence", [0.01, 0.95, 1 - 1e-11])
def test_levels_and_cells_add_up(n0, confidence):
    tests = rank_tests(n0, confidence)
    assert tests.levels.sum() == pytest.approx(1 - confidence, rel=1e-12)
    assert tests.masses.sum() == pytest.approx(1, rel=1e-12)
    assert np.all(tests.masses > 0)
    assert tests.ranks[0] == 1
    assert tests.ranks[-1] == n0
    assert np.all(np.diff(tests.cells, axis=1) >= 0)
    assert np.all(tests.cells[:, -1] == 1)
    # The cells' ends are quantiles of V: their masses are those of its law.
    j = tests.ranks[:, None]
    distribution = stats.beta.cdf(tests.cells[:, :-1], j, n0 - j + 1)
    expected = np.broadcast_to(np.cumsum(tests.masses)[:-1], distribution.shape)
    assert distribution == pytest.approx(expected, rel=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("n0", "n1"), [(20, 200), (200, 20), (60, 60)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_the_worst_law_is_rejected_no_more_often_than_allowed(n0, n1, epsilon):
    # V uniform and the included rate exactly G(V): the mechanism of largest rates, which is
    # randomised response. Failures beyond the limit have probability below 1e-6.
    rng, runs = np.random.default_rng(SEED), 400
    distribution = largest_rate(0.0)
    tests = rank_tests(n0, 0.8)
    failures = 0
    for _ in range(runs):
        excluded = np.sort(rng.random(n0))  # the score is 1 - v: small v is a large score
        quantiles = rng.random(n1)
        v = excluded[tests.ranks - 1]
        above = np.sum(quantiles[:, None] < distribution(v, epsilon), axis=0)
        failures += largest_rejected_claim(tests, above, n1, distribution).claim > epsilon
    assert failures <= stats.binom.isf(1e-6, runs, 0.2)
    assert failures >= 5  # nor is it far from that
