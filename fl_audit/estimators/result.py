"""The record that an estimator returns: the number together with what it means."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fl_audit.estimators.records import Record, html_of, record_of

Kind = Literal["estimate", "lower_bound", "interval"]
ValidFor = Literal["any mechanism", "independent scores", "Gaussian mechanisms"]
"""Where a lower bound holds at its confidence: for any mechanism; for any under which the scores of
different canaries are independent once it is decided who is included; for Gaussian ones."""

WHATEVER_LAW: tuple[ValidFor, ...] = ("any mechanism", "independent scores")
"""Where a bound holds that takes no law of included canaries' scores for granted."""
Detail = float | int | str | None | Mapping[str, "Detail"]


@dataclass(frozen=True)
class Estimate:
    """One privacy estimate, with its kind, assumptions and guarantee.

    Attributes:
      method: Name of the method in the registry, such as "one_run".
      kind: "estimate" (a point value without a confidence), "lower_bound" or "interval".
      epsilon: The headline value, in nats, at least 0, possibly infinite.
      assumes: What has to hold for the value to mean anything, in words.
      guarantee: What the value guarantees, and what it does not, in words.
      source: Paper, section and equation of the estimator.
      lower: Lower end of a bound or interval; None for a point estimate.
      upper: Upper end of an interval; else None.
      valid_for: Mechanisms on which a lower bound holds at its confidence, everything that was
        chosen on the data included; None if it claims no such thing.
      details: Numbers that tell how the value came about (threshold, counts, ...).

    Raises:
      ValueError: If epsilon is negative or NaN.
    """

    method: str
    kind: Kind
    epsilon: float
    assumes: str
    guarantee: str
    source: str
    lower: float | None = None
    upper: float | None = None
    valid_for: ValidFor | None = None
    details: Mapping[str, Detail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}")

    def record(self) -> Record:
        """The estimate as a row of a data frame, without `details`."""
        return record_of(self)

    def _repr_html_(self) -> str:
        """The estimate as a notebook shows it, with what it guarantees and assumes."""
        return html_of(self)

    def to_json(self) -> dict[str, object]:
        """The JSON object of this estimate: finite numbers only, infinities as words.

        The words travel inside `details`, so that they stay with the number in every report.

        Raises:
          ValueError: If a detail is NaN.

        >>> flat = Estimate("m", "lower_bound", math.inf, "a", "g", "s", lower=math.inf)
        >>> flat.to_json()["epsilon"], flat.to_json()["upper"]
        ('inf', None)
        """
        words = {
            "valid_for": self.valid_for,
            "assumes": self.assumes,
            "guarantee": self.guarantee,
            "source": self.source,
        }
        return {
            "method": self.method,
            "kind": self.kind,
            "epsilon": json_value(self.epsilon),
            "lower": json_value(self.lower),
            "upper": json_value(self.upper),
            "details": json_value({**self.details, **words}),
        }


def json_value(value: Detail) -> object:
    """A value as JSON may print it: "inf" and "-inf" for infinities, never NaN.

    Raises:
      ValueError: If the value is NaN.

    >>> json_value({"threshold": -math.inf, "mean": 0.5})
    {'threshold': '-inf', 'mean': 0.5}
    """
    if isinstance(value, Mapping):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("a reported value must be a number, got NaN")
        return float(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    return value
