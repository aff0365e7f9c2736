"""The noise of a round in JAX, against its distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fl_audit.engines.jax.from_config import aggregation_of
from fl_audit.engines.jax.noise_processes import fold_in, keys_of, standard_normal, threefry
from fl_audit.mechanisms import round_noise
from fl_audit.mechanisms.independent import GaussianFixed

COHORT = 10.0


def key(seed):
    return keys_of(np.random.default_rng(seed))(0)


def many_keys(seed, number):
    return jax.jit(jax.vmap(fold_in, (None, 0)))(key(seed), jnp.arange(number))


normal = jax.jit(standard_normal, static_argnums=1)


def test_normal_numbers_have_the_normal_distribution():
    """The key is fixed, so that this passes or fails once and for all."""
    draws = np.asarray(normal(key(1), (1 << 21,)), np.float64)
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    # Three hundred keys draw the first number of a round each.
    firsts = jax.jit(jax.vmap(lambda of_round: standard_normal(of_round, ())))(many_keys(2, 300))
    assert stats.kstest(np.asarray(firsts), "norm").pvalue > 1e-3
    for beyond in (3.0, 4.0, 4.75):
        expected = 2 * stats.norm.sf(beyond) * len(draws)
        found = np.sum(np.abs(draws) > beyond)
        assert abs(found - expected) < 4 * np.sqrt(expected) + 1
    assert np.abs(draws).max() < 6.8
    halves = draws.reshape(-1, 2).T  # a pair has one radius, and no other dependence
    assert abs(np.mean(halves[0] * halves[1])) < 5 / halves.shape[1] ** 0.5
    assert abs(np.mean((halves[0] ** 2 - 1) * (halves[1] ** 2 - 1))) < 10 / halves.shape[1] ** 0.5


# The authors' Random123, tests/kat_vectors: rounds 20; counter, key, words.
@pytest.mark.parametrize(
    ("counter", "of_key", "words"),
    [
        ("00000000 " * 4, "00000000 " * 4, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
        ("ffffffff " * 4, "ffffffff " * 4, "2a881696 57012287 f6c7446e a16a6732"),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0 082efa98 ec4e6c89",
            "59cd1dbb b8879579 86b5d00c ac8b6d84",
        ),
    ],
)
def test_the_generator_is_threefry(counter, of_key, words):
    counter, of_key = (
        [jnp.uint32(int(word, 16)) for word in text.split()] for text in (counter, of_key)
    )
    drawn = jax.jit(threefry)(jnp.stack(of_key), counter)
    assert [f"{int(word):08x}" for word in drawn] == words.split()


def test_the_tail_ends_at_nine_and_a_half(monkeypatch):
    def least(key, blocks):
        return [jnp.zeros(blocks, jnp.uint32)] * 4

    monkeypatch.setattr("fl_audit.engines.jax.noise_processes.random_words", least)
    assert float(standard_normal(key(1), ())) == pytest.approx((130 * np.log(2)) ** 0.5, rel=1e-6)


def test_variables_of_a_round_have_independent_noise():
    aggregation = aggregation_of(
        table := GaussianFixed(noise_multiplier=1.0, clip_norm=2.0),
        round_noise(table, COHORT),
        COHORT,
        1,
        [(40, 50), (2000,)],
    )
    nothing = aggregation.nothing([np.zeros((40, 50), np.float32), np.zeros(2000, np.float32)])
    release = jax.jit(aggregation.release)
    (first, second), norms, _ = release(aggregation.begin, (), nothing, key(3))
    assert float(norms.clip) == 2.0
    for part in (first, second):
        assert stats.kstest(np.ravel(part) * COHORT / 2, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(np.ravel(first), second)[0, 1]) < 4 / np.sqrt(2000)
