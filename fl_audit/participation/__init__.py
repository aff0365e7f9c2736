"""Participation: which real clients and which canaries take part in which round."""

import numpy as np
import numpy.typing as npt

from fl_audit.config import Canaries, Participation, Shuffle
from fl_audit.participation.bernoulli import BernoulliSchedule
from fl_audit.participation.schedule import Cohort, Schedule, check_room_for_canaries
from fl_audit.participation.shuffle import ShuffleSchedule

__all__ = ["BernoulliSchedule", "Cohort", "Schedule", "ShuffleSchedule", "make_schedule"]


def make_schedule(
    config: Participation,
    canaries: Canaries,
    seed: int,
    num_clients: int,
    included: npt.NDArray[np.bool_],
) -> Schedule:
    """Makes the schedule that a config asks for.

    Args:
      config: the participation table of a config.
      canaries: the canaries table of a config.
      seed: of the run.
      num_clients: real clients in the population.
      included: bool of shape (num_canaries,), the coins.

    Raises:
      InputError: the population cannot fill the rounds, or the rounds cannot hold the canaries.
    """
    indices = np.flatnonzero(included)
    schedule: Schedule = (
        ShuffleSchedule(config, seed, num_clients, indices)
        if isinstance(config, Shuffle)
        else BernoulliSchedule(config, seed, num_clients, indices)
    )
    check_room_for_canaries(schedule.expected_canaries, canaries.max_per_round)
    return schedule
