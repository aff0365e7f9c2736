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


def test_the_rotation_is_hadamards_matrix_times_signs():
    signs = random_signs(key(1), 64)
    assert set(np.asarray(signs)) == {-1.0, 1.0}
    vector = np.random.default_rng(1).standard_normal(50).astype(np.float32)
    expected = linalg.hadamard(64) @ (np.asarray(signs) * np.pad(vector, (0, 14))) / 8
    turned = rotated(vector, signs)
    np.testing.assert_allclose(turned, expected, atol=1e-6)
    np.testing.assert_allclose(rotated_back(turned, signs, 50), vector, atol=1e-6)


def test_rounding_has_the_value_as_its_mean():
    values = np.repeat(np.float32([-2.75, -0.5, 0.0, 0.1, 3.0, 1e5 + 0.25]), 1 << 16)
    found = np.asarray(rounded(key(3), values)).reshape(6, -1)
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


def test_a_sum_is_that_of_pythons_integers_modulo_its_bits():
    """Five participants whose integers, each encoded alone, add up beyond four bits."""
    dim, bits = 32, 4
    table = Distributed(noise_multiplier=1.0, clip_norm=CLIP, bits=12, norm_inflation=1.0)
    aggregation = dataclasses.replace(aggregation_for(table, 5, dim), bits=bits, most_cells=20.0)
    rounds, of_round = Rounds(aggregation, dim), key(4)
    updates = np.random.default_rng(4).standard_normal((5, dim))
    alone = [
        [int(number) for number in rounds.sums([update], of_round, [at]).updates[0]]
        for at, update in enumerate(updates)
    ]
    sums = [sum(column) for column in zip(*alone, strict=True)]
    half = 2 ** (bits - 1)
    wrapped = [(number + half) % (2 * half) - half for number in sums]
    assert sum(a != b for a, b in zip(sums, wrapped, strict=True)) > 3
    scale = 20.0 / CLIP
    turned_back = linalg.hadamard(dim).T @ np.array(wrapped) / dim**0.5
    signs = np.asarray(random_signs(fold_in(of_round, 0), dim))
    expected = turned_back * signs / scale / 5
    np.testing.assert_allclose(rounds.run(updates, of_round), expected, atol=1e-6)


def test_sums_beyond_32_bits_are_exact():
    """Modulo 2^32, which the modulus divides."""
    large = np.array([2**31 - 5, -(2**31), 1234567], np.int32)
    total = jnp.zeros(3, jnp.int32)
    for _ in range(9):
        total = total + large
    expected = [(9 * int(number) + 2**19) % 2**20 - 2**19 for number in large]
    assert np.asarray(centred(total, 20)).tolist() == expected


COHORT, DIM = 7, 1 << 14


def noise_sums(multiplier, bits, participants=COHORT, seed=5):
    """Sums of integers of participants who send nothing but noise, and their variance."""
    table = Distributed(noise_multiplier=multiplier, clip_norm=CLIP, bits=bits, norm_inflation=1.0)
    aggregation = aggregation_for(table, COHORT, DIM)
    rounds = Rounds(aggregation, DIM)
    nothing = [np.zeros(DIM)] * participants
    sums = [rounds.sums(nothing, of_round).updates[0] for of_round in many_keys(seed, 8)]
    cells = CLIP * float(aggregation.scale(rounds.norms))
    return np.concatenate(sums).astype(np.int64), (multiplier * cells) ** 2


def test_the_noise_of_all_participants_is_one_skellam_variable():
    """Seven shares of a seventh of the variance, on a grid so coarse that the law is seen."""
    numbers, variance = noise_sums(0.004, 8)
    assert 2 < variance < 10
    assert chi_square(numbers, probabilities(variance, 40), 40) > 1e-3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("participants", [3, 7, 9])
