"""What is measured of the noise of each round, as a row of numbers: for the checks, and for a file.

A row is about the round's aggregate, or its whitened one, in units of the noise that should be on a
coordinate. It is NaN if that noise is none, not known or lost in float32, and its first two numbers
are if no autocorrelation was computed.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.checks.autocorrelation import EVERY_ROUND, strongest_autocorrelation
from fl_audit.checks.coordinates import (
    THRESHOLDS,
    SilentCoordinates,
    exceeding,
    rounding_error,
)
from fl_audit.checks.sketches import sketch, sketch_size
from fl_audit.inner_products import euclidean_norm

_FIRST = 4
"""The number of numbers before the counts of `exceeding`."""

RESOLUTION = 1e-6
"""The resolution of an aggregate in float32: shorter noise is lost in it, whatever is added."""


def row_size(dim: int) -> int:
    """The length of a row for models of `dim` parameters with noise."""
    return _FIRST + len(THRESHOLDS) + sketch_size(dim)


@dataclass(frozen=True, eq=False)
class NoiseRows:
    """The rows of some rounds, float64 of shape (rounds, numbers)."""

    rows: FloatArray
    dim: int

    @property
    def echoes(self) -> FloatArray:
        """Log p-value and correlation of the strongest autocorrelation, of shape (rounds, 2)."""
        return self.rows[:, :2]

    @property
    def silent(self) -> FloatArray:
        """Log p-value and ratio of coordinates with too little noise, of shape (rounds, 2)."""
        return self.rows[:, 2:_FIRST]

    @property
    def exceeding(self) -> FloatArray:
        """The coordinates above each threshold, of shape (rounds, thresholds)."""
        return self.rows[:, _FIRST : _FIRST + len(THRESHOLDS)]

    @property
    def sketches(self) -> FloatArray:
        """The sketches, of shape (rounds, numbers)."""
        return self.rows[:, _FIRST + len(THRESHOLDS) :]


class NoiseWatch:
    """Measures the noise of rounds in order."""

    def __init__(self, sizes: Collection[int], frozen: Collection[int] = ()) -> None:
        """`sizes` are those of the model's variables; `frozen` ones, from 0, have no noise."""
        self._moving: npt.NDArray[np.bool_] | None = None
        if frozen:
            self._moving = np.repeat([at not in frozen for at in range(len(sizes))], [*sizes])
        self._silent = SilentCoordinates()
        self._last = -1

    def row(
        self, index: int, aggregate: Float32Array, stddev: float, norm_bound: float
    ) -> Float32Array:
        """The row of a round, from 0; of NaN without noise.

        A round that is not after the last one replaces it: then coordinates are followed anew.
        """
        if index <= self._last:
            self._silent = SilentCoordinates()
        self._last = index
        if self._moving is not None:
            aggregate = aggregate[self._moving]
        dim = len(aggregate)
        if not math.sqrt(dim) * stddev > RESOLUTION * euclidean_norm(aggregate):
            return np.full(row_size(dim), np.nan, np.float32)
        echo: tuple[float, float] = (np.nan, np.nan)
        is_turn = dim <= EVERY_ROUND or (index + 1) & index == 0
        if is_turn and not np.isnan(norm_bound):
            strongest = strongest_autocorrelation(aggregate, stddev, norm_bound)
            if strongest is not None:
                echo = (strongest.log_p, strongest.correlation)
        error = rounding_error(aggregate, stddev)
        silent = self._silent.see_round(aggregate, stddev, error)
        counts = exceeding(aggregate, stddev, error)
        images = sketch(aggregate) / stddev
        return np.array([*echo, silent.log_p, silent.ratio, *counts, *images], np.float32)
