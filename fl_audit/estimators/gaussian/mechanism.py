"""The Gaussian mechanism: its noise and its epsilon, and its noise from the cosines of canaries.

Everything is for sensitivity 1: sigma is the noise multiplier.
"""

import math

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_epsilon
from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.gaussian.regions import epsilon_over_all_regions
from fl_audit.estimators.laws import Gaussian

_LEAST_SIGMA = 1e-150
_LARGEST_EPSILON = 1e299
"""The largest epsilon: beyond it, (1 / sigma)^2 and so epsilon leave the range of floats."""


def epsilon_of_sigma(sigma: float, delta: float) -> float:
    """The epsilon of one release with noise N(0, sigma^2 I) and sensitivity 1.

    It is exact, by the optimal calibration of Balle & Wang (2018), arXiv:1805.06530, theorem 8.

    Args:
      sigma: Standard deviation of the noise, at least 1e-150; with an infinite one epsilon is 0.
      delta: The delta of differential privacy, in [0, 1); with 0 and finite noise epsilon is
        infinite.

    Raises:
      ValueError: If sigma is below 1e-150 or NaN.
      InputError: If delta is out of range.

    >>> round(epsilon_of_sigma(1.0, 1e-5), 2)
    4.38
    """
    if not sigma >= _LEAST_SIGMA:
        raise ValueError(f"sigma must be at least {_LEAST_SIGMA:g}, got {sigma}")
    return _epsilon_of_shift(1 / sigma, delta)


def sigma_of_epsilon(epsilon: float, delta: float) -> float:
    """The least sigma with which one release is (epsilon, delta)-private at sensitivity 1.

    It is the inverse of epsilon_of_sigma (Balle & Wang 2018, algorithm 1).

    Args:
      epsilon: The epsilon of differential privacy, in [0, 1e299].
      delta: The delta of differential privacy, in (0, 1).

    Raises:
      InputError: If epsilon or delta is out of range.

    >>> [float(f"{sigma_of_epsilon(epsilon, 1e-6):.3g}") for epsilon in (1, 3, 10)]
    [4.22, 1.54, 0.541]
    """
    check_epsilon(epsilon)
    if epsilon > _LARGEST_EPSILON:
        raise InputError(f"epsilon must be at most {_LARGEST_EPSILON:g}, got {epsilon}")
    if not 0 < delta < 1:
        raise InputError(f"delta must be in (0, 1), as no Gaussian noise gives 0, got {delta}")
    # What is bisected here is 1 / sigma, which grows with epsilon.
    return 1 / supremum(lambda shift: _epsilon_of_shift(shift, delta) <= epsilon)


def estimate_sigma(cosines: npt.ArrayLike, dim: int) -> float:
    """The noise of one release, from the cosines between it and the canaries that are part of it.

    It is 1 / (mean(cosines) sqrt(dim)), Andrew et al. (2023), arXiv:2302.03098, section 3. A mean
    that is not positive shows no trace of the canaries: the estimate is infinite, for which
    epsilon_of_sigma gives 0.

    For k canaries the relative deviation of 1 / estimate is about sqrt(sigma^2 / k + 2 / dim),
    and the canaries' own length makes the estimate sqrt(sigma^2 + k / dim) in the middle.

    Args:
      cosines: Cosine of each canary with the release, float64 of shape (k,).
      dim: Length of the release, at least 1.

    Raises:
      ValueError: If there are no cosines, one is not finite, or dim is below 1.

    >>> estimate_sigma([0.01, 0.02, 0.03], 10_000)
    0.5
    >>> estimate_sigma([-0.01, 0.01], 10_000)
    inf
    """
    values = np.asarray(cosines, dtype=np.float64)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"cosines must be finite and at least one, got {values}")
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    mean = float(np.mean(values))
    return 1 / (mean * math.sqrt(dim)) if mean > 0 else math.inf


def _epsilon_of_shift(shift: float, delta: float) -> float:
    """The epsilon of N(0, 1) and N(shift, 1), the mechanism along the direction that differs."""
    return epsilon_over_all_regions(Gaussian(0.0, 1.0), Gaussian(shift, 1.0), delta)
