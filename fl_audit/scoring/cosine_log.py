"""The log of every canary's cosine with every round's aggregate, a file of its own on disk."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.scoring.over_rounds import OverRounds, over_rounds

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CosineLog:
    """Cosines, float32 of shape (rounds, canaries), mapped from an NPY file.

    A row is NaN until its round is written; what is written survives kill -9, and after a flush a
    power cut.
    """

    _cosines: "np.memmap[Any, np.dtype[np.float32]]"

    @classmethod
    def create(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Makes an empty log of this shape."""
        shape = (num_rounds, num_canaries)
        cosines = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        cosines[:] = np.nan
        return cls(cosines)

    @classmethod
    def open(cls, path: Path, num_rounds: int, num_canaries: int) -> "CosineLog":
        """Opens the log of an interrupted run, to write on.

        Raises:
          InputError: the file is missing, damaged, or of another shape.
        """
        return cls(_map(path, "r+", (num_rounds, num_canaries)))

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, num_canaries: int
    ) -> "CosineLog":
        """The log of a run of which so many rounds are done: a new one where none are.

        Raises:
          InputError: rounds are done, and the file is missing, damaged, or of another shape.
        """
        make = cls.open if completed else cls.create
        return make(path, num_rounds, num_canaries)

    @classmethod
    def read(cls, path: Path, num_canaries: int) -> "CosineLog":
        """Opens a log of any number of rounds, to read only.

        Raises:
          InputError: the file is missing, damaged, or of another number of canaries.
        """
        return cls(_map(path, "r", ("rounds", num_canaries)))

    @property
    def num_rounds(self) -> int:
        """Rounds that there is room for."""
        return int(self._cosines.shape[0])

    def write_round(self, round_index: int, cosines: FloatArray) -> None:
        """Writes one round's row."""
        self._cosines[round_index] = cosines

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._cosines.flush()

    def written(self) -> npt.NDArray[np.bool_]:
        """Which rounds are written, whole: bool of shape (rounds,)."""
        return np.array([bool(np.isfinite(row).all()) for row in self._cosines], dtype=bool)

    def over_rounds(self, rounds: slice = slice(None)) -> OverRounds:
        """Maximum and sum over the rounds that are written, or those of them in a slice."""
        return over_rounds(self._rows(rounds), self._cosines.shape[1])

    def _rows(self, rounds: slice) -> Iterator[npt.NDArray[np.float32]]:
        return (row for row in self._cosines[rounds] if np.isfinite(row).all())


def _map(
    path: Path, mode: Literal["r", "r+"], shape: tuple[int | str, int]
) -> "np.memmap[Any, np.dtype[np.float32]]":
    """Maps a log whose first extent may be a word, which stands for any."""
    try:
        cosines: np.memmap[Any, np.dtype[np.float32]] = np.lib.format.open_memmap(path, mode)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: is not a log of cosines: {error}") from error
    rounds, num_canaries = shape
    expected = (cosines.shape[:1] if isinstance(rounds, str) else (rounds,)) + (num_canaries,)
    if cosines.shape != expected or cosines.dtype != np.float32:
        raise InputError(
            f"{path}: holds {cosines.dtype} of shape {cosines.shape}, must be float32 of "
            f"shape ({rounds}, {num_canaries})"
        )
    return cosines
