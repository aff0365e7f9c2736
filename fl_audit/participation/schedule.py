"""Schedules, the interface of every participation pattern: the participants of each round.

A pattern registers a `ParticipationPattern`. Its schedule is a function of the seed and the round
alone, so a resumed run has the cohorts of an uninterrupted one.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.sampling import FixedRounds, OneRoundPerBlock, Sampling
from fl_audit.array_types import IntArray
from fl_audit.config_tables import Kinds, Table
from fl_audit.config_tables.kinds import RecordedTable, recorded_words
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.number_words import count

Draw = Callable[[int], IntArray]
"""A function from a round, counted from 0, to the indices of its participants."""


def drawn(draw: Draw, num_rounds: int) -> tuple[IntArray, IntArray]:
    """The member and the round of each participation, as two arrays of one length."""
    cohorts = [draw(index) for index in range(num_rounds)]
    rounds = np.repeat(np.arange(num_rounds), [len(cohort) for cohort in cohorts])
    return np.concatenate(cohorts).astype(np.int64), rounds


def most_rounds_of_a_member(draw: Draw, num_rounds: int) -> int:
    """The largest number of rounds in which any one member participates."""
    members, _ = drawn(draw, num_rounds)
    return int(np.bincount(members, minlength=1).max())


@dataclass(frozen=True, eq=False)
class Roster:
    """The real clients, by name, and the coins of the pool, bool of shape (num_canaries,)."""

    client_ids: Sequence[str]
    included: npt.NDArray[np.bool_]

    @property
    def num_clients(self) -> int:
        return len(self.client_ids)

    @property
    def pool(self) -> IntArray:
        """The indices of all canaries, included or not."""
        return np.arange(len(self.included))

    @property
    def without_canaries(self) -> "Roster":
        return Roster(self.client_ids, np.zeros(0, bool))


@dataclass(frozen=True)
class Cohort:
    """The clients and canaries that participate in one round.

    Attributes:
      clients: The indices of real clients, int64 of shape (clients,).
      canaries: The indices of canaries in the pool, int64 of shape (canaries,).
    """

    clients: IntArray
    canaries: IntArray


@dataclass(frozen=True, eq=False)
class Attendance:
    """The rounds of the real clients, or of the included canaries.

    Attributes:
      members_in: The function from a round to its participants, for any thread and order of rounds.
      expected: The expected number of participants in a round, averaged over rounds.
      sampling: The distribution of a member's rounds, for accounting.
    """

    members_in: Draw
    expected: float
    sampling: Sampling


@dataclass(frozen=True, eq=False)
class CanaryAttendance(Attendance):
    """The rounds of included canaries, and the rounds that excluded ones would have.

    Rounds are sampled for the whole pool, independently of the coins, which decide afterwards which
    canaries send an update. So the rounds of excluded canaries have the same distribution as those
    of included ones.

    Attributes:
      sampled: The function from a round to the canaries sampled for it, included or not.
    """

    sampled: Draw


def included_among(sampled: Draw, included: npt.NDArray[np.bool_]) -> Draw:
    """Keeps the included canaries among those sampled for a round."""

    def attend(round_index: int) -> IntArray:
        canaries = sampled(round_index)
        attending: IntArray = canaries[included[canaries]]
        return attending

    return attend


@dataclass(frozen=True, eq=False)
class Schedule:
    """The cohorts of a run: a function of the seed and the round alone.

    Rounds count from 0, and may be requested in any order, so a resumed run has the same cohorts as
    an uninterrupted one.

    Attributes:
      num_rounds: The number of rounds of training.
      client_attendance: The rounds of the real clients.
      canary_attendance: The rounds of the canaries.
    """

    num_rounds: int
    client_attendance: Attendance
    canary_attendance: CanaryAttendance

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
        """The largest number of rounds of a real client; None if the rounds are secret."""
        return self.client_attendance.sampling.most

    @property
    def canary_participations(self) -> int | None:
        """The largest number of rounds of an included canary; None if the rounds are secret."""
        return self.canary_attendance.sampling.most

    def cohort(self, round_index: int) -> Cohort:
        """The cohort of one round."""
        return Cohort(self.clients(round_index), self.canaries(round_index))

    def clients(self, round_index: int) -> IntArray:
        """The indices of the real clients of one round, int64."""
        return self.client_attendance.members_in(round_index)

    def canaries(self, round_index: int) -> IntArray:
        """The indices of the included canaries that participate in one round, int64."""
        return self.canary_attendance.members_in(round_index)

    def sampled_canaries(self, round_index: int) -> IntArray:
        """The indices of the canaries sampled for one round, included or not."""
        return self.canary_attendance.sampled(round_index)

    def rounds_of_canaries(self, num_canaries: int) -> list[IntArray]:
        """The sampled rounds of each canary of the pool, included or not, ascending."""
        canaries, rounds = drawn(self.sampled_canaries, self.num_rounds)
        order = np.argsort(canaries, kind="stable")
        ends = np.cumsum(np.bincount(canaries, minlength=num_canaries))
        return np.split(rounds[order], ends[:-1])[:num_canaries]


def check_cohort_size(clients_per_round: int, num_clients: int) -> None:
    """Refuses a round of more real clients than there are."""
    if clients_per_round > num_clients:
        raise InputError(
            f"participation.clients_per_round: {clients_per_round} of {num_clients} real clients; "
            f"must be at most {num_clients}"
        )


def check_room_for_canaries(expected_canaries: float, max_canaries: int) -> None:
    """Refuses rounds that would hold too many canaries on average."""
    if expected_canaries > max_canaries:
        raise InputError(
            f"canaries.count: more canaries than can be scheduled: {expected_canaries:.1f} a round "
            f"on average, must be at most {max_canaries} (canaries.max_per_round); take fewer "
            "canaries or repeats, or more rounds"
        )


# Participations drawn or read before the run, looked up by round.


class ParticipationTable:
    """A table of participations, 8 bytes each."""

    def __init__(
        self,
        members: npt.NDArray[np.integer[Any]],
        rounds: npt.NDArray[np.integer[Any]],
        num_rounds: int,
        in_blocks: OneRoundPerBlock | None = None,
    ) -> None:
        """Sorts the participations by round.

        Args:
          members: The index of each participant, integers of shape (participations,).
          rounds: The round of each participation, in [0, num_rounds), integers of the same shape.
          num_rounds: The number of rounds of training.
          in_blocks: The distribution of a member's rounds if there is one in each block; None if
            rounds are drawn otherwise.
        """
        order = np.lexsort((members, rounds))
        self._num_rounds = num_rounds
        self._in_blocks = in_blocks
        self._members = members[order].astype(np.int32)
        self._rounds = rounds[order].astype(np.int32)
        self._starts = np.searchsorted(self._rounds, np.arange(num_rounds + 1))

    @classmethod
    def of_members(
        cls, members: IntArray, rounds: Sequence[IntArray], num_rounds: int
    ) -> "ParticipationTable":
        """The participations of `members`, each with its own, possibly empty, array of `rounds`."""
        numbers = np.array([len(of_one) for of_one in rounds], np.int64)
        none = np.zeros(0, np.int64)
        return cls(np.repeat(members, numbers), np.concatenate([none, *rounds]), num_rounds)

    @property
    def attendance(self) -> Attendance:
        most = int(np.bincount(self._members).max(initial=0))
        return Attendance(self.members_in, len(self._members) / self._num_rounds, FixedRounds(most))

    def of_canaries(self, included: npt.NDArray[np.bool_]) -> CanaryAttendance:
        """The participations of a whole pool as a `CanaryAttendance` of a schedule."""
        is_included = included[self._members]
        attending = ParticipationTable(
            self._members[is_included], self._rounds[is_included], self._num_rounds
        )
        attendance = attending.attendance
        sampling = attendance.sampling
        if self._in_blocks is not None:
            sampling = dataclasses.replace(self._in_blocks, at_most=sampling.most or 0)
        return CanaryAttendance(
            attendance.members_in, attendance.expected, sampling, sampled=self.members_in
        )

    def members_in(self, round_index: int) -> IntArray:
        """The participants of one round, ascending."""
        start, end = self._starts[round_index : round_index + 2]
        members: IntArray = self._members[start:end].astype(np.int64)
        return members

    def by_member(self, count: int) -> list[list[int]]:
        """The rounds of members 0 to `count` - 1, counted from 1, in order; a list per member."""
        rounds: list[list[int]] = [[] for _ in range(count)]
        for member, index in zip(self._members.tolist(), self._rounds.tolist(), strict=True):
            rounds[member].append(index + 1)
        return rounds


# The record of a pattern.


TableType = TypeVar("TableType", bound=Table)


class Participation:
    """The second base class, with `Table`, of every pattern's config table."""

    __slots__ = ()

    @property
    def rounds(self) -> int | None:
        """The number of rounds of training; None if only the schedule determines it."""
        return None


