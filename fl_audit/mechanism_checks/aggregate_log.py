"""The log of every round's noised aggregate: its lengths, and its products with the last one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.formats.round_logs import MappedArray, create_log, open_log
from fl_audit.inner_products import inner_product


def measure(aggregate: Float32Array, last: Float32Array | None, sizes: Sequence[int]) -> FloatArray:
    """The numbers that are logged of an aggregate.

    Args:
      aggregate: The aggregate, of shape (dim,).
      last: The aggregate of the round before; None where there is none.
      sizes: The sizes of the model's variables, which lie one behind the other in the aggregate.

    Returns:
      Each variable's squared length and its inner product with the last round's (NaN without one),
      float64 of shape (variables, 2).
    """
    ends = np.cumsum(sizes)
    bounds = zip(ends - np.asarray(sizes), ends, strict=True)
    return np.array(
        [
            _products(aggregate[start:end], None if last is None else last[start:end])
            for start, end in bounds
        ]
    )


def _products(vector: Float32Array, other: Float32Array | None) -> tuple[float, float]:
    """The inner products of a vector with itself and with the other one."""
    return inner_product(vector, vector), np.nan if other is None else inner_product(vector, other)


class RowsInMemory:
    """Rows of `measure` of any number of rounds, which are not needed after a crash."""

    def __init__(self) -> None:
        """Starts without any row."""
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
    """The rows of `measure` in a file, float64 of shape (rounds, variables, 2).

    The format of the file is described in `formats.mapped_log`.
    """

    _rows: MappedArray

    @classmethod
    def at_round(
        cls, completed: int, path: Path, num_rounds: int, num_variables: int
    ) -> "AggregateLog":
        """The log of a run with so many completed rounds; a new log where there are none.

        Raises:
          InputError: Rounds are completed, but the file is missing, damaged, or of another shape.
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
        """The rows, float64 of shape (rounds, variables, 2); NaN in rounds that are not written."""
        return np.array(self._rows)


def read_aggregate_log(path: Path, num_rounds: int, num_variables: int) -> FloatArray:
    """The rows of a finished run, float64 of shape (rounds, variables, 2).

    Raises:
      InputError: The file is missing, damaged, or of another shape.
    """
    shape = (num_rounds, num_variables, 2)
    return AggregateLog(open_log(path, "r", np.float64, shape, "aggregates")).rows()
