"""The exact law of the cosine of a random direction with a fixed one."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.estimators.beta_quantile import beta_quantile
from fl_audit.estimators.laws.gaussian import Gaussian
from fl_audit.estimators.scores import FloatArray

EXACT_COSINE_BELOW = 1000
"""Below this dimension the closed-form null is the exact cosine law, from it on N(0, 1/dim)."""


@dataclass(frozen=True)
class ExactCosine:
    """The cosine of a uniformly random direction with a fixed one, in dimension `dim`.

    Density proportional to (1 - x^2)^((dim - 3) / 2) on [-1, 1] (Andrew et al., section 4), so
    that 1 - X^2 ~ Beta((dim - 1) / 2, 1/2).

    Attributes:
        dim: dimension, 2 to 999; from 1000 on the paper uses N(0, 1/dim).

    Raises:
        ValueError: if dim is out of range.

    >>> float(np.exp(ExactCosine(3).logsf(0.5)))  # Archimedes: uniform on [-1, 1]
    0.25
    """

    dim: int

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if not 2 <= self.dim < EXACT_COSINE_BELOW:
            raise ValueError(f"dim must be in [2, {EXACT_COSINE_BELOW}), got {self.dim}")

    @property
    def mean(self) -> float:
        """Mean of the cosine: 0 by symmetry."""
        return 0.0

    @property
    def std(self) -> float:
        """Deviation of the cosine: exactly dim^(-1/2)."""
        return 1 / math.sqrt(self.dim)

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        x = np.clip(np.asarray(x, dtype=np.float64), -1.0, 1.0)
        upper = self._log_upper_tail(np.abs(x))
        return np.where(x >= 0, upper, np.log1p(-np.exp(upper)))

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self.logsf(-np.asarray(x, dtype=np.float64))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p."""
        p = np.asarray(p, dtype=np.float64)
        tail = np.minimum(p, 1 - p)
        far = np.sqrt(1 - beta_quantile((self.dim - 1) / 2, 0.5, 2 * tail))
        # Near the middle from x^2 itself: 1 - (1 - x^2) would cancel.
        near = np.sqrt(special.betaincinv(0.5, (self.dim - 1) / 2, 1 - 2 * tail))
        return np.copysign(np.where(tail < 0.25, far, near), 0.5 - p)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p."""
        return -self.isf(p)

    def reflected(self) -> "ExactCosine":
        """The law of -X: the same, by symmetry."""
        return self

    def _log_upper_tail(self, x: FloatArray) -> FloatArray:
        """Log P(X >= x) for x in [0, 1]."""
        # Each form is used only where it neither cancels (near 0) nor underflows (near 1).
        shape = (self.dim - 1) / 2
        centre = special.betainc(0.5, shape, x * x)
        outside = (1 - x) * (1 + x)
        with np.errstate(divide="ignore"):
            body = np.log(0.5) + np.log(special.betainc(shape, 0.5, outside))
            body = np.where(centre < 0.5, np.log(0.5) + np.log1p(-np.minimum(centre, 0.5)), body)
        return np.where(outside < 0.5, self._log_far_tail(np.minimum(outside, 0.5)), body)

    def _log_far_tail(self, outside: FloatArray) -> FloatArray:
        """The same by the incomplete beta's series (DLMF 8.17.8) in outside = 1 - x^2 <= 1/2."""
        shape = (self.dim - 1) / 2
        series = special.hyp2f1(self.dim / 2, 1.0, shape + 1, outside)
        with np.errstate(divide="ignore"):
            log_power = shape * np.log(outside) + 0.5 * np.log1p(-outside)
        scale = math.log(2 * shape) + float(special.betaln(shape, 0.5))
        return np.asarray(log_power + np.log(series) - scale)


def closed_form_null(dim: int) -> Gaussian | ExactCosine:
    """The law of an excluded canary's cosine in dimension `dim` (Andrew et al., section 4).

    Raises:
        ValueError: if dim is below 2.

    >>> closed_form_null(10_000)
    Gaussian(mean=0.0, std=0.01)
    """
    return ExactCosine(dim) if dim < EXACT_COSINE_BELOW else Gaussian(0.0, dim**-0.5)