@dataclass(frozen=True)
class ParticipationPattern(Generic[TableType]):
    """The description of one participation pattern.

    The schedule states the distribution of a member's rounds, for accounting.

    Attributes:
      table: The class of the config table, a `Participation`.
      schedule: The function from a table, the run's seed and the roster to a schedule. Raises
        `InputError` if keys of the table contradict each other or do not fit the population.
      client_rounds: A sentence for the report on the rounds of real clients, from the record of a
        finished run and the table.
      canary_rounds: Words for the report on the rounds of an included canary, which end the
        sentence "Its rounds are ...".
      names_clients: Whether the table names real clients, which then cannot be turned into
        canaries.
    """

    table: type[TableType]
    schedule: Callable[[TableType, int, Roster], Schedule]
    client_rounds: Callable[[RunRecord, TableType], str]
    canary_rounds: Callable[[TableType], str]
    names_clients: bool = False


PATTERNS = Kinds[ParticipationPattern[Any]]("participation pattern", Participation)
"""All participation patterns; a new pattern is a module that registers its own record."""


# Sentences for the report.


def client_rounds(record: RunRecord, participation: Participation, dropouts: str = "") -> str:
    """A sentence on the rounds of clients, with one on dropouts, if any."""
    if isinstance(participation, RecordedTable):
        return f"Clients participate {recorded_words(participation)}. {dropouts}".rstrip()
    rounds = PATTERNS.kind_of(participation).client_rounds(record, participation)
    return f"{rounds} {dropouts}".rstrip()


def canary_rounds(participation: Participation) -> str:
    if isinstance(participation, RecordedTable):
        return f"Its rounds are {recorded_words(participation)}."
    return f"Its rounds are {PATTERNS.kind_of(participation).canary_rounds(participation)}."


def most_rounds_of_a_client(record: RunRecord) -> str:
    """The end of a sentence, for patterns that limit a client's participations."""
    return f"each client in at most {count(record.release.client.participations or 0, 'round')}"
