"""The noise of a round in JAX, against its distribution."""

import numpy as np
from scipy import stats

from fl_audit.engines.jax.from_config import aggregation_of
from fl_audit.engines.jax.noise import keys_of, standard_normal
from fl_audit.mechanisms import round_noise
from fl_audit.mechanisms.independent import GaussianFixed

COHORT = 10.0


def key(seed):
    return keys_of(np.random.default_rng(seed))(0)


def test_normal_numbers_have_the_normal_distribution():
    """The key is fixed, so that this passes or fails once and for all."""
    draws = np.asarray(standard_normal(key(1), (1 << 21,)), np.float64)
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    # Two thousand keys draw the first number of a round each.
    firsts = np.array([float(standard_normal(key(seed), ())) for seed in range(300)])
    assert stats.kstest(firsts, "norm").pvalue > 1e-3
    for beyond in (3.0, 4.0, 4.75):
        expected = 2 * stats.norm.sf(beyond) * len(draws)
        found = np.sum(np.abs(draws) > beyond)
        assert abs(found - expected) < 4 * np.sqrt(expected) + 1
    assert np.abs(draws).max() < 6.8


def test_variables_of_a_round_have_independent_noise():
    aggregation = aggregation_of(
        table := GaussianFixed(noise_multiplier=1.0, clip_norm=2.0),
        round_noise(table, COHORT),
        COHORT,
        1,
        [(40, 50), (2000,)],
    )
    nothing = aggregation.nothing([np.zeros((40, 50), np.float32), np.zeros(2000, np.float32)])
    (first, second), norms, _ = aggregation.release(aggregation.begin, (), nothing, key(3))
    assert float(norms.clip) == 2.0
    for part in (first, second):
        assert stats.kstest(np.ravel(part) * COHORT / 2, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(np.ravel(first), second)[0, 1]) < 4 / np.sqrt(2000)
