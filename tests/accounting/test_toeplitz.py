"""Toeplitz strategies and their sensitivity: brute force, closed forms, and jax_privacy's numbers.

jax_privacy is that of github.com/google-deepmind/jax_privacy at 8967688 (2.3.0.dev0), run with jax
0.10.2 in 64 bits; each number names the function of `jax_privacy.matrix_factorization` behind it.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from fl_audit.accounting.toeplitz import (
    Toeplitz,
    inverse_column,
    inverse_sqrt_column,
    sqrt_column,
)


def dense(strategy):
    return toeplitz(strategy.column, np.zeros(strategy.num_rounds))


def sqrt(num_rounds, bands=None):
    return Toeplitz.from_column(sqrt_column(min(bands or num_rounds, num_rounds)), num_rounds)


def banded_inverse_sqrt(num_rounds, bands):
    inverse = inverse_sqrt_column(min(bands, num_rounds))
    return Toeplitz.from_column(inverse_column(inverse, num_rounds), num_rounds)


def test_the_square_root_of_prefix_sums():
    closed_form = [math.comb(2 * k, k) / 4**k for k in range(50)]
    np.testing.assert_allclose(sqrt_column(50), closed_form, rtol=1e-12)
    matrix = dense(sqrt(50))
    np.testing.assert_allclose(matrix @ matrix, np.tri(50), atol=1e-12)
    inverse = inverse_column(sqrt_column(50), 50)
    np.testing.assert_allclose(inverse, inverse_sqrt_column(50), atol=1e-14)


@pytest.mark.parametrize(("num_rounds", "bands"), [(1, 1), (2, 9), (7, 3)])
def test_inverses(num_rounds, bands):
    for strategy in (sqrt(num_rounds, bands), banded_inverse_sqrt(num_rounds, bands)):
        inverse = toeplitz(strategy.inverse, np.zeros(num_rounds))
        np.testing.assert_allclose(dense(strategy) @ inverse, np.eye(num_rounds), atol=1e-12)
    assert np.count_nonzero(banded_inverse_sqrt(num_rounds, bands).inverse.round(12)) == min(
        bands, num_rounds
    )


def test_products():
    strategy = sqrt(9, 4)
    presences = np.random.default_rng(1).random((3, 9))
    matrix = dense(strategy)
    np.testing.assert_allclose(strategy.times(presences), presences @ matrix.T, atol=1e-14)
    np.testing.assert_allclose(strategy.weights(presences), presences @ matrix.T @ matrix)


@pytest.mark.parametrize("column", [(), (0.0, 1.0), (-1.0,), (1.0, math.nan), (1.0, 0.5, 0.2, 0.1)])
def test_what_is_no_strategy(column):
    with pytest.raises(ValueError, match="first_column must"):
        Toeplitz(column, num_rounds=3)


# Sensitivity, against all sets of rounds.


def worst(strategy, is_allowed):
    """The largest squared norm of |C| 1_S over all sets S of rounds that are allowed."""
    matrix = np.abs(dense(strategy))
    rounds = range(strategy.num_rounds)
    subsets = itertools.chain.from_iterable(
        itertools.combinations(rounds, size) for size in range(strategy.num_rounds + 1)
    )
    return max(np.square(matrix[:, list(s)].sum(axis=1)).sum() for s in subsets if is_allowed(s))


def strategies(num_rounds):
    random = np.random.default_rng(num_rounds)
    mixed = np.concatenate([[1.0], random.normal(size=num_rounds - 1)])
    rising = 0.1 + random.random(num_rounds)
    return (
        sqrt(num_rounds),
        sqrt(num_rounds, 3),
        banded_inverse_sqrt(num_rounds, 2),
        Toeplitz.from_column(rising, num_rounds),
        Toeplitz.from_column(mixed, num_rounds),
    )


@pytest.mark.parametrize("num_rounds", [1, 7])
def test_participations_at_a_minimum_separation(num_rounds):
    for strategy in strategies(num_rounds):
        for separation, most in itertools.product(range(1, num_rounds + 1), repeat=2):
            exact = worst(
                strategy,
                lambda s, most=most, separation=separation: (
                    len(s) <= most and (np.diff(s) >= separation).all()
                ),
            )
            found = strategy.min_separation(most, separation)
            if strategy.is_falling:
                assert found == pytest.approx(exact, rel=1e-12)
            elif strategy.bands > separation:  # else it is below |C|'s: columns are orthogonal
                assert found >= exact * (1 - 1e-12)


def test_orthogonal_columns_add_up_whatever_their_signs():
    strategy = Toeplitz((1.0, -0.7, 0.4), num_rounds=7)
    matrix, signs = dense(strategy), itertools.product((-1, 1), repeat=3)
    exact = max(np.square(matrix[:, [0, 3, 6]] @ np.array(sign)).sum() for sign in signs)
    assert strategy.min_separation(3, 3) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("column", [(1.0, 0.2, 0.9), (1.0, -0.7, 0.4)])
def test_one_participation_moves_the_release_by_the_first_columns_norm(column):
    strategy = Toeplitz(column, num_rounds=7)
    exact = np.square(dense(strategy)).sum(axis=0).max()
    assert strategy.min_separation(1, 1) == pytest.approx(exact, rel=1e-12)
    assert strategy.once_per_block(7) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("num_rounds", [1, 8])
def test_one_round_of_each_block(num_rounds):
    for strategy, length in itertools.product(strategies(num_rounds), range(1, num_rounds + 1)):
        exact = worst(
            strategy,
            lambda s, length=length: len({r // length for r in s}) == len(s),
        )
        found = strategy.once_per_block(length)
        if strategy.bands <= length + 1:
            assert found == pytest.approx(exact, rel=1e-12)
        else:
            assert exact * (1 - 1e-12) <= found
            assert found <= 1.02 * exact or not strategy.is_falling


def test_many_short_blocks_of_unequal_length_take_no_large_matrix(monkeypatch):
    strategy = Toeplitz((1.0, 0.5, 0.3), num_rounds=8)
    exact, adjacent = strategy.once_per_block(1, 2), strategy.min_separation(6, 1)
    monkeypatch.setattr("fl_audit.accounting.toeplitz._LARGEST_GRAM", 8)
    assert exact < strategy.once_per_block(1, 2) == adjacent
    assert strategy.once_per_block(2) < strategy.min_separation(4, 1)


@pytest.mark.parametrize(("num_rounds", "parts"), [(7, 2), (8, 3), (11, 4), (5, 4), (3, 2)])
def test_one_round_of_each_of_nearly_equal_parts(num_rounds, parts):
    length, longer = divmod(num_rounds, parts)
    of_round = np.repeat(np.arange(parts), [length + 1] * longer + [length] * (parts - longer))
    for strategy in strategies(num_rounds):
        exact = worst(strategy, lambda s: len(set(of_round[list(s)])) == len(s))
        found = strategy.once_per_block(length, longer)
        if strategy.bands <= length + 1:
            assert found == pytest.approx(exact, rel=1e-12)
        else:
            assert exact * (1 - 1e-12) <= found
            assert found <= 1.02 * exact or not strategy.is_falling


@pytest.mark.parametrize("num_rounds", [1, 7])
def test_groups_in_turn(num_rounds):
    for strategy, groups in itertools.product(strategies(num_rounds), range(1, num_rounds + 1)):
        exact = worst(strategy, lambda s, groups=groups: len({r % groups for r in s}) <= 1)
        assert strategy.one_group(groups) == pytest.approx(exact, rel=1e-12)


def test_the_worst_of_many_parties():
    random, strategy = np.random.default_rng(1), sqrt(60, 9)
    sets = [random.choice(60, size, replace=False) for size in random.integers(1, 9, size=600)]
    members = np.repeat(np.arange(600), list(map(len, sets)))
    order = random.permutation(len(members))
    exact = max(np.square(dense(strategy)[:, s].sum(axis=1)).sum() for s in sets)
    found = strategy.worst_of(members[order], np.concatenate(sets)[order])
    assert found == pytest.approx(exact, rel=1e-12)
    assert strategy.worst_of(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0


def test_a_party_moves_the_sums_by_no_more_than_that():
    # Updates of any directions: 2,000 random ones in three dimensions stay below the bound.
    random = np.random.default_rng(1)
    strategy = Toeplitz.from_column(np.concatenate([[1.0], random.normal(size=5)]), 6)
    matrix, bound = dense(strategy), strategy.one_group(2)
    for _ in range(2_000):
        updates = np.zeros((6, 3))
        updates[::2] = random.normal(size=(3, 3))
        updates[::2] /= np.linalg.norm(updates[::2], axis=1, keepdims=True)
        assert np.square(matrix @ updates).sum() <= bound


# jax_privacy's numbers.

# toeplitz.minsep_sensitivity_squared of n rounds at separation b and k participations, its root:
# the full square root, 16 bands of it, and 8 bands of its inverse
# (toeplitz.compute_banded_inverse_sensitivity_squared).
MIN_SEPARATION = {
    (100, 1, 1): (1.5910223482514536, 1.394230557388831, 1.369473538898184),
    (100, 10, 10): (8.734082438528125, 5.225582753709202, 5.336322428107042),
    (100, 16, 7): (5.9988380346829775, 3.62650718087537, 3.9124123776563984),
    (512, 32, 5): (6.085491945114269, 3.1175943026288477, 3.10194531374055),
    (2000, 100, 20): (17.190574670512067, 6.235188605257696, 6.124502723598818),
    (2000, 342, 6): (6.044434878396738, 3.4151534493988147, 3.354511386597597),
}

# toeplitz.per_query_error of the last of n rounds, of the same strategies.
LARGEST_ERROR = {
    100: (2.531352112635569, 6.237721973095138, 5.755228281021118),
    512: (3.0518408615104806, 26.78012792115099, 23.83329129219055),
    2000: (3.4856784633373348, 100.97221324746023, 89.12493634223938),
}

# sensitivity.fixed_epoch_sensitivity of the full square root of 60 rounds, by epochs.
FIXED_EPOCHS = {3: 3.166867110958563, 4: 3.9499038157610125, 6: 5.509396200175887}


@pytest.mark.parametrize(("setting", "theirs"), MIN_SEPARATION.items())
def test_sensitivity_is_that_of_jax_privacy(setting, theirs):
    num_rounds, separation, most = setting
    ours = (sqrt(num_rounds), sqrt(num_rounds, 16), banded_inverse_sqrt(num_rounds, 8))
    found = [math.sqrt(strategy.min_separation(most, separation)) for strategy in ours]
    assert found == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("num_rounds", "theirs"), LARGEST_ERROR.items())
def test_error_is_that_of_jax_privacy(num_rounds, theirs):
    ours = (sqrt(num_rounds), sqrt(num_rounds, 16), banded_inverse_sqrt(num_rounds, 8))
    found = [np.square(np.cumsum(one.inverse)).sum() for one in ours]
    assert found == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("epochs", "theirs"), FIXED_EPOCHS.items())
def test_fixed_epochs_are_those_of_jax_privacy(epochs, theirs):
    assert math.sqrt(sqrt(60).one_group(60 // epochs)) == pytest.approx(theirs, rel=1e-9)
