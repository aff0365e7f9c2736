"""Participations that are drawn or read before the run, and looked up by round."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.participation.possible_rounds import DrawnRounds
from fl_audit.participation.schedule import Attendance, CanaryAttendance


class Presentations:
    """Who takes part in which round, 8 bytes a participation."""

    def __init__(
        self,
        members: npt.NDArray[np.integer[Any]],
        rounds: npt.NDArray[np.integer[Any]],
        num_rounds: int,
    ) -> None:
        """Sorts the participations by round.

        Args:
          members: index of who takes part, one per participation.
          rounds: the round of each, in [0, num_rounds).
          num_rounds: rounds of training.
        """
        order = np.lexsort((members, rounds))
        self._num_rounds = num_rounds
        self._members = members[order].astype(np.int32)
        self._rounds = rounds[order].astype(np.int32)
        self._starts = np.searchsorted(self._rounds, np.arange(num_rounds + 1))

    @property
    def attendance(self) -> Attendance:
        """The presentations as a schedule takes them."""
        most = int(np.bincount(self._members).max(initial=0))
        return Attendance(self.of, len(self._members) / self._num_rounds, DrawnRounds(most))

    def of_canaries(self, included: npt.NDArray[np.bool_]) -> CanaryAttendance:
        """The presentations of a whole pool as a schedule takes them.

        Args:
          included: The coins, bool of shape (num_canaries,).
        """
        kept = included[self._members]
        attending = Presentations(self._members[kept], self._rounds[kept], self._num_rounds)
        made = attending.attendance
        return CanaryAttendance(made.of, made.expected, made.possible_rounds, dealt=self.of)

    def of(self, round_index: int) -> IndexArray:
        """Ascending indices of those who take part in one round."""
        start, end = self._starts[round_index : round_index + 2]
        members: IndexArray = self._members[start:end].astype(np.int64)
        return members
