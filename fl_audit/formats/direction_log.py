"""The log of the directions of rounds' vectors, whole or as short images, one file on disk."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.formats.mapped_log import MappedArray, create_zeros, open_log

_COLUMNS = 1 << 14
"""The number of columns that are read at a time: 128 MB of 2,048 rounds."""


@dataclass(frozen=True)
class DirectionLog:
    """A log of directions, float32 of shape (rounds, 1 + width).

    A row begins with the 4-norm of the direction, which is NaN until the row is written and 0 where
    the vector has no direction; the image of the direction follows.
    """

    _rows: MappedArray

    @classmethod
    def create(cls, path: Path, num_rounds: int, width: int) -> "DirectionLog":
        """Makes an empty log.

        Raises:
          InputError: The disk has no room for it.
        """
        return cls.of(create_zeros(path, np.float32, (num_rounds, 1 + width)))

    @classmethod
    def of(cls, rows: MappedArray) -> "DirectionLog":
        """Makes an empty log of a new array."""
        rows[:, 0] = np.nan
        return cls(rows)

    @classmethod
    def open(cls, path: Path, num_rounds: int, width: int) -> "DirectionLog":
        """Opens the log of an interrupted run or of an audit to continue it.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(open_log(path, "r+", np.float32, (num_rounds, 1 + width), "directions"))

    @classmethod
    def read(cls, path: Path, num_rounds: int, width: int) -> "DirectionLog":
        """Opens a log for reading only.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(open_log(path, "r", np.float32, (num_rounds, 1 + width), "directions"))

    @property
    def width(self) -> int:
        """The length of an image."""
        return int(self._rows.shape[1]) - 1

    def forget(self, round_index: int) -> None:
        """Makes a round's direction unknown."""
        self._rows[round_index, 0] = np.nan

    def write_round(self, round_index: int, fourth_norm: float, image: Float32Array) -> None:
        """Writes a round's row, the mark of a written row last."""
        self.forget(round_index)
        self._rows[round_index, 1:] = image
        self._rows[round_index, 0] = fourth_norm

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._rows.flush()

    def fourth_norms(self) -> FloatArray:
        """The directions' 4-norms, float64 of shape (rounds,); see the class for NaN and 0."""
        return np.array(self._rows[:, 0], np.float64)

    def columns(self, rounds: IndexArray) -> Iterator[FloatArray]:
        """The images of some rounds, a few columns at a time.

        Args:
          rounds: The rounds, int64 of shape (n,).

        Yields:
          Consecutive columns, float64 of shape (n, columns).
        """
        for start in range(1, self._rows.shape[1], _COLUMNS):
            yield self._rows[rounds, start : start + _COLUMNS].astype(np.float64)
