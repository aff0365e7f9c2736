"""Every canary's cosine with the noised aggregates of rounds, as attackers share them."""

import abc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fl_audit.formats.cosine_log import CosineLog

if TYPE_CHECKING:
    from fl_audit.attacks.attacker import SeenRound

Cosines = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float64]]
"""From a float32 vector of shape (dim,) to its cosine with every canary."""

Rows = Iterator[npt.NDArray[np.float32]]


class RoundCosines(abc.ABC):
    """Rows of cosines, a round each."""

    @abc.abstractmethod
    def see_round(self, seen: "SeenRound") -> None:
        """Scores a round, once, however many attackers show it."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what is in memory to the disk."""

    @abc.abstractmethod
    def rows(self, rounds: range | None = None) -> Rows:
        """The rounds that are scored, float32 of shape (num_canaries,) each, in order.

        Args:
          rounds: Those to look at, from 0; None for all.
        """


class RoundLog(RoundCosines):
    """Cosines of a run that trains, in a file."""

    def __init__(self, cosines: Cosines, log: CosineLog) -> None:
        """Writes into a log.

        Args:
          cosines: Of every canary with a vector.
          log: Of the run, a row per round.
        """
        self._cosines = cosines
        self._log = log
        self._seen: int | None = None

    def see_round(self, seen: "SeenRound") -> None:
        """Logs each canary's cosine with the aggregate."""
        if seen.index != self._seen:
            self._log.write_round(seen.index, self._cosines(seen.aggregate))
            self._seen = seen.index

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._log.flush()

    def rows(self, rounds: range | None = None) -> Rows:
        """See `RoundCosines.rows`."""
        return self._log.rows(rounds)


class FinishedRounds(RoundCosines):
    """Cosines of rounds that are over: of a log's file, or of its aggregates one by one."""

    def __init__(self, rows: Callable[[range | None], Rows]) -> None:
        """Reads.

        Args:
          rows: As `RoundCosines.rows`.
        """
        self._rows = rows

    def see_round(self, seen: "SeenRound") -> None:
        """Refuses.

        Raises:
          ValueError: The rounds of a log are over.
        """
        raise ValueError(f"round {seen.index} is shown, and the rounds of a log are over")

    def flush(self) -> None:
        """Has nothing to write."""

    def rows(self, rounds: range | None = None) -> Rows:
        """See `RoundCosines.rows`."""
        return self._rows(rounds)
