"""Who takes part when, as tables that tests can count in."""

from dataclasses import dataclass

import numpy as np

from fl_audit.config import Canaries, Participation
from fl_audit.participation import Schedule, make_schedule

POOL = 101
INCLUDED = np.random.default_rng(1).random(POOL) < 0.5
ROOM = Canaries(count=2, max_per_round=10**9)


def schedule_of(
    config: Participation, num_clients: int, included: np.ndarray = INCLUDED, seed: int = 2
) -> Schedule:
    """A schedule over clients named "client-0" and so on."""
    ids = [f"client-{i}" for i in range(num_clients)]
    return make_schedule(config, ROOM, seed, ids, included)


@dataclass(frozen=True)
class Attendance:
    """Counts of shape (rounds, clients) and (rounds, pool)."""

    clients: np.ndarray
    canaries: np.ndarray


def attendance(schedule: Schedule, num_clients: int, pool: int = POOL) -> Attendance:
    """Asks for every round once."""
    clients = np.zeros((schedule.num_rounds, num_clients), int)
    canaries = np.zeros((schedule.num_rounds, pool), int)
    for r in range(schedule.num_rounds):
        cohort = schedule.cohort(r)
        np.add.at(clients[r], cohort.clients, 1)
        np.add.at(canaries[r], cohort.canaries, 1)
    return Attendance(clients, canaries)


def chi_square(observed: np.ndarray, expected: np.ndarray | float) -> float:
    """Pearson's statistic."""
    return float(((observed - expected) ** 2 / expected).sum())
