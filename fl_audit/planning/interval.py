"""Prediction intervals from simulated values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.result import json_value

_LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """Where a real run's number is expected.

    Attributes:
      median: of the middle of what is unknown.
      lower: lower end, over the whole range of what is unknown.
      upper: upper end, likewise.
    """

    median: float
    lower: float
    upper: float

    def to_json(self) -> dict[str, object]:
        """The JSON object: infinities as words."""
        fields = {"median": self.median, "lower": self.lower, "upper": self.upper}
        return {name: json_value(value) for name, value in fields.items()}


def _rank(trials: int) -> int:
    """Which of the sorted values is the lower end: the largest rank that keeps _LEVEL, or 1."""
    return max(int((trials + 1) * (1 - _LEVEL) / 2 + 1e-9), 1)


def coverage(trials: int) -> float:
    """Chance that a new value lies between the ends of `ends_of`: 1 - 2 r / (T + 1), for any law.

    By symmetry: the new value is equally likely to have each of the T + 1 ranks.

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
    """The middle value; of an even number, the smaller of the two, as either may be infinite."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def interval_over(middle: FloatArray, samples: Sequence[FloatArray]) -> Interval:
    """The median of the middle, and the ends that hold whichever sample is the true one.

    Args:
      middle: values in the middle of what is unknown.
      samples: values at the ends of what is unknown.
    """
    ends = [ends_of(values) for values in (middle, *samples)]
    lower, upper = min(low for low, _ in ends), max(high for _, high in ends)
    return Interval(median_of(middle), lower, upper)
