"""What the config says of a round's aggregate, in the aggregate's own unit."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", float, npt.NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Configured(Generic[T]):
    """Of one round, or of several as arrays.

    Attributes:
      stddev: of the noise on a coordinate.
      norm_bound: Largest norm that the aggregate can have without noise.
    """

    stddev: T
    norm_bound: T


def configured(
    clip_norm: T, participants: T, *, sum_noise_multiplier: float, denominator: float
) -> Configured[T]:
    """Of a noised sum of clipped updates, divided by a number that is fixed.

    Args:
      clip_norm: That the round's updates were clipped to.
      participants: Clients and canaries in it.
      sum_noise_multiplier: Noise on the sum, as a multiple of the clip norm.
      denominator: That the sum is divided by.
    """
    of_one = clip_norm / denominator
    return Configured(stddev=sum_noise_multiplier * of_one, norm_bound=participants * of_one)
