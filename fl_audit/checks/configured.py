"""The configured noise and norm bound of an aggregate, in the aggregate's own unit."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.mechanisms import MECHANISMS, Mechanism

T = TypeVar("T", float, npt.NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Configured(Generic[T]):
    """Noise and norm bound of one round, or of several rounds as arrays.

    Attributes:
      stddev: The standard deviation of the noise on a coordinate.
      norm_bound: The largest norm of the aggregate without noise.
    """

    stddev: T
    norm_bound: T


def configured(
    clip_norm: T, participants: T, *, sum_noise_multiplier: T, denominator: float
) -> Configured[T]:
    """Noise and norm bound of a noised sum of clipped updates, divided by a fixed number.

    Args:
      clip_norm: The norm that the round's updates were clipped to.
      participants: The number of clients and canaries in the round.
      sum_noise_multiplier: The standard deviation of the noise on the sum, over the clip norm.
      denominator: The number that the sum is divided by.
    """
    of_one = clip_norm / denominator
    return Configured(stddev=sum_noise_multiplier * of_one, norm_bound=participants * of_one)


def why_not_checked(mechanism: Mechanism) -> str | None:
    """The reason for which a run's aggregates are not checked, in words; None if they are."""
    if isinstance(mechanism, RecordedTable):
        return "its mechanism is a plugin's, which is not imported to read a folder"
    return MECHANISMS.kind_of(mechanism).why_not_checked
