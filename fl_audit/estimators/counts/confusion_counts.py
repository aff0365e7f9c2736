"""Counts of an attack's correct and wrong guesses, and intervals from them."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from fl_audit.errors import InputError
from fl_audit.json_records import from_json, to_json

_MOST = 10**12
"""The largest count: its posterior is exact to 2e-5 (`EpsilonPosterior.sf`)."""


@dataclass(frozen=True)
class ConfusionCounts:
    """Counts of correct and wrong guesses of an attack, on members and on non-members.

    Attributes:
      false_negatives: Number of members guessed to be non-members.
      true_positives: Number of members guessed to be members.
      false_positives: Number of non-members guessed to be members.
      true_negatives: Number of non-members guessed to be non-members.

    Raises:
      InputError: A count is negative, above 10^12 or no integer, or there are no members or no
        non-members.

    >>> counts = ConfusionCounts(35, 65, 25, 75)
    >>> counts.members, counts.non_members
    (100, 100)
    """

    false_negatives: int
    true_positives: int
    false_positives: int
    true_negatives: int

    def __post_init__(self) -> None:
        for count in fields(self):
            object.__setattr__(self, count.name, _count(count.name, getattr(self, count.name)))
        if self.members == 0:
            raise InputError("false_negatives + true_positives must be at least 1, got 0")
        if self.non_members == 0:
            raise InputError("false_positives + true_negatives must be at least 1, got 0")

    @property
    def members(self) -> int:
        """Number of guesses about members."""
        return self.false_negatives + self.true_positives

    @property
    def non_members(self) -> int:
        """Number of guesses about non-members."""
        return self.false_positives + self.true_negatives


@dataclass(frozen=True)
class Interval:
    """An interval, by default on epsilon in nats; its ends may be infinite."""

    lower: float
    upper: float

    def to_json(self) -> list[object]:
        """The two ends, the lower one first; infinities as words."""
        return [to_json(self.lower), to_json(self.upper)]

    @classmethod
    def from_json(cls, ends: Sequence[Any]) -> Self:
        """The interval that `to_json` writes; ValueError if the ends are not two numbers."""
        return cls(*from_json(tuple[float, float], ends))


def _count(name: str, value: object) -> int:
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be an integer, got {value!r}") from None
    if count < 0:
        raise InputError(f"{name} must be at least 0, got {count}")
    if count > _MOST:
        raise InputError(f"{name} must be at most {_MOST:,}, got {count:,}")
    return count
