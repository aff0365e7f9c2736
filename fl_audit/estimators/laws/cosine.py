"""The exact law of the cosine of a random direction with a fixed one."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_dim
from fl_audit.estimators.laws.cosine_quantile import upper_quantile
from fl_audit.estimators.laws.cosine_tail import central_mass, log_outside, log_tail, switch_point
from fl_audit.estimators.laws.gaussian import Gaussian

EXACT_COSINE_BELOW = 1000
"""The dimension from which on the closed-form null is N(0, 1/dim) and not the exact cosine law."""


@dataclass(frozen=True)
class ExactCosine:
    """The cosine of a uniformly random direction with a fixed one, in dimension `dim`.

    Density proportional to (1 - x^2)^((dim - 3) / 2) on [-1, 1] (Andrew et al., section 4), so
    that X^2 ~ Beta(1/2, (dim - 1) / 2) and (1 + X) / 2 ~ Beta((dim - 1) / 2, (dim - 1) / 2).

    Log probabilities are exact to about 1e-14 relative, and quantiles to as much, from 0 to the
    edges of the range and whatever the dimension. The limit N(0, 1/dim) has heavier tails: far out
    by a factor of about exp(dim x^4 / 4).

    Attributes:
      dim: Dimension of the space, 2 to 2^53.

    Raises:
      InputError: If dim is out of range.

    >>> round(float(np.exp(ExactCosine(3).logsf(0.5))), 12)  # Archimedes: uniform on [-1, 1]
    0.25
    >>> float(ExactCosine(10**9).logsf(40 / math.sqrt(10**9)).round(9))  # 40 deviations out
    -804.609081213
    """

    dim: int

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        check_dim(self.dim)

    @property
    def mean(self) -> float:
        """Mean of the cosine, which is 0 by symmetry."""
        return 0.0

    @property
    def std(self) -> float:
        """Deviation of the cosine, which is exactly dim^(-1/2)."""
        return 1 / math.sqrt(self.dim)

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        x = np.clip(np.asarray(x, dtype=np.float64), -1.0, 1.0)
        size = np.abs(x)
        central = size <= switch_point(self.dim)
        log_p = np.empty_like(x)
        log_p[central] = np.log(
            0.5 - np.copysign(central_mass(size[central], self.dim), x[central])
        )
        far, positive = size[~central], x[~central] > 0
        upper = log_tail(far, log_outside(far), self.dim)
        log_p[~central] = np.where(positive, upper, np.log1p(-np.exp(upper)))
        return log_p

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self.logsf(-np.asarray(x, dtype=np.float64))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p, for p in [0, 1]; accurate for small p and near 1/2."""
        p = np.asarray(p, dtype=np.float64)
        return np.copysign(upper_quantile(np.minimum(p, 1 - p), self.dim), 0.5 - p)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p, for p in [0, 1]; accurate for small p and near 1/2."""
        return -self.isf(p)

    def reflected(self) -> "ExactCosine":
        """The law of -X, which is the same by symmetry."""
        return self


def closed_form_null(dim: int) -> Gaussian | ExactCosine:
    """The law of an excluded canary's cosine in dimension `dim` (Andrew et al., section 4).

    It is the exact law below EXACT_COSINE_BELOW and its Gaussian limit from there on, which is the
    paper's choice. ExactCosine itself serves any dimension.

    Raises:
      ValueError: If dim is below 2.

    >>> closed_form_null(10_000)
    Gaussian(mean=0.0, std=0.01)
    """
    return ExactCosine(dim) if dim < EXACT_COSINE_BELOW else Gaussian(0.0, dim**-0.5)
