"""The sum of directions of a server's rounds, which come in any order and may be repeated."""

from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.direction_sum import add_direction, sum_of_cosines
from fl_audit.errors import InputError
from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.npy_file import next_array, opened


class LoggedSum:
    """The sum of directions of a set of rounds, which answers for exactly that set.

    A round that is scored again cannot be taken out, as its first direction is gone; the sum is
    unknown from then on. The file is replaced whole after each round.
    """

    def __init__(self, path: Path, dim: int) -> None:
        """Reads the file; without a file the sum is unknown (see `create`).

        Args:
          path: The path of the file.
          dim: The length of a vector.

        Raises:
          InputError: The file is damaged.
        """
        self._path = path
        self._rounds: set[int] = set()
        self._total = np.zeros(dim)
        self._is_known = path.exists()
        if self._is_known:
            self._read()

    @classmethod
    def create(cls, path: Path) -> None:
        """Writes the file of an empty sum."""
        _write(path, set(), None)

    def forget(self, round_index: int) -> None:
        """Makes the sum unknown if a round is in it; called before its score is replaced."""
        if self._is_known and round_index in self._rounds:
            self._is_known = False
            self._path.unlink()

    def add(self, round_index: int, vector: Float32Array) -> None:
        """Adds the direction of a round that is not in it, and writes the sum."""
        if not self._is_known:
            return
        add_direction(self._total, vector)
        self._rounds.add(round_index)
        _write(self._path, self._rounds, self._total)

    def compared(self, family: str, rounds: set[int]) -> ComparedVectors | None:
        """What is known of the sum of cosines over some rounds.

        Args:
          family: The canaries' family.
          rounds: The rounds, counted from 0.

        Returns:
          What is known; None unless the sum is of exactly these rounds.
        """
        if not self._is_known or self._rounds != rounds:
            return None
        return sum_of_cosines(family, self._total)

    def _read(self) -> None:
        with opened(self._path, "a sum of directions") as file:
            rounds = next_array(file)
            total = next_array(file) if len(rounds) else self._total
        if rounds.dtype != np.int64 or rounds.ndim != 1:
            raise InputError(f"{self._path}: must begin with the rounds, int64 of shape (rounds,)")
        if total.dtype != np.float64 or total.shape != self._total.shape:
            raise InputError(
                f"{self._path}: holds {total.dtype} of shape {total.shape}, must be float64 of "
                f"shape {self._total.shape}"
            )
        self._rounds, self._total = set(rounds.tolist()), total


def _write(path: Path, rounds: set[int], total: FloatArray | None) -> None:
    """Writes the rounds, then the sum, as two arrays in one file."""
    with atomic_writer(path) as file:
        np.save(file, np.array(sorted(rounds), dtype=np.int64))
        if total is not None:
            np.save(file, total)
