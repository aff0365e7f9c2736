"""Sums of integers against their definition: dense matrices, Python's integers, closed forms.

Keys are fixed, so that a test passes once and for all.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg, stats

from fl_audit.engines.jax.from_config import aggregation_of
from fl_audit.engines.jax.integer_sums import centred, random_signs, rotated, rotated_back, rounded
from fl_audit.engines.jax.noise_processes import fold_in
from fl_audit.errors import InputError
from fl_audit.mechanisms import Distributed, FixedZeroing, round_noise
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from tests.engines.jax.test_aggregation import key, many_keys
from tests.engines.jax.test_skellam_draws import chi_square, probabilities

CLIP = 0.25
BLOCK = 3


def aggregation_for(table, cohort, dim):
    """The aggregation of a model of two arrays."""
    shapes = [(dim // 4,), (dim - dim // 4,)]
    return aggregation_of(table, round_noise(table, cohort), cohort, 5, shapes)


class Rounds:
    """An aggregation's sums of vectors, in blocks of three."""

    def __init__(self, aggregation, dim):
        self.aggregation, self.dim = aggregation, dim
        self.norms = aggregation.begin
        self._clipped_sum = jax.jit(aggregation.clipped_sum)
        self._release = jax.jit(aggregation.release)

    def sums(self, updates, of_round, numbers=None):
        """The `Summed` of some updates."""
        first = self.dim // 4
        total = self.aggregation.nothing([np.zeros(first), np.zeros(self.dim - first)])
        numbers = range(len(updates)) if numbers is None else numbers
        pairs = list(zip(numbers, updates, strict=True))
        for start in range(0, len(pairs), BLOCK):
            block = pairs[start : start + BLOCK]
            block += [(-1, np.ones(self.dim))] * (BLOCK - len(block))
            stacked = np.array([update for _, update in block], np.float32)
            part = self._clipped_sum(
                self.norms,
                [stacked[:, :first], stacked[:, first:]],
                np.zeros((BLOCK, 2), np.float32),
                np.array([number for number, _ in block], np.int32),
                of_round,
            )
            total = jax.tree_util.tree_map(jnp.add, total, part)
        return total

    def run(self, updates, of_round):
        """The aggregate, as one vector; the norms move on."""
        total = self.sums(updates, of_round)
        aggregate, self.norms, _ = self._release(self.norms, (), total, of_round)
        return np.concatenate([np.ravel(part) for part in aggregate])


signs_of = jax.jit(random_signs, static_argnums=1)


def test_the_rotation_is_hadamards_matrix_times_signs():
    signs = signs_of(key(1), 64)
    assert set(np.asarray(signs)) == {-1.0, 1.0}
    vector = np.random.default_rng(1).standard_normal(50).astype(np.float32)
    expected = linalg.hadamard(64) @ (np.asarray(signs) * np.pad(vector, (0, 14))) / 8
    turned = jax.jit(rotated)(vector, signs)
    np.testing.assert_allclose(turned, expected, atol=1e-6)
    turned_back = jax.jit(rotated_back, static_argnums=2)(turned, signs, 50)
    np.testing.assert_allclose(turned_back, vector, atol=1e-6)


def test_rounding_has_the_value_as_its_mean():
    values = np.repeat(np.float32([-2.75, -0.5, 0.0, 0.1, 3.0, 1e5 + 0.25]), 1 << 16)
    found = np.asarray(jax.jit(rounded)(key(3), values)).reshape(6, -1)
    fractions = np.array([0.25, 0.5, 0.0, 0.1, 0.0, 0.25])
    floors = np.array([-3, -1, 0, 0, 3, 100_000])
    assert (np.abs(found - floors[:, None] - 0.5) <= 0.5).all()
    errors = 5 * (fractions * (1 - fractions) / (1 << 16)) ** 0.5
    assert (np.abs(found.mean(1) - floors - fractions) <= errors).all()


@pytest.mark.parametrize("bits", [1, 4, 22])
def test_integers_wrap_around_as_pythons_do(bits):
    numbers = np.random.default_rng(bits).integers(-(2**31), 2**31, 500)
    half = 2 ** (bits - 1)
    edges = [-half - 1, -half, -1, 0, half - 1, half, 2 * half]
    numbers = np.concatenate([numbers, edges]).astype(np.int32)
    expected = [(int(number) + half) % (2 * half) - half for number in numbers]
    assert np.asarray(centred(jnp.asarray(numbers), bits)).tolist() == expected


@pytest.fixture(scope="module")
def small():
    """Rounds of 32 numbers in sums of four bits, without noise."""
    zeroing = FixedZeroing(norm=0.5)
    table = Distributed(
        noise_multiplier=0.0, clip_norm=CLIP, bits=12, norm_inflation=1.0, zeroing=zeroing
    )
    aggregation = aggregation_for(table, 5, 32)
    return Rounds(dataclasses.replace(aggregation, bits=4, most_cells=20.0), 32)


def test_a_sum_is_that_of_pythons_integers_modulo_its_bits(small):
    """Five participants whose integers, each encoded alone, add up beyond four bits."""
    dim, of_round = small.dim, key(4)
    updates = 0.1 * np.random.default_rng(4).standard_normal((5, dim))
    alone = [
        [int(number) for number in small.sums([update], of_round, [at]).updates[0]]
        for at, update in enumerate(updates)
    ]
    sums = [sum(column) for column in zip(*alone, strict=True)]
    wrapped = [(number + 8) % 16 - 8 for number in sums]
    assert sum(a != b for a, b in zip(sums, wrapped, strict=True)) > 3
    turned_back = linalg.hadamard(dim).T @ np.array(wrapped) / dim**0.5
    signs = np.asarray(signs_of(fold_in(of_round, 0), dim))
    expected = turned_back * signs / (20.0 / CLIP) / 5
    np.testing.assert_allclose(small.run(updates, of_round), expected, atol=1e-6)


