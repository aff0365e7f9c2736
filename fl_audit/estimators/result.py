"""The result of an estimator: a number and its meaning.

`METHOD_GROUPS` groups methods by the reliability of their estimates. `data_frame` and `html_table`
show estimates in a notebook.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, get_args

from fl_audit.errors import InputError
from fl_audit.json_records import (
    fields_from_json,
    fields_to_json,
    from_json,
    numbers_from_json,
)
from fl_audit.number_words import epsilon_text, lower_bound_text

Kind = Literal["estimate", "lower_bound", "interval"]
ValidFor = Literal[
    "any mechanism",
    "independent scores",
    "Gaussian mechanisms",
    "independent scores of a Gaussian mechanism",
]
"""The mechanisms for which a lower bound holds at its confidence: any; those under which canaries'
scores are independent given inclusion; Gaussian ones; Gaussian ones with independent scores.
"""

WHATEVER_DISTRIBUTION: tuple[ValidFor, ...] = ("any mechanism", "independent scores")
"""Values of `valid_for` that assume no distribution of the included canaries' scores."""

IF_GAUSSIAN: tuple[ValidFor, ...] = (
    "Gaussian mechanisms",
    "independent scores of a Gaussian mechanism",
)
"""Values of `valid_for` that assume the trade-off curve of a Gaussian mechanism."""

_WORDS = ("valid_for", "assumes", "guarantee", "source")
"""The fields that JSON has inside an estimate's `details`."""

Detail = float | int | str | None | Mapping[str, "Detail"]

Record = dict[str, object]
"""A row of a table: values by column, infinities as floats."""


@dataclass(frozen=True)
class Estimate:
    """A privacy estimate, with its kind, assumptions and guarantee.

    Attributes:
      method: Name of the method in the registry, such as "one_run".
      kind: "estimate" (a point value without a confidence), "lower_bound" or "interval".
      epsilon: The headline value, in nats, at least 0, possibly infinite.
      assumes: The assumptions under which the value is valid, in words.
      guarantee: What the value does and does not guarantee, in words.
      source: Paper, section and equation of the estimator.
      lower: A lower bound, or the lower end of an interval; None for a point estimate.
      upper: Upper end of an interval; else None.
      valid_for: Mechanisms for which a lower bound holds at its confidence, although thresholds
        were chosen on the same data; None if the estimate does not claim this.
      details: The method's intermediate numbers (threshold, counts, ...).

    Raises:
      ValueError: Epsilon is negative or NaN.
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
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {self.epsilon}")

    @property
    def is_without_error(self) -> bool:
        """Whether epsilon is above 0 without any counted error: other scores give no larger bound.

        Guesses at inclusion must be about all canaries and all right. Fewer guesses are excluded,
        even if all are right: other scores may allow more, except where a method guesses about half
        of the canaries at most (`one_run_fdp`, and `one_run_valid` with unequal coins). Threshold
        bounds with a closed-form null are excluded too: they count no false positives, and higher
        scores give a larger bound.
        """
        wrong = [self.details.get(kind) for kind in ("false_negatives", "false_positives")]
        m = self.details.get("m", -1)
        # Valid bounds test even numbers of guesses.
        most = m - m % 2 if isinstance(m, int) and self.valid_for is not None else m
        is_right = self.details.get("guesses") == self.details.get("correct") == most
        return self.epsilon > 0 and (wrong == [0, 0] or is_right)

    def record(self) -> Record:
        """The estimate as a row of a data frame, without `details`."""
        columns = ("method", "kind", "epsilon", "lower", "upper", *_WORDS)
        return {name: getattr(self, name) for name in columns}

    def _repr_html_(self) -> str:
        """The table that a notebook shows, with guarantee and assumptions."""
        words = f"{self.guarantee} Assumes: {self.assumes.removesuffix('.')}. {self.source}."
        return f"{html_table([self])}<p>{escape(words)}</p>"

    def to_json(self) -> dict[str, object]:
        """The JSON object of this estimate: finite numbers only, infinities as words.

        The fields valid_for, assumes, guarantee and source are inside `details`.

        Raises:
          ValueError: A detail is NaN.

        >>> import math
        >>> flat = Estimate("m", "lower_bound", math.inf, "a", "g", "s", lower=math.inf)
        >>> flat.to_json()["epsilon"], flat.to_json()["upper"]
        ('inf', None)
        """
        fields = fields_to_json(self)
        words = {name: fields.pop(name) for name in _WORDS}
        return {**fields, "details": {**fields["details"], **words}}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Estimate":
        """The estimate in a JSON object that `to_json` wrote.

        Raises:
          ValueError: A key is missing, or a value is of another type.
        """
        details = from_json(Mapping[str, object], fields.get("details"), "$.details")
        words = {name: details.pop(name) for name in _WORDS if name in details}
        return fields_from_json(cls, {**fields, **words}, details=numbers_from_json(details))


@dataclass(frozen=True)
class MethodGroup:
    """Methods whose estimates are equally reliable."""

    title: str
    meaning: str  # the reliability of the group's estimates
    kinds: frozenset[tuple[str, str | None]]  # kind of an estimate, and its valid_for

    def has(self, kind: str, valid_for: str | None) -> bool:
        return (kind, valid_for) in self.kinds


METHOD_GROUPS = (
    MethodGroup(
        "Valid lower bounds",
        "They hold at their confidence although thresholds and numbers of guesses are chosen on "
        "the same scores: one_run_valid for any mechanism, threshold_valid if the scores of "
        "different canaries are independent.",
        frozenset(("lower_bound", valid_for) for valid_for in WHATEVER_DISTRIBUTION),
    ),
    MethodGroup(
        "Valid lower bounds if the mechanism is Gaussian",
        "They hold only if the trade-off of error rates is that of a Gaussian mechanism, and are "
        "then mostly tighter; threshold_gdp also assumes that canaries’ scores are independent.",
        frozenset(("lower_bound", valid_for) for valid_for in IF_GAUSSIAN),
    ),
    MethodGroup(
        "Lower bounds as published, not valid after selection",
        "The threshold, the number of guesses or the last round is chosen on the same scores, so "
        "they are too high more often than their confidence says.",
        frozenset({("lower_bound", None)}),
    ),
    MethodGroup(
        "Valid intervals",
        "Both ends hold at their confidence, for any mechanism.",
        frozenset(("interval", valid_for) for valid_for in WHATEVER_DISTRIBUTION),
    ),
    MethodGroup(
        "Valid intervals if the mechanism is Gaussian",
        "Both ends hold at their confidence if the trade-off of error rates is that of a Gaussian "
        "mechanism.",
        frozenset(("interval", valid_for) for valid_for in IF_GAUSSIAN),
    ),
    MethodGroup(
        "Estimates and intervals",
        "Neither upper nor lower bounds: another attack may find more, and what this attack finds "
        "may be above or below its true epsilon.",
        frozenset(
            {
                ("interval", None),
                *(("estimate", valid_for) for valid_for in (None, *get_args(ValidFor))),
            }
        ),
    ),
)
"""The groups, the most reliable first; every method is in one."""


# Estimates as rows of a data frame, and as tables in a notebook.


def data_frame(records: Sequence[Mapping[str, object]]) -> Any:
    """The rows as a `pandas.DataFrame`; raises InputError if pandas is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InputError(
            "this needs pandas, which is not installed: `pip install pandas`; records() gives the "
            "same rows as a list"
        ) from error
    return pd.DataFrame(records)


