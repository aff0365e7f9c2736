"""Prediction intervals from simulated values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.result import json_value

_LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """The interval in which a real run's number is expected.

    Attributes:
      median: Median in the middle of the unknowns.
      lower: Lower end over the whole range of the unknowns.
      upper: Upper end over the whole range of the unknowns.
    """

    median: float
    lower: float
    upper: float

    def to_json(self) -> dict[str, object]:
        """The JSON object, with infinities as words."""
        fields = {"median": self.median, "lower": self.lower, "upper": self.upper}
        return {name: json_value(value) for name, value in fields.items()}


def _rank(trials: int) -> int:
    """Rank of the sorted value that is the lower end: the largest that keeps _LEVEL, or 1."""
    return max(int((trials + 1) * (1 - _LEVEL) / 2 + 1e-9), 1)


def coverage(trials: int) -> float:
    """Chance that a new value lies between the ends of `ends_of`: 1 - 2 r / (T + 1), for any law.

    The new value is equally likely to have each of the T + 1 ranks, by symmetry.

    >>> coverage(39), round(coverage(19), 3)
    (0.95, 0.9)
    """
    return 1 - 2 * _rank(trials) / (trials + 1)


def ends_of(values: FloatArray) -> tuple[float, float]:
    """The r-th smallest and the r-th largest of simulated values."""
    rank = _rank(len(values))
    ordered = np.sort(values)
    return float(ordered[rank - 1]), float(ordered[-rank])


def median_of(values: FloatArray) -> float:
    """The median; for an even number of values the lower middle one, as they may be infinite."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def interval_over(middle: FloatArray, samples: Sequence[FloatArray]) -> Interval:
    """The median of `middle`, with ends that hold whichever of the samples has the true law.

    Args:
      middle: Values in the middle of the unknowns, float64 of shape (trials,).
      samples: Values at the ends of the unknowns, each float64 of shape (trials,).
    """
    ends = [ends_of(values) for values in (middle, *samples)]
    lower, upper = min(low for low, _ in ends), max(high for _, high in ends)
    return Interval(median_of(middle), lower, upper)
