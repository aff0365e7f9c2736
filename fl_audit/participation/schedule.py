"""What every participation pattern answers."""

import abc
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError

IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cohort:
    """Who takes part in one round.

    Attributes:
      clients: indices of real clients, int64.
      canaries: indices of canaries in the pool, int64.
    """

    clients: IndexArray
    canaries: IndexArray


class Schedule(abc.ABC):
    """A participation pattern: a function of the seed and the round alone.

    Rounds count from 0. Nothing is drawn from a running state, so that a resumed run meets the
    cohorts that the uninterrupted one would have met.
    """

    num_rounds: int
    """Rounds of training."""
    expected_clients: float
    """Expected number of real clients in a round."""
    expected_canaries: float
    """Expected number of canaries in a round."""
    client_participations: int | None
    """Rounds that a real client takes part in at most; None where that is random."""
    canary_participations: int | None
    """Rounds that an included canary takes part in; None where that is random."""
    sampling_probability: float | None
    """Of one client in one round under Poisson sampling; None under other patterns."""

    @property
    def expected_cohort(self) -> float:
        """Expected number of clients and canaries in a round."""
        return self.expected_clients + self.expected_canaries

    def cohort(self, round_index: int) -> Cohort:
        """The cohort of one round."""
        return Cohort(self.clients(round_index), self.canaries(round_index))

    @abc.abstractmethod
    def clients(self, round_index: int) -> IndexArray:
        """Indices of the real clients of one round."""

    @abc.abstractmethod
    def canaries(self, round_index: int) -> IndexArray:
        """Indices of the canaries of one round."""


def check_cohort_size(clients_per_round: int, num_clients: int) -> None:
    """Raises an `InputError` where a round asks for more real clients than there are."""
    if clients_per_round > num_clients:
        raise InputError(
            f"participation.clients_per_round: {clients_per_round} of {num_clients} real clients; "
            f"must be at most {num_clients}"
        )


def check_room_for_canaries(expected_canaries: float, max_canaries: int) -> None:
    """Raises an `InputError` where rounds would hold too many canaries on average."""
    if expected_canaries > max_canaries:
        raise InputError(
            f"canaries.count: more canaries than can be scheduled: {expected_canaries:.1f} a round "
            f"on average, must be at most {max_canaries} (canaries.max_per_round); take fewer "
            "canaries or repeats, or more rounds"
        )
