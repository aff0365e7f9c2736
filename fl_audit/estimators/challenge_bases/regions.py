"""The error rates that (epsilon, delta)-DP allows, and those that attacks of strength s reach.

The first are R(epsilon, delta), the second R_s(epsilon, delta): R(epsilon, delta) without
R(s epsilon, s delta).

Kairouz, Oh & Viswanath (2017), Theorem 2.1; Yıldırım et al. (2025), Theorem 1, equations 2 and 3.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray


def inside(
    alpha: FloatArray, beta: FloatArray, epsilon: npt.ArrayLike, delta: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Whether error rates lie in R(epsilon, delta), elementwise.

    Args:
      alpha: False positive rates, in [0, 1].
      beta: False negative rates, in [0, 1].
      epsilon: The epsilon of differential privacy, at least 0.
      delta: The delta of differential privacy, in [0, 1).

    >>> inside(np.array([0.2, 0.5]), np.array([0.2, 0.5]), np.log(3), 0.0).tolist()
    [False, True]
    """
    return below_diagonal(alpha, beta).inside(epsilon, delta)


@dataclass(frozen=True, eq=False)
class FoldedRates:
    """Error rates mirrored at both diagonals, so that a single line bounds R(epsilon, delta).

    Attributes:
      low: The smaller of the two rates, below the line alpha + beta = 1, float64 of any shape.
      high: The larger of the two rates, float64 of the same shape.
    """

    low: FloatArray
    high: FloatArray

    def inside(self, epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether the rates lie in R(epsilon, delta), that is high + e^epsilon low >= 1 - delta."""
        # Divided by e^epsilon, nothing overflows.
        shrink = np.exp(-np.asarray(epsilon, dtype=np.float64))
        return np.asarray(self.low >= shrink * (1 - np.asarray(delta) - self.high))


def below_diagonal(alpha: FloatArray, beta: FloatArray) -> FoldedRates:
    """The error rates, exchanged and replaced by their complements where they have to be.

    R(epsilon, delta) is symmetric under both. Below alpha + beta = 1 its other lines do not bind.
    """
    low, high = np.minimum(alpha, beta), np.maximum(alpha, beta)
    above = low + high > 1
    return FoldedRates(np.where(above, 1 - high, low), np.where(above, 1 - low, high))


def log_forbidden(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of the area of the unit square outside R(epsilon, delta), 2 (1 - delta)^2 / (1 + e^eps).

    >>> bool(np.isclose(np.exp(log_forbidden(np.log([3.0]), 0.0))[0], 0.5))
    True
    """
    return np.asarray(np.log(2) + 2 * np.log1p(-delta) + special.log_expit(-epsilon))


def log_growth(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of |R(epsilon, delta)| - |R(0, delta)|, (1 - delta)^2 tanh(epsilon / 2); -inf at 0.

    >>> bool(np.isclose(np.exp(log_growth(np.log([3.0]), 0.0))[0], 0.5))
    True
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.log1p(-delta) + np.log(np.tanh(epsilon / 2)))


def log_reach(epsilon: FloatArray, shrunk: FloatArray, delta: float) -> FloatArray:
    """Log of |R_s(epsilon, delta)|, the area of R(epsilon, delta) without R(s epsilon, s delta).

    It is 2 [(1 - s delta)^2 / (1 + e^(s epsilon)) - (1 - delta)^2 / (1 + e^epsilon)], written as a
    sum of two terms that are never negative. Yıldırım et al. (2025), below equation 3.

    Args:
      epsilon: The epsilon of differential privacy, above 0.
      shrunk: The product s epsilon, in [0, epsilon]; broadcast with epsilon.
      delta: The delta of differential privacy, in [0, 1).

    >>> area = 2 * (0.5 - 0.25)
    >>> bool(np.isclose(log_reach(np.log([3.0]), np.array([0.0]), 0.0)[0], np.log(area)))
    True
    """
    weaker = special.log_expit(-shrunk)
    with np.errstate(divide="ignore"):
        by_epsilon = (
            2 * np.log1p(-delta)
            + weaker
            + special.log_expit(epsilon)
            + np.log(-np.expm1(shrunk - epsilon))
        )
        if delta == 0:
            return np.asarray(np.log(2) + by_epsilon)
        strength = shrunk / epsilon
        gap = delta * (1 - strength) * (2 - delta - strength * delta)
        return np.asarray(np.log(2) + np.logaddexp(by_epsilon, np.log(gap) + weaker))


def log_reach_slope(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of |R_s(epsilon, delta)| / (1 - s) as s tends to 1, times 1/epsilon if delta is 0.

    Args:
      epsilon: The epsilon of differential privacy, at least 0; above 0 unless delta is.
      delta: The delta of differential privacy, in [0, 1).
    """
    by_epsilon = (
        np.log(2) + 2 * np.log1p(-delta) + special.log_expit(epsilon) + special.log_expit(-epsilon)
    )
    if delta == 0:
        return np.asarray(by_epsilon)
    by_delta = np.log(4) + np.log1p(-delta) + special.log_expit(-epsilon)
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(epsilon) + by_epsilon, np.log(delta) + by_delta))