def html_table(estimates: Sequence[Estimate]) -> str:
    """The estimates as a table in HTML, the most reliable first."""
    rows = "".join(_group_rows(estimates))
    return f"<table><tr><th>method</th><th>ε</th><th>interval</th></tr>{rows}</table>"


def _group_rows(estimates: Sequence[Estimate]) -> Iterator[str]:
    for group in METHOD_GROUPS:
        members = [made for made in estimates if group.has(made.kind, made.valid_for)]
        if members:
            heading = f"<b>{escape(group.title)}.</b> {escape(group.meaning)}"
            yield f'<tr><td colspan="3" style="text-align: left">{heading}</td></tr>'
        yield from map(_row, members)


def estimate_text(estimate: Estimate) -> str:
    """The value of an estimate as text: a bound after "≥", an interval by its ends."""
    if estimate.kind == "lower_bound":
        return f"≥ {lower_bound_text(estimate.epsilon)}"
    if estimate.kind == "interval":
        return f"{epsilon_text(estimate.lower)} … {epsilon_text(estimate.upper)}"
    return epsilon_text(estimate.epsilon)


def _row(estimate: Estimate) -> str:
    is_interval = estimate.kind == "interval"
    middle = epsilon_text(estimate.epsilon) if is_interval else estimate_text(estimate)
    cells = (estimate.method, middle, estimate_text(estimate) if is_interval else "")
    style = "text-align: left; white-space: nowrap"
    aligned = "".join(f'<td style="{style}">{escape(cell)}</td>' for cell in cells)
    return f'<tr title="{escape(estimate.guarantee)}">{aligned}</tr>'