def test_noise_on_a_fine_grid_has_the_moments_of_skellam(participants):
    """Each participant adds one of seven shares, however many come: within five errors."""
    numbers, variance = noise_sums(0.5, 20, participants)
    numbers = numbers / (variance * participants / COHORT) ** 0.5
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(numbers**power) - moment) < 5 * (spread / len(numbers)) ** 0.5


def test_the_aggregate_has_the_variance_of_rounding_and_noise():
    """Of an update whose rotated coordinates all lie halfway between two steps of the grid.

    Rounding then has variance 1/4 a participant, and noise x / n: of the mean of n, (n / 4 + x) /
    (n s)^2. Its square is summed over 2^14 coordinates, as rotations keep it, and over 8 rounds;
    with the fourth cumulants -n/8 and x the standard error is known, and five of it are held.
    """
    table = Distributed(noise_multiplier=0.002, clip_norm=CLIP, bits=8, norm_inflation=1.0)
    aggregation = aggregation_for(table, COHORT, DIM)
    rounds = Rounds(aggregation, DIM)
    scale = float(aggregation.scale(rounds.norms))
    update = np.zeros(DIM)
    update[77] = 0.5 * DIM**0.5 / scale
    assert update[77] < CLIP
    errors = [rounds.run([update] * COHORT, k) - update for k in many_keys(6, 8)]
    skellam = (0.002 * CLIP * scale) ** 2
    variance = COHORT / 4 + skellam
    assert 0.2 < skellam / variance < 0.8
    found = np.mean(np.square(np.array(errors, np.float64))) * (COHORT * scale) ** 2
    fourth = skellam - COHORT / 8
    spread = ((2 * variance**2 + fourth) / (8 * DIM)) ** 0.5
    assert abs(found - variance) < 5 * spread
    assert abs(np.mean(errors)) * COHORT * scale < 5 * (variance / (8 * DIM)) ** 0.5


def test_the_count_that_moves_the_clip_has_the_accounted_noise():
    table = Distributed(noise_multiplier=0.5)
    cohort, dim = 20, 64
    noise = round_noise(table, cohort)
    assert noise.count_noise_stddev == 1.0
    aggregation = aggregation_for(table, cohort, dim)
    assert float(aggregation.begin.clip) == pytest.approx(0.1)
    rounds = Rounds(aggregation, dim)
    directions = np.random.default_rng(7).standard_normal((18, dim))
    lengths = np.where(np.arange(18) < 7, 0.05, 3.0) / np.linalg.norm(directions, axis=1)
    updates = directions * lengths[:, None]
    keys = many_keys(7, 500)
    total = rounds.sums(updates, keys[0])
    after = jax.vmap(lambda k: aggregation.release(rounds.norms, (), total, k)[1].clip)(keys)
    clip = AdaptiveClip(target_quantile=0.5, learning_rate=0.2, count_stddev=1.0, denominator=20)
    counts = clip.count(np.full(500, rounds.norms.clip, np.float64), np.asarray(after, np.float64))
    assert stats.kstest(counts, stats.norm(7 - 18 / 2, 1.0).cdf).pvalue > 1e-3


def test_what_zeroing_takes_out_leaves_nothing_but_noise():
    dim = 64
    table = Distributed(noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=0.5))
    rounds = Rounds(aggregation_for(table, 4, dim), dim)
    kept = np.full(dim, 0.01)
    too_long = [np.full(dim, 0.6), np.full(dim, np.inf), np.full(dim, np.nan)]
    aggregate = rounds.run([kept, *too_long], key(8))
    np.testing.assert_allclose(aggregate, kept / 4, atol=2e-6)


def test_too_coarse_a_grid_for_a_model_is_refused_in_one_line():
    table = Distributed(noise_multiplier=0.3, clip_norm=CLIP, bits=12)
    with pytest.raises(InputError, match=r"norm_inflation: rounding 3,000 parameters .* 12 bits"):
        aggregation_for(table, 4, 3000)
