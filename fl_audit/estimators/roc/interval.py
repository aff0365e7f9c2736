"""An interval that is right only in the limit of many scores."""

from dataclasses import dataclass

from fl_audit.estimators.result import json_value


@dataclass(frozen=True)
class ApproximateInterval:
    """A two-sided interval of a statistic whose confidence holds for many scores only.

    It is no bound on epsilon and proves nothing about privacy.

    Attributes:
      lower: Lower end of the interval.
      upper: Upper end of the interval, at least `lower`.
    """

    lower: float
    upper: float

    def to_json(self) -> list[object]:
        """The two ends, the lower one first."""
        return [json_value(self.lower), json_value(self.upper)]
