"""The promise of a mechanism: what a round may release of its clients' updates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError

Update = Sequence[npt.NDArray[Any]]
"""An update or a release: an array for each variable of the model."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A round releases (the sum of its clients' parts + Gaussian noise) / denominator.

    A client's part is at most as long as the clip norm, however it comes about: a clipped update, a
    normalised one, one with a bound for each variable. The noise is N(0, (noise_multiplier
    clip_norm)^2) on each coordinate, drawn anew in each round and independent of the updates.

    Attributes:
      clip_norm: The largest norm of a client's part of the sum, positive; infinite without a clip,
        where the part is at most as long as the update.
      denominator: The number that the sum is divided by whoever takes part, positive.
      noise_multiplier: The standard deviation of the noise on a coordinate of the sum, over the
        clip norm; None where the noise is of another law and is not to be checked.
      zeroing_norm: The largest absolute coordinate of an update that is not counted as zero.
      smallest_cohort: The number of clients in the smallest round that the mechanism may meet; 0
        under Poisson sampling.

    Raises:
      InputError: A number is out of its range.
    """

    clip_norm: float
    denominator: float
    noise_multiplier: float | None
    zeroing_norm: float = math.inf
    smallest_cohort: int = 0

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name in ("clip_norm", "denominator", "zeroing_norm"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: must be positive, got {getattr(self, name)}")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < math.inf:
            raise InputError(f"noise_multiplier: must be at least 0, got {self.noise_multiplier}")
        if self.smallest_cohort < 0:
            raise InputError(f"smallest_cohort: must be at least 0, got {self.smallest_cohort}")

    @property
    def sensitivity(self) -> float:
        """The most by which one client may change what a round releases, as an L2 norm."""
        return self.clip_norm / self.denominator

    @property
    def noise_stddev(self) -> float | None:
        """The standard deviation of the noise on a coordinate of what is released."""
        if self.noise_multiplier is None:
            return None
        return self.noise_multiplier * self.sensitivity if self.noise_multiplier else 0.0


def flat(update: Update) -> FloatArray:
    """An update's variables behind one another, float64 of shape (dim,)."""
    parts = [np.asarray(part, np.float64).ravel() for part in update]
    return np.concatenate(parts) if parts else np.zeros(0)


def most_of(update: FloatArray, promise: Promise) -> float:
    """The most that a client with this update may add to a release, as an L2 norm."""
    if np.abs(update).max(initial=0.0) > promise.zeroing_norm:
        return 0.0
    if np.isfinite(promise.clip_norm):
        return promise.sensitivity
    return float(np.linalg.norm(update)) / promise.denominator
