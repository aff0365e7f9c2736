"""Shuffled epochs: each real client once per epoch, each canary once per part of the run."""

import attendance
import numpy as np
import pytest

from fl_audit.config import Shuffle
from fl_audit.participation import Schedule

# (rounds, clients per round, canary repeats, clients): whole epochs, a broken last epoch, cohorts
# that do not divide the population, less than an epoch, one round, everybody in every round.
SHAPES = [
    (30, 20, 1, 300),
    (33, 20, 4, 300),
    (21, 7, 5, 45),
    (4, 3, 4, 100),
    (1, 5, 1, 5),
    (6, 5, 3, 5),
    (7, 1, 7, 3),
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)

CANARIES = np.flatnonzero(attendance.INCLUDED)


def schedule_of(shape: tuple[int, int, int, int], seed: int = 2) -> Schedule:
    rounds, clients_per_round, repeats, num_clients = shape
    config = Shuffle(rounds=rounds, clients_per_round=clients_per_round, canary_repeats=repeats)
    return attendance.schedule_of(config, num_clients, seed=seed)


def canary_rounds(schedule: Schedule, num_clients: int = 300) -> np.ndarray:
    """Which canary takes part when: counts of shape (rounds, pool)."""
    return attendance.attendance(schedule, num_clients).canaries


@every_shape
def test_each_client_exactly_once_per_epoch_in_rounds_of_one_size(shape):
    rounds, clients_per_round, _, num_clients = shape
    schedule = schedule_of(shape)
    epoch = -(-num_clients // clients_per_round)
    for start in range(0, rounds - epoch + 1, epoch):
        cohorts = [schedule.cohort(r).clients for r in range(start, start + epoch)]
        assert sorted(np.concatenate(cohorts)) == list(range(num_clients))
    rest = [schedule.cohort(r).clients for r in range(rounds - rounds % epoch, rounds)]
    last = np.concatenate([*rest, np.zeros(0, np.int64)])
    assert len(set(last)) == len(last)
    sizes = [len(schedule.cohort(r).clients) for r in range(rounds)]
    assert max(sizes) - min(sizes) <= 1
    assert 1 <= min(sizes) <= max(sizes) <= clients_per_round
    assert np.abs(np.array(sizes) - schedule.expected_clients).max() < 1


@every_shape
def test_each_included_canary_once_in_each_equal_part(shape):
    rounds, _, repeats, _ = shape
    present = canary_rounds(schedule_of(shape))
    parts = np.array_split(present, repeats)
    lengths = [len(part) for part in parts]
    assert sum(lengths) == rounds
    assert max(lengths) - min(lengths) <= 1
    for part in parts:
        assert (part.sum(axis=0)[CANARIES] == 1).all()


def test_seeds_and_epochs_shuffle_anew():
    first, second = schedule_of((30, 20, 1, 300), seed=1), schedule_of((30, 20, 1, 300), seed=2)
    orders = [
        tuple(np.concatenate([s.cohort(r).clients for r in range(start, start + 15)]))
        for s in (first, second)
        for start in (0, 15)
    ]
    assert len(set(orders)) == 4
    assert (canary_rounds(first) != canary_rounds(second)).any()


def test_canary_rounds_are_uniform_within_a_part():
    config = Shuffle(rounds=20, clients_per_round=1, canary_repeats=2)
    schedule = attendance.schedule_of(config, 5, np.ones(20_000, bool), seed=3)
    sizes = np.array([len(schedule.cohort(r).canaries) for r in range(20)])
    # Each size is binomial(20,000, 1/10): 2,000 and a standard deviation of 42. Beyond 6 of them:
    # binom.sf(2254, 20000, 0.1) + binom.cdf(1746, 20000, 0.1) = 3e-9, for 20 rounds 6e-8.
    assert np.abs(sizes - 2000).max() < 6 * (20_000 * 0.1 * 0.9) ** 0.5


def test_clients_are_shuffled_uniformly():
    # The first client's round in each of 2,000 epochs of 4 rounds: binomial(2000, 1/4), standard
    # deviation 19.4; beyond 6 of them 1e-8 at most, for 4 rounds 4e-8.
    config = Shuffle(rounds=8000, clients_per_round=3)
    schedule = attendance.schedule_of(config, 12, np.zeros(2, bool), seed=3)
    rounds = [r % 4 for r in range(8000) if 0 in schedule.cohort(r).clients]
    assert np.abs(np.bincount(rounds, minlength=4) - 500).max() < 6 * 19.4
