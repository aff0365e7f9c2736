"""The directions of rounds in a log, and the sums of them that canaries are compared with."""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.direction_sum import CANCELLED
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.sketch import Sketch, largest_lengths, width_of
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.round_logs import DirectionLog, unnamed_log


@dataclass(frozen=True, eq=False)
class OwnSums:
    """The sums of directions of every canary's own rounds.

    Attributes:
      lengths: Their lengths, or upper bounds that all hold but for a chance of 1e-9, float64 of
        shape (num_canaries,).
      are_exact: Whether these are the lengths, up to rounding.
      concentration: An upper bound on both sums of each of them; None where they are not exact.
    """

    lengths: FloatArray
    are_exact: bool
    concentration: Concentration | None


class RoundDirections:
    """The directions of a run's or a log's rounds, whole or sketched (sketch.py)."""

    def __init__(self, log: DirectionLog, seed: int, dim: int) -> None:
        """Takes a log, to write to or to read.

        Args:
          log: The log.
          seed: The seed of the run or of the pool.
          dim: The length of a vector.
        """
        self._log = log
        self._is_exact = log.width == dim
        self._seed = seed
        self._dim = dim

    @functools.cached_property
    def _sketch(self) -> Sketch:
        return Sketch(self._seed, self._dim, self._log.width)

    @classmethod
    def create(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Makes an empty log with room for so many rounds."""
        log = DirectionLog.create(path, num_rounds, width_of(dim, num_rounds))
        return cls(log, seed, dim)

    @classmethod
    def unnamed(cls, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Makes an empty log in a file without a name, which goes with the object."""
        width = width_of(dim, num_rounds)
        return cls(DirectionLog.of(unnamed_log((num_rounds, 1 + width))), seed, dim)

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, seed: int, dim: int
    ) -> "RoundDirections":
        """Makes a new log where no round is completed, and else opens the existing one.

        Raises:
          InputError: Rounds are completed, and the file is missing, damaged or of another shape.
        """
        return (cls.open if completed else cls.create)(path, num_rounds, seed, dim)

    @classmethod
    def open(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Opens a log to continue it.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(DirectionLog.open(path, num_rounds, width_of(dim, num_rounds)), seed, dim)

    @classmethod
    def read(cls, path: Path, num_rounds: int, seed: int, dim: int) -> "RoundDirections":
        """Opens a log for reading only.

        Raises:
          InputError: The file is missing, damaged or of another shape.
        """
        return cls(DirectionLog.read(path, num_rounds, width_of(dim, num_rounds)), seed, dim)

    def add(self, round_index: int, vector: Float32Array) -> None:
        """Writes the direction of a round's vector."""
        known = concentration_of(vector)
        fourth_norm = 0.0 if known is None else known.fourth_powers**0.25
        self._log.write_round(round_index, fourth_norm, self._sketch.image(vector))

    def forget(self, round_index: int) -> None:
        """Makes a round's direction unknown, before its cosines are replaced."""
        self._log.forget(round_index)

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._log.flush()

    def own_sums(self, own: OwnRounds, rounds: IndexArray, at: IndexArray) -> OwnSums | None:
        """The sums over each canary's own rounds, or its stand-in (see `SumsInOwnRounds`).

        Args:
          own: The rounds of the pool.
          rounds: The rounds that were scored, counted from 0, in order, int64 of shape (n,).
          at: Their rows in the log, int64 of shape (n,).

        Returns:
          None where the direction of a round that counts is not known, a round has none, or the
          directions of a canary's rounds cancel.
        """
        norms = self._log.fourth_norms()[at]
        if len(rounds) == 0 or not (norms > 0).all():
            return None
        takes_part, set_of = _round_sets(own, rounds)
        squares, cubes, fourth_powers = self._moments(at, takes_part)
        if self._is_exact:
            lengths = np.sqrt(squares)
        else:
            counts = takes_part.sum(axis=1)
            lengths = largest_lengths(squares, takes_part @ norms, counts, self._log.width)
        if lengths.min() < CANCELLED:
            return None
        worst = _worst(squares, cubes, fourth_powers) if self._is_exact else None
        return OwnSums(lengths[set_of], self._is_exact, worst)

    def _moments(self, at: IndexArray, takes_part: FloatArray) -> FloatArray:
        """Sums of second, third and fourth absolute powers of summed images, by set of rounds."""
        moments = np.zeros((3, len(takes_part)))
        for columns in self._log.columns(at):
            sums = np.abs(takes_part @ columns)
            squares = sums * sums
            moments += squares.sum(axis=1), (squares * sums).sum(axis=1), (squares**2).sum(axis=1)
        return moments


def _round_sets(own: OwnRounds, rounds: IndexArray) -> tuple[FloatArray, IndexArray]:
    """The different sets of own rounds among those that are scored, and the set of each canary.

    Returns:
      Whether each set has each scored round, float64 of shape (sets, scored rounds), and the set of
      each canary, int64 of shape (num_canaries,).
    """
    takes_part = np.zeros((len(own.of_canary), len(rounds)), bool)
    for canary, its_rounds in enumerate(own.of_canary):
        takes_part[canary] = np.isin(rounds, its_rounds)
    takes_part[~takes_part.any(axis=1), 0] = True
    sets, set_of = np.unique(takes_part, axis=0, return_inverse=True)
    return sets.astype(np.float64), set_of.reshape(-1)


def _worst(squares: FloatArray, cubes: FloatArray, fourth_powers: FloatArray) -> Concentration:
    """The largest of both sums of some vectors scaled to norm 1; rounding may exceed 1."""
    return Concentration(
        min(float((cubes * squares**-1.5).max()), 1.0),
        min(float((fourth_powers / squares**2).max()), 1.0),
    )
