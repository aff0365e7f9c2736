"""Participation: the real clients and the canaries of each round.

A schedule follows from config tables, the seed, clients' names and canaries' coins alone, so it can
be examined without training:

>>> import numpy as np
>>> from fl_audit.canaries.canary_tables import Canaries
>>> from fl_audit.participation import Bernoulli, make_schedule
>>> clients = [f"client-{number}" for number in range(1000)]
>>> coins = np.arange(20) % 2 == 0
>>> config = Bernoulli(rounds=100, clients_per_round=50)
>>> schedule = make_schedule(config, Canaries(count=20), 7, clients, coins)
>>> schedule.expected_cohort  # 50 clients and 0.05 of 10 included canaries
50.5
>>> schedule.client_attendance.sampling
PoissonSampling(probability=0.05)
>>> schedule.cohort(0).canaries.tolist()
[16]
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.canaries.canary_tables import AnyCanaries, Canaries
from fl_audit.errors import InputError
from fl_audit.participation.arms import arms_attendance
from fl_audit.participation.client_patterns import (
    B_MIN_SEP,
    BALLS_IN_BINS,
    CYCLIC_POISSON,
    RANDOM_ALLOCATION,
    BallsInBins,
    BMinSep,
    CyclicPoisson,
    RandomAllocation,
)
from fl_audit.participation.dropouts import Dropouts, with_dropouts
from fl_audit.participation.logged_cohorts import REPLAY, Replay
from fl_audit.participation.patterns import (
    BERNOULLI,
    EVERY_ROUND,
    MIN_SEPARATION,
    SHUFFLE,
    UNIFORM,
    Bernoulli,
    EveryRound,
    MinSeparation,
    Shuffle,
    Uniform,
)
from fl_audit.participation.placement import DrawnParticipation
from fl_audit.participation.schedule import (
    PATTERNS,
    Cohort,
    Participation,
    ParticipationPattern,
    Roster,
    Schedule,
    check_room_for_canaries,
)

__all__ = [
    "PATTERNS",
    "BMinSep",
    "BallsInBins",
    "Bernoulli",
    "Cohort",
    "CyclicPoisson",
    "DrawnParticipation",
    "Dropouts",
    "EveryRound",
    "MinSeparation",
    "Participation",
    "ParticipationPattern",
    "RandomAllocation",
    "Replay",
    "Schedule",
    "Shuffle",
    "Uniform",
    "make_schedule",
]

_BUILT_IN: tuple[ParticipationPattern[Any], ...] = (
    SHUFFLE,
    BERNOULLI,
    UNIFORM,
    EVERY_ROUND,
    MIN_SEPARATION,
    CYCLIC_POISSON,
    BALLS_IN_BINS,
    RANDOM_ALLOCATION,
    B_MIN_SEP,
    REPLAY,
)
for _pattern in _BUILT_IN:
    PATTERNS.register(_pattern)


def make_schedule(
    config: Participation,
    canaries: AnyCanaries,
    seed: int,
    client_ids: Sequence[str],
    included: npt.NDArray[np.bool_],
    *,
    dropouts: Dropouts | None = None,
) -> Schedule:
    """Makes the schedule of a config.

    Args:
      config: The participation table of a config.
      canaries: The canaries table of a config.
      seed: The seed of the run.
      client_ids: The names of the real clients in the population.
      included: The coins of the pool, bool of shape (num_canaries,).
      dropouts: The sampled members who do not report; None if all report.

    Raises:
      InputError: Keys of the config contradict each other, a log cannot be used, the population
        cannot fill the rounds, or the rounds cannot hold the canaries.
      TypeError: No pattern is registered for the table.
    """
    roster = Roster(client_ids, included)
    arms = canaries.arms if isinstance(canaries, Canaries) else ()
    client_roster = roster.without_canaries if arms else roster
    schedule = PATTERNS.kind_of(config).schedule(config, seed, client_roster)
    if arms:
        attendance = arms_attendance(arms, seed, roster, schedule.num_rounds)
        schedule = dataclasses.replace(schedule, canary_attendance=attendance)
    if dropouts is not None and PATTERNS.kind_of(config).names_clients:
        raise InputError("dropouts: the replayed log says who reported; leave out [dropouts]")
    if dropouts is not None:
        schedule = with_dropouts(schedule, dropouts, seed, roster)
    check_room_for_canaries(schedule.expected_canaries, canaries.max_per_round)
    return schedule
