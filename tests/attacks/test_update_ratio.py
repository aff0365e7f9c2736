"""Signals of canaries that hold examples, beside dense linear algebra and a simulated round."""

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks.update_ratio import (
    MOST_DIRECTIONS,
    RoundFilter,
    Signals,
    log_likelihood_ratios,
)

DIM = 40


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_signals_are_those_of_the_dense_covariance():
    stand_ins, canaries, noised = drawn(0, 6, DIM), drawn(1, 5, DIM), 9 * drawn(2, DIM)
    counts, repeats = np.array([1.0, 2, 0.5, 3, 1, 1]), 4.0
    found = RoundFilter.from_round(noised, stand_ins, counts, repeats)
    spread = repeats * (stand_ins.T * counts) @ stand_ins
    rest = noised - counts @ stand_ins
    basis = np.linalg.svd(stand_ins)[2][6:]  # what the stand-ins do not span
    variance = np.sum((basis @ rest) ** 2) / (DIM - 6)
    assert found.noise_variance == pytest.approx(variance, rel=1e-4)
    inverse = np.linalg.inv(variance * np.eye(DIM) + spread)
    seen = found.signals(canaries)
    np.testing.assert_allclose(seen.signal, canaries @ inverse @ rest, rtol=1e-3, atol=1e-5)
    energy = np.einsum("ij,jk,ik->i", canaries, inverse, canaries)
    np.testing.assert_allclose(seen.energy, energy, rtol=1e-3)


def test_of_many_stand_ins_the_directions_of_most_variance_are_kept():
    strong, weak = 10 * drawn(3, 2, 200), 0.1 * drawn(4, MOST_DIRECTIONS + 8, 200)
    both = np.concatenate([weak, strong])
    found = RoundFilter.from_round(drawn(5, 200), both, np.ones(len(both)), 1.0)
    assert len(found.directions) == MOST_DIRECTIONS
    inside = strong @ found.directions.T @ found.directions
    np.testing.assert_allclose(inside, strong, atol=1e-3)


def test_signals_have_their_energy_as_variance_and_as_shift():
    """4,000 canaries: a mean is within 5 / sqrt(4000) < 0.08 but for a chance of 6e-7."""
    rng = np.random.default_rng(8)
    dim, count = 2000, 4000
    stand_ins = drawn(9, 8, dim) + 1
    others = 3 * (drawn(10, 12, dim) + 1).sum(0)
    noised = (others + 40 * rng.normal(size=dim)).astype(np.float32)
    canaries = drawn(11, count, dim)
    found = RoundFilter.from_round(noised, stand_ins, np.full(8, 36 / 8), 1.0)
    outside = found.signals(canaries)
    z = outside.signal / np.sqrt(outside.energy)
    assert abs(z.mean()) < 0.08
    assert 0.9 < z.std() < 1.1
    present = canaries[:1]
    with_it = RoundFilter.from_round(noised + present[0], stand_ins, np.full(8, 36 / 8), 1.0)
    shift = with_it.signals(present).signal - found.signals(present).signal
    np.testing.assert_allclose(shift, outside.energy[:1], rtol=0.02)


def test_likelihood_ratios_of_a_sampled_round():
    signal, energy, q = np.array([-1.0, 0, 4]), np.array([2.0, 2, 2]), 0.3
    root = np.sqrt(energy)
    without, having = (stats.norm.pdf(signal, mean, root) for mean in (0, energy))
    expected = np.log((1 - q) + q * having / without)
    np.testing.assert_allclose(log_likelihood_ratios(Signals(signal, energy), q), expected)
    np.testing.assert_array_equal(log_likelihood_ratios(Signals(signal, energy), 0.0), np.zeros(3))
