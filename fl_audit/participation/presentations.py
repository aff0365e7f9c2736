"""Participations that are drawn or read before the run, and looked up by round."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.participation.possible_rounds import DrawnRounds
from fl_audit.participation.schedule import Attendance, CanaryAttendance


class Presentations:
    """A table of who takes part in which round, 8 bytes per participation."""

    def __init__(
        self,
        members: npt.NDArray[np.integer[Any]],
        rounds: npt.NDArray[np.integer[Any]],
        num_rounds: int,
        blocks: tuple[int, ...] | None = None,
    ) -> None:
        """Sorts the participations by round.

        Args:
          members: The index of who takes part, integers of shape (participations,).
          rounds: The round of each, in [0, num_rounds), integers of shape (participations,).
          num_rounds: The number of rounds of training.
          blocks: See `CanaryAttendance`.
        """
        order = np.lexsort((members, rounds))
        self._num_rounds = num_rounds
        self._blocks = blocks
        self._members = members[order].astype(np.int32)
        self._rounds = rounds[order].astype(np.int32)
        self._starts = np.searchsorted(self._rounds, np.arange(num_rounds + 1))

    @property
    def attendance(self) -> Attendance:
        """The presentations as an `Attendance` of a schedule."""
        most = int(np.bincount(self._members).max(initial=0))
        return Attendance(self.of, len(self._members) / self._num_rounds, DrawnRounds(most))

    def of_canaries(self, included: npt.NDArray[np.bool_]) -> CanaryAttendance:
        """The presentations of a whole pool as a `CanaryAttendance` of a schedule.

        Args:
          included: The coins, bool of shape (num_canaries,).
        """
        kept = included[self._members]
        attending = Presentations(self._members[kept], self._rounds[kept], self._num_rounds)
        made = attending.attendance
        return CanaryAttendance(
            made.of, made.expected, made.possible_rounds, dealt=self.of, blocks=self._blocks
        )

    def of(self, round_index: int) -> IndexArray:
        """The indices of those who take part in one round, ascending."""
        start, end = self._starts[round_index : round_index + 2]
        members: IndexArray = self._members[start:end].astype(np.int64)
        return members

    def by_member(self, count: int) -> list[list[int]]:
        """The rounds of each member in order, counted from 1; lists for members 0 to count - 1."""
        rounds: list[list[int]] = [[] for _ in range(count)]
        for member, index in zip(self._members.tolist(), self._rounds.tolist(), strict=True):
            rounds[member].append(index + 1)
        return rounds
