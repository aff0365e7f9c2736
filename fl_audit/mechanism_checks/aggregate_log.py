"""The lengths of every round's noised aggregate, and how alike it is to the last one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.formats.mapped_log import MappedArray, create_log, open_log

_CHUNK = 1 << 20
"""Coordinates that are held as float64 at a time."""


def measure(aggregate: Float32Array, last: Float32Array | None, sizes: Sequence[int]) -> FloatArray:
    """What is logged of an aggregate.

    Args:
      aggregate: (dim,).
      last: The aggregate of the round before; None where there is none.
      sizes: of the model's variables, which lie one behind the other in it.

    Returns:
      (variables, 2): each variable's squared length, and its inner product with the last round's,
      NaN without one. Sums of float64.
    """
    ends = np.cumsum(sizes)
    bounds = zip(ends - np.asarray(sizes), ends, strict=True)
    return np.array(
        [
            _products(aggregate[start:end], None if last is None else last[start:end])
            for start, end in bounds
        ]
    )


def _products(vector: Float32Array, other: Float32Array | None) -> FloatArray:
    """Its inner products with itself and with the other one."""
    total = np.array([0.0, np.nan if other is None else 0.0])
    for start in range(0, len(vector), _CHUNK):
        chunk = vector[start : start + _CHUNK].astype(np.float64)
        total[0] += chunk @ chunk
        if other is not None:
            total[1] += chunk @ other[start : start + _CHUNK].astype(np.float64)
    return total


class RowsInMemory:
    """Rows of `measure` of any number of rounds, which nobody needs after a crash."""

    def __init__(self) -> None:
        """Starts without any."""
        self._rows: list[FloatArray] = []

    def write_round(self, round_index: int, measured: FloatArray) -> None:
        """Takes the row of the next round."""
        if round_index != len(self._rows):
            raise ValueError(f"round {len(self._rows)} is next, got {round_index}")
        self._rows.append(measured)

    def rows(self) -> FloatArray:
        """The rows, float64 of shape (rounds, variables, 2)."""
        return np.array(self._rows)


@dataclass(frozen=True)
class AggregateLog:
    """Rows of `measure`, float64 of shape (rounds, variables, 2) (see `formats.mapped_log`)."""

    _rows: MappedArray

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, num_variables: int
    ) -> "AggregateLog":
        """The log of a run of which so many rounds are done: a new one where none are.

        Raises:
          InputError: Rounds are done, and the file is missing, damaged, or of another shape.
        """
        shape = (num_rounds, num_variables, 2)
        if completed:
            return cls(open_log(path, "r+", np.float64, shape, "aggregates"))
        return cls(create_log(path, np.float64, shape))

    def write_round(self, round_index: int, measured: FloatArray) -> None:
        """Writes one round's row."""
        self._rows[round_index] = measured

    def flush(self) -> None:
        """Writes what is in memory to the disk."""
        self._rows.flush()

    def rows(self) -> FloatArray:
        """The rows, float64 of shape (rounds, variables, 2); NaN where a round is not written."""
        return np.array(self._rows)


def read_aggregate_log(path: Path, num_rounds: int, num_variables: int) -> FloatArray:
    """The rows of a finished run, float64 of shape (rounds, variables, 2).

    Raises:
      InputError: The file is missing, damaged, or of another shape.
    """
    shape = (num_rounds, num_variables, 2)
    return AggregateLog(open_log(path, "r", np.float64, shape, "aggregates")).rows()
