"""The log of how much of each round's vector lies on few coordinates, a file of its own on disk."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.formats.mapped_log import MappedArray, create_log, open_log


@dataclass(frozen=True)
class ConcentrationLog:
    """Two sums per vector, float64 of shape (rounds, 2), a row per round (see `mapped_log`).

    A row holds the sums of cubes and of fourth powers of the vector scaled to norm 1, zeros where
    the vector is zero, and NaN where nothing is known of it.
    """

    _rows: MappedArray

    @classmethod
    def create(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Makes an empty log of so many rounds."""
        return cls(create_log(path, np.float64, (num_rounds, 2)))

    @classmethod
    def open(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Opens the log of an interrupted run, to write on.

        Raises:
          InputError: the file is missing, damaged, or of another shape.
        """
        return cls(open_log(path, "r+", np.float64, (num_rounds, 2), "concentrations"))

    @classmethod
    def at_round(cls, completed: int, path: Path, num_rounds: int) -> "ConcentrationLog":
        """The log of a run of which so many rounds are done: a new one where none are.

        Raises:
          InputError: rounds are done, and the file is missing, damaged, or of another shape.
        """
        return (cls.open if completed else cls.create)(path, num_rounds)

    @classmethod
    def read(cls, path: Path, num_rounds: int) -> "ConcentrationLog":
        """Opens a log to read only.

        Raises:
          InputError: the file is missing, damaged, or of another shape.
        """
        return cls(open_log(path, "r", np.float64, (num_rounds, 2), "concentrations"))

    def write_round(self, round_index: int, row: FloatArray) -> None:
        """Writes one round's row, float64 of shape (2,)."""
        self._rows[round_index] = row

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._rows.flush()

    def rows(self) -> FloatArray:
        """The rows, float64 of shape (rounds, 2)."""
        return np.array(self._rows)
