"""Tests at ranks of excluded scores against plain integration and simulation."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from fl_audit.estimators.threshold.rejection_tests import (
    largest_rate,
    largest_rejected_claim,
    rank_tests,
)

SEED = 1941


def exact_p_value(j, n0, k, n1, *, epsilon, delta):
    """E[P(Binomial(n1, G(V)) >= k)] over V ~ Beta(j, n0 - j + 1), by mpmath."""

    def density(v):
        power = v ** (j - 1) * (1 - v) ** (n0 - j)
        return power / mpmath.beta(j, n0 - j + 1)

    def tail(v):
        g = min(1, mpmath.exp(epsilon) * v + delta, 1 - mpmath.exp(-epsilon) * (1 - delta - v))
        return mpmath.betainc(k, n1 - k + 1, 0, g, regularized=True)

    kinks = [(1 - delta) / (1 + math.exp(epsilon)), 1 - delta]
    return float(mpmath.quad(lambda v: density(v) * tail(v), [0, *kinks, 1]))


@pytest.mark.parametrize(
    ("index", "k", "delta", "confidence"),
    [(2, 22, 1e-3, 0.95), (9, 40, 0.01, 0.8), (0, 39, 0.0, 1 - 1e-11)],
)
def test_claim_is_rejected_at_its_level(index, k, delta, confidence):
    # At the claim found the exact p-value is the level, but for the cells' rounding upwards.
    n0, n1 = 30, 40
    tests = rank_tests(n0, confidence)
    above = np.zeros(len(tests.ranks), dtype=np.int64)
    above[index] = k
    claim, found = largest_rejected_claim(tests, above, n1, largest_rate(delta))
    assert found == index % len(tests.ranks)
    assert claim > 0
    p = exact_p_value(int(tests.ranks[index]), n0, k, n1, epsilon=claim, delta=delta)
    assert 0.7 * tests.levels[index] < p <= tests.levels[index]
    assert confidence > 0.999 or p > 0.88 * tests.levels[index]


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
        failures += largest_rejected_claim(tests, above, n1, distribution)[0] > epsilon
    assert failures <= stats.binom.isf(1e-6, runs, 0.2)
    assert failures >= 5  # nor is it far from that
