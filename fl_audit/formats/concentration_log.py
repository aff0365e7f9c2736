"""The log of how much of each round's vector lies on few coordinates, one file on disk."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.formats.mapped_log import MappedArray, create_log, open_log


@dataclass(frozen=True)
class ConcentrationLog:
    """A log of two sums for each round's vector, float64 of shape (rounds, 2); see `mapped_log`.

    A row holds the sums of cubes and of fourth powers of the vector scaled to norm 1. It is zeros
    where the vector is zero, and NaN where the vector is unknown.
    """

    _rows: MappedArray

    @classmethod
    def create(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Makes an empty log with a row for each round."""
        return cls(create_log(path, np.float64, (num_rounds, 2)))

    @classmethod
    def open(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Opens the log of an interrupted run to continue it.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(open_log(path, "r+", np.float64, (num_rounds, 2), "concentrations"))

    @classmethod
    def at_round(cls, completed: int, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Makes a new log where no round is completed, and else opens the existing one.

        Raises:
          InputError: Rounds are completed, and the file is missing, damaged or of another shape.
        """
        return (cls.open if completed else cls.create)(path, num_rounds)

    @classmethod
    def read(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Opens a log for reading only.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(open_log(path, "r", np.float64, (num_rounds, 2), "concentrations"))

    def write_round(self, round_index: int, row: FloatArray) -> None:
        """Writes the row of one round, float64 of shape (2,)."""
        self._rows[round_index] = row

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._rows.flush()

    def row(self, round_index: int) -> FloatArray:
        """The row of one round, float64 of shape (2,)."""
        return np.array(self._rows[round_index])

    def rows(self) -> FloatArray:
        """The rows of all rounds, float64 of shape (rounds, 2)."""
        return np.array(self._rows)
