"""A release to be accounted, and where it is from."""

import math
from dataclasses import dataclass

from fl_audit.accounting import Release
from fl_audit.errors import InputError


@dataclass(frozen=True, eq=False)
class Source:
    """A release, and where it is from.

    Attributes:
      name: The file or folder, or words for options.
      release: What is or was released.
      delta: The delta of the guarantees.
      uploads: The release of single uploads, if a log states it separately.
    """

    name: str
    release: Release
    delta: float
    uploads: Release | None = None


def check_delta_option(delta: float) -> None:
    """Raises InputError unless 0 < delta < 1."""
    if not 0 < delta < 1:
        raise InputError(f"--delta {delta:g}: must be in (0, 1)")


def check_epsilon(epsilon: float) -> None:
    """Raises InputError for a target epsilon that is not a finite number above 0."""
    if not 0 < epsilon < math.inf:
        raise InputError(f"--epsilon {epsilon:g}: must be a finite number above 0")
