"""Poisson sampling of clients and canaries."""

import attendance
import numpy as np

from fl_audit.config import Bernoulli
from fl_audit.participation import Schedule

CANARIES = np.flatnonzero(attendance.INCLUDED)


def schedule_of(rounds: int, clients_per_round: int, num_clients: int, seed: int = 2) -> Schedule:
    config = Bernoulli(rounds=rounds, clients_per_round=clients_per_round)
    return attendance.schedule_of(config, num_clients, seed=seed)


def presence(schedule: Schedule, num_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Who takes part when: shapes (rounds, clients) and (rounds, pool)."""
    table = attendance.attendance(schedule, num_clients)
    return table.clients, table.canaries


def test_rates_of_everybody():
    rounds, num_clients, q = 2000, 60, 0.2
    clients, canaries = presence(schedule_of(rounds, 12, num_clients), num_clients)
    # Binomial counts, 8 standard deviations: by binom.sf and binom.cdf below 2e-11 for each of the
    # 2,000 rounds (60 trials), 1e-14 for everybody else; 4e-8 in all.
    for count, trials in [
        *((c, rounds) for c in clients.sum(axis=0)),
        *((c, rounds) for c in canaries[:, CANARIES].sum(axis=0)),
        *((c, num_clients) for c in clients.sum(axis=1)),
        (clients.sum(), clients.size),
        (canaries.sum(), rounds * len(CANARIES)),
    ]:
        assert abs(count - trials * q) < 8 * (trials * q * (1 - q)) ** 0.5


def test_coins_are_independent_over_rounds_clients_and_canaries():
    clients, canaries = presence(schedule_of(2000, 30, 60), 60)
    coins = np.concatenate([clients, canaries[:, CANARIES]], axis=1) * 2 - 1
    # Sums of n products of distinct fair signs: standard deviation sqrt(n), 7 of them below 1e-10
    # each, about 6,000 pairs and 100 successions: below 1e-6.
    pairs = coins.T @ coins
    np.fill_diagonal(pairs, 0)
    assert np.abs(pairs).max() < 7 * 2000**0.5
    assert np.abs((coins[1:] * coins[:-1]).sum(axis=0)).max() < 7 * 2000**0.5


def test_a_round_may_be_empty():
    schedule = schedule_of(60, 1, 1000)
    cohorts = [schedule.cohort(r) for r in range(60)]
    # Each is empty with probability 0.999^1000 = 0.37: no empty one among 60, 1e-12.
    empty = [c for c in cohorts if len(c.clients) == 0]
    assert empty
    assert all(c.clients.dtype == c.canaries.dtype == np.int64 for c in cohorts)
