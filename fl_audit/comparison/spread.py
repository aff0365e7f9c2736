"""The spread of a number over runs that differ only by chance."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from fl_audit.estimators.result import json_value


@dataclass(frozen=True)
class Spread:
    """The values of one number, one per run.

    With few runs, the smallest and the largest value describe the spread better than a standard
    deviation (Negoescu et al. 2024 draw them too).

    Attributes:
      values: The values, at least one, possibly infinite.
    """

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """The spread of the values that are known; None where there are none."""
        known = tuple(value for value in values if value is not None)
        return cls(known) if known else None

    @property
    def mean(self) -> float:
        """Mean of the values; infinite where one of them is."""
        return math.inf if math.inf in self.values else statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation (ddof=1); None for a single value, or where one is infinite."""
        if len(self.values) < 2 or not all(map(math.isfinite, self.values)):
            return None
        return statistics.stdev(self.values)

    @property
    def smallest(self) -> float:
        """The smallest of the values."""
        return min(self.values)

    @property
    def largest(self) -> float:
        """The largest of the values."""
        return max(self.values)

    def to_json(self) -> dict[str, object]:
        """The JSON object, with infinities as words."""
        return {
            "values": [json_value(value) for value in self.values],
            "mean": json_value(self.mean),
            "std": self.std,
            "smallest": json_value(self.smallest),
            "largest": json_value(self.largest),
        }
