"""The Gaussian law of a score."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray


@dataclass(frozen=True)
class Gaussian:
    """The normal law N(mean, std^2); with std 0, all mass lies at the mean.

    Raises:
      ValueError: If mean or std is not finite, or std is negative.

    >>> bool(Gaussian(0.0, 1.0).logsf(50.0) < -1250)
    True
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if not math.isfinite(self.mean):
            raise ValueError(f"mean must be finite, got {self.mean}")
        if not (math.isfinite(self.std) and self.std >= 0):
            raise ValueError(f"std must be finite and at least 0, got {self.std}")

    @classmethod
    def fitted_to(cls, values: npt.ArrayLike) -> "Gaussian":
        """The Gaussian with the values' mean and population deviation (ddof=0).

        Equal values give std exactly 0, which rounding in the mean would otherwise hide.

        Raises:
          ValueError: If there are no values.
        """
        sample = np.asarray(values, dtype=np.float64)
        if sample.size == 0:
            raise ValueError("values must hold at least one value, got none")
        if np.ptp(sample) == 0:
            return cls(float(sample[0]), 0.0)
        scaled, unit = scaled_to_one(sample)
        return cls(float(np.mean(scaled)) * unit, float(np.std(scaled)) * unit)

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        distance = self.mean - np.asarray(x, dtype=np.float64)
        if self.std == 0:
            return np.where(distance >= 0, 0.0, -np.inf)
        return np.asarray(special.log_ndtr(distance / self.std))

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self.reflected().logsf(-np.asarray(x, dtype=np.float64))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p."""
        return np.asarray(self.mean - self.std * special.ndtri(p))

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p."""
        return np.asarray(self.mean + self.std * special.ndtri(p))

    def reflected(self) -> "Gaussian":
        """The law of -X."""
        return Gaussian(-self.mean, self.std)


def scaled_to_one(values: FloatArray) -> tuple[FloatArray, float]:
    """Values in units in which the largest is about 1, so that no square leaves floating point.

    Args:
      values: Finite values, not all 0.

    Returns:
      The values in these units, float64 of the same shape, and the unit. It is a power of two, so
      that the change loses nothing.
    """
    exponent = int(np.frexp(np.max(np.abs(values)))[1]) - 1
    return np.ldexp(values, -exponent), math.ldexp(1.0, exponent)
