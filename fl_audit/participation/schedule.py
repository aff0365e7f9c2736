"""Schedules: who takes part in which round, as every participation pattern provides it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError
from fl_audit.participation.possible_rounds import PossibleRounds, most_participations

Draw = Callable[[int], IndexArray]
"""A function from a round, counted from 0, to the indices of those who take part in it."""


@dataclass(frozen=True, eq=False)
class Roster:
    """The real clients and the canaries that may take part.

    Attributes:
      client_ids: The names of the real clients.
      included: The coins of the pool, bool of shape (num_canaries,).
    """

    client_ids: Sequence[str]
    included: npt.NDArray[np.bool_]

    @property
    def num_clients(self) -> int:
        """The number of real clients in the population."""
        return len(self.client_ids)

    @property
    def pool(self) -> IndexArray:
        """The indices of all canaries, included or not."""
        return np.arange(len(self.included))

    @property
    def without_canaries(self) -> "Roster":
        """The same roster without canaries."""
        return Roster(self.client_ids, np.zeros(0, bool))


@dataclass(frozen=True)
class Cohort:
    """The clients and canaries that take part in one round.

    Attributes:
      clients: The indices of real clients, int64 of shape (clients,).
      canaries: The indices of canaries in the pool, int64 of shape (canaries,).
    """

    clients: IndexArray
    canaries: IndexArray


@dataclass(frozen=True, eq=False)
class Attendance:
    """The rounds of the real clients, or of the included canaries.

    Attributes:
      of: The function from a round to those who take part; may be called from any thread, in any
        order.
      expected: The expected number of them in a round, on average over rounds.
      possible_rounds: The rounds that one of them may be in; accounting rests on it.
    """

    of: Draw
    expected: float
    possible_rounds: PossibleRounds


@dataclass(frozen=True, eq=False)
class CanaryAttendance(Attendance):
    """The rounds of the included canaries, and those that the excluded ones would have had.

    Rounds are dealt to the whole pool, by one law for all and independently of the coins, which
    decide afterwards who sends an update. So the rounds of excluded canaries have the same law as
    those of included ones.

    Attributes:
      dealt: The function from a round to the canaries that it is dealt to, included or not.
      blocks: The numbers of rounds of the blocks that make up the run, of each of which a canary is
        in one round, drawn uniformly and independently of all else; None where rounds are drawn
        otherwise.
    """

    dealt: Draw
    blocks: tuple[int, ...] | None = None


def included_among(dealt: Draw, included: npt.NDArray[np.bool_]) -> Draw:
    """Keeps the included canaries among those that a round is dealt to.

    Args:
      dealt: The function from a round to indices in the pool.
      included: The coins, bool of shape (num_canaries,).
    """

    def of(round_index: int) -> IndexArray:
        canaries = dealt(round_index)
        attending: IndexArray = canaries[included[canaries]]
        return attending

    return of


@dataclass(frozen=True, eq=False)
class Schedule:
    """A participation pattern: a function of the seed and the round alone.

    Rounds count from 0. No draw depends on earlier draws, so that a resumed run has the same
    cohorts as an uninterrupted one.

    Attributes:
      num_rounds: The number of rounds of training.
      client_attendance: The rounds of the real clients.
      canary_attendance: The rounds of the canaries.
      sampling_probability: The probability that one client takes part in one round under Poisson
        sampling, valid for all whose participations are None; None under other patterns.
      sample_size: The number of members that every round draws uniformly without replacement; None
        under other patterns.
      sampled_from: The number of members that `sample_size` are drawn from; None likewise.
    """

    num_rounds: int
    client_attendance: Attendance
    canary_attendance: CanaryAttendance
    sampling_probability: float | None = None
    sample_size: int | None = None
    sampled_from: int | None = None

    @property
    def expected_clients(self) -> float:
        """The expected number of real clients in a round."""
        return self.client_attendance.expected

    @property
    def expected_canaries(self) -> float:
        """The expected number of canaries in a round."""
        return self.canary_attendance.expected

    @property
    def expected_cohort(self) -> float:
        """The expected number of clients and canaries in a round."""
        return self.expected_clients + self.expected_canaries

    @property
    def client_participations(self) -> int | None:
        """The largest number of rounds of a real client; None where sampling decides."""
        return most_participations(self.client_attendance.possible_rounds, self.num_rounds)

    @property
    def canary_participations(self) -> int | None:
        """The largest number of rounds of an included canary; None where sampling decides."""
        return most_participations(self.canary_attendance.possible_rounds, self.num_rounds)

    def cohort(self, round_index: int) -> Cohort:
        """The cohort of one round."""
        return Cohort(self.clients(round_index), self.canaries(round_index))

    def clients(self, round_index: int) -> IndexArray:
        """The indices of the real clients of one round."""
        return self.client_attendance.of(round_index)

    def canaries(self, round_index: int) -> IndexArray:
        """The indices of the included canaries that take part in one round."""
        return self.canary_attendance.of(round_index)

    def dealt_canaries(self, round_index: int) -> IndexArray:
        """The indices of the canaries that one round is dealt to, included or not."""
        return self.canary_attendance.dealt(round_index)

    def rounds_of_canaries(self, num_canaries: int) -> list[IndexArray]:
        """The rounds that are dealt to each canary of the pool, included or not, ascending.

        Args:
          num_canaries: The size of the pool.
        """
        dealt = [self.dealt_canaries(index) for index in range(self.num_rounds)]
        rounds = np.repeat(np.arange(self.num_rounds), [len(canaries) for canaries in dealt])
        canaries = np.concatenate(dealt)
        order = np.argsort(canaries, kind="stable")
        ends = np.cumsum(np.bincount(canaries, minlength=num_canaries))
        return np.split(rounds[order], ends[:-1])[:num_canaries]


def check_cohort_size(clients_per_round: int, num_clients: int) -> None:
    """Raises an `InputError` if a round asks for more real clients than there are."""
    if clients_per_round > num_clients:
        raise InputError(
            f"participation.clients_per_round: {clients_per_round} of {num_clients} real clients; "
            f"must be at most {num_clients}"
        )


def check_room_for_canaries(expected_canaries: float, max_canaries: int) -> None:
    """Raises an `InputError` if rounds would hold too many canaries on average."""
    if expected_canaries > max_canaries:
        raise InputError(
            f"canaries.count: more canaries than can be scheduled: {expected_canaries:.1f} a round "
            f"on average, must be at most {max_canaries} (canaries.max_per_round); take fewer "
            "canaries or repeats, or more rounds"
        )
