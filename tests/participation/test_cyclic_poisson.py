"""Poisson sampling in groups that take turns: its draws, and what its coins count for."""

import math

import numpy as np
import pytest

from fl_audit.accounting import CyclicPoissonSampling, account, attacker_bounds
from fl_audit.accounting.gaussian_accountants import (
    SampledRounds,
    account_gaussian,
    account_sampled,
)
from fl_audit.accounting.samplings.cyclic_poisson import cyclic_rounds
from fl_audit.canaries.canary_tables import Canaries
from fl_audit.config import CyclicPoisson, GaussianFixed, MatrixFactorisation, TreeAggregation
from fl_audit.mechanisms import describe, round_noise
from fl_audit.mechanisms.matrix import strategy_of
from fl_audit.participation import make_schedule

ROUNDS, SEPARATION, CLIENTS, POOL = 22, 4, 60, 40
PATTERN = CyclicPoisson(rounds=ROUNDS, clients_per_round=6, separation=SEPARATION)
PROBABILITY = 6 * SEPARATION / CLIENTS
TURNS = 6


def schedule_of(pattern=PATTERN, clients=CLIENTS):
    names = [f"client-{i}" for i in range(clients)]
    return make_schedule(pattern, Canaries(count=POOL), 1, names, np.arange(POOL) % 2 == 0)


def released(mechanism, pattern=PATTERN):
    schedule = schedule_of(pattern)
    noise = round_noise(mechanism, schedule.expected_cohort)
    return describe(mechanism, noise, schedule, POOL)


def test_everybody_has_a_group_and_its_rounds_alone():
    schedule = schedule_of(CyclicPoisson(rounds=400, clients_per_round=6, separation=SEPARATION))
    for draw, size in ((schedule.clients, CLIENTS), (schedule.sampled_canaries, POOL)):
        turns = {}
        for index in range(400):
            for member in draw(index).tolist():
                turns.setdefault(member, set()).add(index % SEPARATION)
        assert len(turns) == size and all(len(groups) == 1 for groups in turns.values())
        sizes = np.bincount([groups.pop() for groups in turns.values()])
        assert sizes.max() - sizes.min() <= 1
    drawn = sum(len(schedule.clients(index)) for index in range(400))
    # 6,000 coins of probability 0.4: 6 standard deviations are 228, exceeded once in 5e8.
    assert abs(drawn - 400 * 6) < 228
    assert schedule.expected_clients == 6


def test_under_independent_noise_a_group_is_poisson_sampled_in_its_rounds():
    release = released(GaussianFixed(noise_multiplier=1.0, clip_norm=1.0))
    assert release.client.sampling == CyclicPoissonSampling(PROBABILITY, SEPARATION, TURNS)
    expected = account_sampled(SampledRounds(PROBABILITY, 1.0, TURNS), 1e-5)
    accounting = account(release, 1e-5)
    assert accounting.client.by_accountant == expected
    assert "add or remove" in accounting.neighbours
    assert any("in 4 groups that take turns" in line for line in accounting.assumes)
    known = attacker_bounds(release, release.client, 1e-5).knowing_rounds
    assert known.guarantee.by_accountant == account_gaussian(1.0, TURNS, 1e-5)
    assert known.guarantee.epsilon > accounting.client.epsilon


def matrix(bands, noise_multiplier=1.0):
    return MatrixFactorisation(
        noise_multiplier=noise_multiplier, clip_norm=1.0, strategy="banded_sqrt", bands=bands
    )


@pytest.mark.parametrize(
    "bands", [3, *(pytest.param(bands, marks=pytest.mark.slow) for bands in (1, 4))]
)
def test_coins_count_under_a_matrix_with_no_more_bands_than_groups(bands):
    release = released(matrix(bands))
    column = np.array(strategy_of(matrix(bands), ROUNDS).first_column)
    rounds = cyclic_rounds(release, release.client.sampling)
    assert rounds.noise_multiplier == pytest.approx(1 / math.sqrt(column @ column), rel=1e-12)
    assert (rounds.probability, rounds.rounds) == (PROBABILITY, TURNS)
    assert account(release, 1e-5).client.by_accountant == account_sampled(rounds, 1e-5)
    bounds = attacker_bounds(release, release.client, 1e-5)
    known, hidden = bounds.knowing_rounds, bounds.not_knowing_rounds
    assert known.pair.shift == pytest.approx(
        math.sqrt(strategy_of(matrix(bands), ROUNDS).one_group(SEPARATION)), rel=1e-12
    )
    assert hidden.guarantee.epsilon < known.guarantee.epsilon
    # Two computations of one composition: dp-accounting rounds up, this one is exact to a permille.
    delta = max(hidden.pair.deltas(hidden.guarantee.epsilon))
    assert 0.9e-5 < delta < 1.01e-5


def test_rounds_of_a_group_move_separate_places():
    strategy = strategy_of(matrix(4), ROUNDS)
    group = np.arange(1, ROUNDS, SEPARATION)
    columns = strategy.times(np.eye(ROUNDS)[group])
    products = columns @ columns.T
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)
    assert np.diag(products).max() <= strategy.min_separation(1, 1) * (1 + 1e-12)


@pytest.mark.parametrize(
    "mechanism", [matrix(5), TreeAggregation(noise_multiplier=1.0, clip_norm=1.0)]
)
def test_coins_count_for_nothing_else(mechanism):
    release = released(mechanism)
    assert cyclic_rounds(release, release.client.sampling) is None
    found = account(release, 1e-5).client.by_accountant
    assert found == account_gaussian(1.0, release.client.squared_sensitivity, 1e-5)
    bounds = attacker_bounds(release, release.client, 1e-5)
    assert bounds.not_knowing_rounds.guarantee.epsilon == pytest.approx(
        bounds.knowing_rounds.guarantee.epsilon
    )


def test_a_coin_that_always_says_yes_hides_nothing():
    everybody = CyclicPoisson(rounds=ROUNDS, clients_per_round=15, separation=4)
    release = released(matrix(3), everybody)
    found = account(release, 1e-5).client.by_accountant
    assert found == account_gaussian(1.0, release.client.squared_sensitivity, 1e-5)
