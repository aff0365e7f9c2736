"""The error counts of a membership inference attack, and an interval on epsilon."""

import operator
from dataclasses import dataclass, fields

from fl_audit.errors import InputError

_MOST = 10**12
"""The largest count whose intervals floating point resolves."""


@dataclass(frozen=True)
class ConfusionCounts:
    """Counts of right and wrong guesses of an attack, on members and on non-members.

    Attributes:
      false_negatives: Number of members guessed to be non-members.
      true_positives: Number of members guessed to be members.
      false_positives: Number of non-members guessed to be members.
      true_negatives: Number of non-members guessed to be non-members.

    Raises:
      InputError: If a count is negative or no integer, or there are no members or no
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
        """Check the fields, so that no later step has to."""
        for field in fields(self):
            object.__setattr__(self, field.name, _count(field.name, getattr(self, field.name)))
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
    """An interval on epsilon.

    Attributes:
      lower: Lower end in nats, at least 0, possibly infinite.
      upper: Upper end in nats, at least `lower`, possibly infinite.
    """

    lower: float
    upper: float


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
