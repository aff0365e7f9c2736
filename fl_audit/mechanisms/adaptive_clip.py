"""Recovers the noised counts that move an adaptive clip norm from the clip norms of a run.

The update itself is in `engines/jax/aggregation.py` and in tensorflow-privacy.

Andrew et al. 2021, "Differentially private learning with adaptive clipping" (arXiv:1905.03871),
algorithm 1, as tensorflow-privacy's `QuantileAdaptiveClipSumQuery` has it: after a round

    C <- C exp(-eta (b - gamma)),  b = 1/2 + (sum_i (b_i - 1/2) + N(0, sigma_b^2)) / n

where b_i is 1 if the norm of client i's update is at most C and else 0, and b may be limited to
[0, 1]. A client changes the count, the sum in the brackets, by one half.
"""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError


@dataclass(frozen=True, kw_only=True)
class AdaptiveClip:
    """How a clip norm moves after a round.

    Attributes:
      target_quantile: The target share gamma of updates below the clip norm.
      learning_rate: The rate eta of the geometric update, at least 0.
      count_stddev: The standard deviation sigma_b of the noise on the count, in clients.
      denominator: The number n of clients that the count is divided by, whatever the cohort.

    Raises:
      InputError: A number is out of its range.
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
        """The noised counts of rounds, from the clip norms before and after each."""
        moved = (np.log(after) - np.log(before)) / self.learning_rate
        return np.asarray((self.target_quantile - moved - 0.5) * self.denominator)

    @property
    def rounding(self) -> float:
        """A bound on the error of counts from clip norms in float32, in clients."""
        epsilon = 4 * float(np.finfo(np.float32).eps)
        return epsilon * self.denominator * (1 + 1 / self.learning_rate)

    @property
    def determines_counts(self) -> bool:
        """Whether clip norms determine a count to a tenth of a client."""
        return self.learning_rate > 0 and self.rounding <= 0.1

    def is_limited(self, count: FloatArray) -> FloatArray:
        """Whether a count is at or beyond an end of the share's range [0, 1]."""
        return np.asarray(np.abs(count) >= self.denominator / 2 - self.rounding)
