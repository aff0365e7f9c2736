"""The log of every canary's cosine with every round's aggregate, a file of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.formats.mapped_log import MappedArray, create_log, open_log


@dataclass(frozen=True)
class CosineLog:
    """Cosines, float32 of shape (rounds, canaries), one row per round (see `mapped_log`)."""

    _cosines: MappedArray

    @classmethod
    def create(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Makes an empty log of this shape."""
        return cls(create_log(path, np.float32, (num_rounds, num_canaries)))

    @classmethod
    def open(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Opens the log of an interrupted run, to continue it.

        Raises:
          InputError: The file is missing, damaged, or of another shape.
        """
        return cls(open_log(path, "r+", np.float32, (num_rounds, num_canaries), "cosines"))

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, num_canaries: int
    ) -> "CosineLog":
        """The log of a run with so many completed rounds; a new log where there are none.

        Raises:
          InputError: Rounds are completed, but the file is missing, damaged, or of another shape.
        """
        make = cls.open if completed else cls.create
        return make(path, num_rounds, num_canaries)

    @classmethod
    def read(cls, path: Path, num_canaries: int) -> "CosineLog":
        """Opens a log of any number of rounds, read-only.

        Raises:
          InputError: The file is missing, damaged, or of another number of canaries.
        """
        return cls(open_log(path, "r", np.float32, ("rounds", num_canaries), "cosines"))

    @property
    def num_canaries(self) -> int:
        """The number of canaries in a row."""
        return int(self._cosines.shape[1])

    @property
    def num_rounds(self) -> int:
        """The number of rounds that there is room for."""
        return int(self._cosines.shape[0])

    def write_round(self, round_index: int, cosines: FloatArray) -> None:
        """Writes one round's row."""
        self._cosines[round_index] = cosines

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._cosines.flush()

    def written(self) -> npt.NDArray[np.bool_]:
        """The rounds that are written as a whole, bool of shape (rounds,)."""
        return np.array([bool(np.isfinite(row).all()) for row in self._cosines], dtype=bool)

    def row(self, round_index: int) -> npt.NDArray[np.float32] | None:
        """One round's row, float32 of shape (canaries,); None until it is written."""
        row: npt.NDArray[np.float32] = np.array(self._cosines[round_index])
        return row if np.isfinite(row).all() else None

    def rows(self, rounds: range | None = None) -> Iterator[npt.NDArray[np.float32]]:
        """The written rows of all rounds, or of some, one at a time.

        Args:
          rounds: The rounds to look at, consecutive and counted from 0; None for all.
        """
        seen = self._cosines if rounds is None else self._cosines[rounds.start : rounds.stop]
        return (row for row in seen if np.isfinite(row).all())
