"""A sum over a server's rounds, which come in any order and may be repeated."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.npy_file import next_array, opened


class LoggedTotal:
    """A vector that rounds add to, which answers for exactly the rounds that are in it.

    A round that comes again cannot be taken out, as what it added is gone. The file is replaced
    whole after each round.

    Attributes:
      rounds: The rounds that are in the sum, counted from 0; None where the sum is unknown.
      total: The sum, float64 of shape (dim,).
    """

    def __init__(self, path: Path, dim: int, what: str) -> None:
        """Reads the file; without a file the sum is unknown (see `create`).

        Args:
          path: The path of the file.
          dim: The length of the vector.
          what: What the sum is, for a message, such as "a sum of directions".

        Raises:
          InputError: The file is damaged.
        """
        self._path = path
        self.rounds: set[int] | None = None
        self.total = np.zeros(dim)
        if path.exists():
            self._read(what)

    @classmethod
    def create(cls, path: Path) -> None:
        """Writes the file of an empty sum."""
        _write(path, set(), None)

    def forget(self, round_index: int) -> None:
        """Makes the sum unknown if a round is in it; called before the round comes again."""
        if self.rounds is not None and round_index in self.rounds:
            self.rounds = None
            self._path.unlink()

    def restart_without(self, round_index: int) -> None:
        """Empties the sum if a round is in it, or if it was unknown; called as `forget` is."""
        if self.rounds is None or round_index in self.rounds:
            self.rounds = set()
            self.total[:] = 0
            _write(self._path, self.rounds, None)

    def add(self, round_index: int, change: Callable[[FloatArray], None]) -> None:
        """Lets a round that is not in it change the sum in place, and writes the sum."""
        if self.rounds is None:
            return
        change(self.total)
        self.rounds.add(round_index)
        _write(self._path, self.rounds, self.total)

    def _read(self, what: str) -> None:
        with opened(self._path, what) as file:
            rounds = next_array(file)
            total = next_array(file) if len(rounds) else self.total
        if rounds.dtype != np.int64 or rounds.ndim != 1:
            raise InputError(f"{self._path}: must begin with the rounds, int64 of shape (rounds,)")
        if total.dtype != np.float64 or total.shape != self.total.shape:
            raise InputError(
                f"{self._path}: holds {total.dtype} of shape {total.shape}, must be float64 of "
                f"shape {self.total.shape}"
            )
        self.rounds, self.total = set(rounds.tolist()), total


def _write(path: Path, rounds: set[int], total: FloatArray | None) -> None:
    """Writes the rounds, then the sum, as two arrays in one file."""
    with atomic_writer(path) as file:
        np.save(file, np.array(sorted(rounds), dtype=np.int64))
        if total is not None:
            np.save(file, total)
