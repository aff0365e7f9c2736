"""What every participation pattern answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError
from fl_audit.participation.possible_rounds import PossibleRounds, most_participations

Draw = Callable[[int], IndexArray]
"""From a round, counted from 0, to the indices of those who take part in it."""


@dataclass(frozen=True, eq=False)
class Roster:
    """Everybody who may take part.

    Attributes:
      client_ids: names of the real clients.
      included: bool of shape (num_canaries,), the coins of the pool.
    """

    client_ids: Sequence[str]
    included: npt.NDArray[np.bool_]

    @property
    def num_clients(self) -> int:
        """Real clients in the population."""
        return len(self.client_ids)

    @property
    def pool(self) -> IndexArray:
        """Indices of all canaries, included or not."""
        return np.arange(len(self.included))

    @property
    def without_canaries(self) -> "Roster":
        """The real clients alone."""
        return Roster(self.client_ids, np.zeros(0, bool))


@dataclass(frozen=True)
class Cohort:
    """Who takes part in one round.

    Attributes:
      clients: indices of real clients, int64.
      canaries: indices of canaries in the pool, int64.
    """

    clients: IndexArray
    canaries: IndexArray


@dataclass(frozen=True, eq=False)
class Attendance:
    """The rounds of the real clients, or of the included canaries.

    Attributes:
      of: Who of them takes part in a round; may be asked from any thread, in any order.
      expected: How many of them are expected in a round, on average over rounds.
      possible_rounds: Which rounds one of them may be in; accounting rests on it.
    """

    of: Draw
    expected: float
    possible_rounds: PossibleRounds


@dataclass(frozen=True, eq=False)
class CanaryAttendance(Attendance):
    """The rounds of the included canaries, and those that the excluded ones would have had.

    Rounds are dealt to the whole pool, by one law for all and without a look at the coins, which
    decide afterwards who sends an update. So an excluded canary's rounds are what an included
    one's are, but that it did not take part in them.

    Attributes:
      dealt: The canaries of the pool, included or not, that a round is dealt to.
    """

    dealt: Draw


def included_among(dealt: Draw, included: npt.NDArray[np.bool_]) -> Draw:
    """The included canaries among those that a round is dealt to.

    Args:
      dealt: From a round to indices in the pool.
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

    Rounds count from 0. Nothing is drawn from a running state, so that a resumed run meets the
    cohorts that the uninterrupted one would have met.

    Attributes:
      num_rounds: rounds of training.
      client_attendance: of the real clients.
      canary_attendance: The rounds of the canaries.
      sampling_probability: of one client in one round under Poisson sampling, which holds for
        everybody whose participations are None; None under other patterns.
      sample_size: likewise, how many every round draws uniformly without replacement.
      sampled_from: out of how many.
    """

    num_rounds: int
    client_attendance: Attendance
    canary_attendance: CanaryAttendance
    sampling_probability: float | None = None
    sample_size: int | None = None
    sampled_from: int | None = None

    @property
    def expected_clients(self) -> float:
        """Expected number of real clients in a round."""
        return self.client_attendance.expected

    @property
    def expected_canaries(self) -> float:
        """Expected number of canaries in a round."""
        return self.canary_attendance.expected

    @property
    def expected_cohort(self) -> float:
        """Expected number of clients and canaries in a round."""
        return self.expected_clients + self.expected_canaries

    @property
    def client_participations(self) -> int | None:
        """Rounds that a real client takes part in at most; None where sampling decides."""
        return most_participations(self.client_attendance.possible_rounds, self.num_rounds)

    @property
    def canary_participations(self) -> int | None:
        """Rounds that an included canary takes part in at most; None where sampling decides."""
        return most_participations(self.canary_attendance.possible_rounds, self.num_rounds)

    def cohort(self, round_index: int) -> Cohort:
        """The cohort of one round."""
        return Cohort(self.clients(round_index), self.canaries(round_index))

    def clients(self, round_index: int) -> IndexArray:
        """Indices of the real clients of one round."""
        return self.client_attendance.of(round_index)

    def canaries(self, round_index: int) -> IndexArray:
        """Indices of the canaries that take part in one round, all of them included."""
        return self.canary_attendance.of(round_index)

    def dealt_canaries(self, round_index: int) -> IndexArray:
        """Indices of the canaries that one round is dealt to, included or not."""
        return self.canary_attendance.dealt(round_index)

    def rounds_of_canaries(self, num_canaries: int) -> list[IndexArray]:
        """The rounds that are dealt to each canary of the pool, included or not, ascending.

        Args:
          num_canaries: Size of the pool.
        """
        dealt = [self.dealt_canaries(index) for index in range(self.num_rounds)]
        rounds = np.repeat(np.arange(self.num_rounds), [len(canaries) for canaries in dealt])
        canaries = np.concatenate(dealt)
        order = np.argsort(canaries, kind="stable")
        ends = np.cumsum(np.bincount(canaries, minlength=num_canaries))
        return np.split(rounds[order], ends[:-1])


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
