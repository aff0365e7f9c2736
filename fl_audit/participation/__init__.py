"""Participation: which real clients and which canaries take part in which round."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.canaries.tables import AnyCanaries, Canaries
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
) -> Schedule:
    """Makes the schedule that a config asks for.

    Args:
      config: The participation table of a config.
      canaries: The canaries table of a config.
      seed: The seed of the run.
      client_ids: The names of the real clients in the population.
      included: The coins of the pool, bool of shape (num_canaries,).

    Raises:
      InputError: Keys contradict each other, a log cannot be used, the population cannot fill the
        rounds, or the rounds cannot hold the canaries.
      TypeError: No pattern is registered for the table.
    """
    roster = Roster(client_ids, included)
    arms = canaries.arms if isinstance(canaries, Canaries) else ()
    client_roster = roster.without_canaries if arms else roster
    schedule = PATTERNS.kind_of(config).schedule(config, seed, client_roster)
    if arms:
        attendance = arms_attendance(arms, seed, roster, schedule.num_rounds)
        schedule = dataclasses.replace(schedule, canary_attendance=attendance)
    check_room_for_canaries(schedule.expected_canaries, canaries.max_per_round)
    return schedule
