"""The update rule of an adaptive clip norm (Andrew et al. 2021), as checks and planning use it.

The engines' own updates are `tff_noise.AdaptiveClipSum` for TensorFlow Federated and
`engines.jax.aggregation` for JAX.
"""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AdaptiveClip:
    """The update rule of an adaptive clip norm.

    Attributes:
      target_quantile: The target share gamma of updates below the clip norm.
      learning_rate: The rate eta of the geometric update, at least 0.
      count_stddev: The standard deviation sigma_b of the noise on the count, in clients.
      denominator: The fixed number n by which the count is divided, whatever the cohort.

    Raises:
      InputError: An attribute is out of range.
    """

    target_quantile: float
    learning_rate: float
    count_stddev: float
    denominator: float

    def __post_init__(self) -> None:
        if not 0 <= self.target_quantile <= 1:
            raise InputError(f"target_quantile: must be in [0, 1], got {self.target_quantile}")
        for name in ("learning_rate", "count_stddev"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name}: must be at least 0, got {getattr(self, name)}")
        if not 0 < self.denominator < math.inf:
            raise InputError(f"denominator: must be positive, got {self.denominator}")

    def count(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """The noised count of unclipped updates, minus `denominator` / 2, of each round.

        `before` and `after` are the clip norms before and after each round.
        """
        moved = (np.log(after) - np.log(before)) / self.learning_rate
        return np.asarray((self.target_quantile - moved - 0.5) * self.denominator)

    @property
    def rounding(self) -> float:
        """A bound on the error, in clients, of counts calculated from clip norms in float32."""
        epsilon = 4 * float(np.finfo(np.float32).eps)
        return epsilon * self.denominator * (1 + 1 / self.learning_rate)

    @property
    def determines_counts(self) -> bool:
        """Whether clip norms determine a count to within a tenth of a client."""
        return self.learning_rate > 0 and self.rounding <= 0.1

    def is_limited(self, count: FloatArray) -> FloatArray:
        """Whether a value of `count` means a share of unclipped updates of at most 0 or at least 1.

        Rounding is allowed for.
        """
        return np.asarray(np.abs(count) >= self.denominator / 2 - self.rounding)