def test_what_zeroing_takes_out_leaves_nothing(small):
    """And counts as within the clip norm, as in TFF; what holds a NaN does not."""
    long, short = np.full(32, 0.2), np.full(32, 0.01)
    too_long = [np.full(32, 0.6), np.full(32, np.inf), np.full(32, np.nan)]
    kept, total = (small.sums([long, short, *more], key(8)) for more in ([], too_long))
    np.testing.assert_array_equal(total.updates[0], kept.updates[0])
    assert np.asarray(kept.updates[0]).any()
    assert (kept.participants, kept.unclipped) == (2, 1)
    assert (total.participants, total.unclipped) == (5, 3)


def test_sums_beyond_32_bits_are_exact():
    """Modulo 2^32, which the modulus divides."""
    large = np.array([2**31 - 5, -(2**31), 1234567], np.int32)
    total = jnp.zeros(3, jnp.int32)
    for _ in range(9):
        total = total + large
    expected = [(9 * int(number) + 2**19) % 2**20 - 2**19 for number in large]
    assert np.asarray(centred(total, 20)).tolist() == expected


COHORT, DIM = 7, 1 << 14


def rounds_of(multiplier, bits):
    """Rounds of seven participants, and the variance of all their noise in steps of the grid."""
    table = Distributed(noise_multiplier=multiplier, clip_norm=CLIP, bits=bits, norm_inflation=1.0)
    rounds = Rounds(aggregation_for(table, COHORT, DIM), DIM)
    return rounds, (multiplier * CLIP * float(rounds.aggregation.scale(rounds.norms))) ** 2


@pytest.fixture(scope="module")
def coarse():
    """A grid so coarse that the distribution of the noise is seen."""
    return rounds_of(0.004, 8)


def noise_sums(rounds, participants):
    """Sums of integers of participants who send nothing but noise."""
    nothing = [np.zeros(DIM)] * participants
    sums = [rounds.sums(nothing, of_round).updates[0] for of_round in many_keys(5, 8)]
    return np.concatenate(sums).astype(np.int64)


@pytest.mark.parametrize("participants", [3, 7, 9])
def test_the_noise_of_participants_is_one_skellam_variable(coarse, participants):
    """Each participant adds one of seven shares of the variance, however many come."""
    rounds, variance = coarse
    assert 2 < variance < 7
    expected = probabilities(variance * participants / COHORT, 40)
    assert chi_square(noise_sums(rounds, participants), expected, 40) > 1e-3


@pytest.mark.slow
def test_noise_on_a_fine_grid_has_the_moments_of_skellam():
    """Within five errors."""
    rounds, variance = rounds_of(0.5, 20)
    numbers = noise_sums(rounds, COHORT) / variance**0.5
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(numbers**power) - moment) < 5 * (spread / len(numbers)) ** 0.5


def test_the_aggregate_has_the_variance_of_rounding_and_noise(coarse):
    """Of an update whose rotated coordinates all lie halfway between two steps of the grid.

    Rounding then has variance 1/4 a participant, and noise x / n: of the mean of n, (n / 4 + x) /
    (n s)^2. Its square is summed over 2^14 coordinates, as rotations keep it, and over 8 rounds;
    with the fourth cumulants -n/8 and x the standard error is known, and five of it are held.
    """
    rounds, skellam = coarse
    scale = float(rounds.aggregation.scale(rounds.norms))
    update = np.zeros(DIM)
    update[77] = 0.5 * DIM**0.5 / scale
    assert update[77] < CLIP
    errors = [rounds.run([update] * COHORT, k) - update for k in many_keys(6, 8)]
    variance = COHORT / 4 + skellam
    found = np.mean(np.square(np.array(errors, np.float64))) * (COHORT * scale) ** 2
    fourth = skellam - COHORT / 8
    spread = ((2 * variance**2 + fourth) / (8 * DIM)) ** 0.5
    assert abs(found - variance) < 5 * spread
    assert abs(np.mean(errors)) * COHORT * scale < 5 * (variance / (8 * DIM)) ** 0.5


def test_the_count_that_moves_the_clip_has_the_accounted_noise():
    """Of 18 participants, seven of them within the clip norm."""
    table = Distributed(noise_multiplier=0.5)
    assert round_noise(table, 20).count_noise_stddev == 1.0
    aggregation = aggregation_for(table, 20, 64)
    begin = aggregation.begin
    assert float(begin.clip) == pytest.approx(0.1)
    nothing = aggregation.nothing([np.zeros(16), np.zeros(48)])
    total = nothing._replace(participants=np.float32(18), unclipped=np.float32(7))
    keys = many_keys(7, 500)
    after = jax.jit(jax.vmap(lambda k: aggregation.release(begin, (), total, k)[1].clip))(keys)
    clip = AdaptiveClip(target_quantile=0.5, learning_rate=0.2, count_stddev=1.0, denominator=20)
    counts = clip.count(np.full(500, begin.clip, np.float64), np.asarray(after, np.float64))
    assert stats.kstest(counts, stats.norm(7 - 18 / 2, 1.0).cdf).pvalue > 1e-3


def test_too_coarse_a_grid_for_a_model_is_refused_in_one_line():
    table = Distributed(noise_multiplier=0.3, clip_norm=CLIP, bits=12)
    with pytest.raises(InputError, match=r"norm_inflation: rounding 3,000 parameters .* 12 bits"):
        aggregation_for(table, 4, 3000)
