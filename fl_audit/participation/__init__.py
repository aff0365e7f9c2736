"""Participation: which real clients and which canaries take part in which round."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fl_audit.config import (
    AnyCanaries,
    Bernoulli,
    DrawnParticipation,
    EveryRound,
    MinSeparation,
    Participation,
    Shuffle,
    Uniform,
)
from fl_audit.participation.bernoulli import bernoulli_schedule
from fl_audit.participation.every_round import every_round_schedule
from fl_audit.participation.min_separation import min_separation_schedule
from fl_audit.participation.placement import check_placement
from fl_audit.participation.replay import replay_schedule
from fl_audit.participation.schedule import Cohort, Roster, Schedule, check_room_for_canaries
from fl_audit.participation.shuffle import shuffle_schedule
from fl_audit.participation.uniform import uniform_schedule

__all__ = ["Cohort", "Schedule", "make_schedule"]


def make_schedule(
    config: Participation,
    canaries: AnyCanaries,
    seed: int,
    client_ids: Sequence[str],
    included: npt.NDArray[np.bool_],
) -> Schedule:
    """Makes the schedule that a config asks for.

    Args:
      config: the participation table of a config.
      canaries: the canaries table of a config.
      seed: of the run.
      client_ids: names of the real clients in the population.
      included: bool of shape (num_canaries,), the coins.

    Raises:
      InputError: keys contradict each other, a log cannot be used, the population cannot fill the
        rounds, or the rounds cannot hold the canaries.
    """
    schedule = _schedule(config, seed, Roster(client_ids, included))
    check_room_for_canaries(schedule.expected_canaries, canaries.max_per_round)
    return schedule


def _schedule(config: Participation, seed: int, roster: Roster) -> Schedule:
    if isinstance(config, DrawnParticipation):
        check_placement(config, config.canaries)
    match config:
        case Shuffle():
            return shuffle_schedule(config, seed, roster)
        case Bernoulli():
            return bernoulli_schedule(config, seed, roster)
        case Uniform():
            return uniform_schedule(config, seed, roster)
        case EveryRound():
            return every_round_schedule(config, roster)
        case MinSeparation():
            return min_separation_schedule(config, seed, roster)
        case _:
            return replay_schedule(config, seed, roster)
