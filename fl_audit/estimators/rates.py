"""Epsilon from a pair of rates, in log space."""

import math

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


def log_minus(log_p: npt.ArrayLike, delta: float) -> FloatArray:
    """The log of p - delta for p given as log p; -inf where p <= delta.

    >>> float(log_minus(math.log(0.5), 0.25)) == math.log(0.25)
    True
    >>> float(log_minus(math.log(0.5), 0.5))
    -inf
    """
    log_p = np.asarray(log_p, dtype=np.float64)
    if delta == 0:
        return log_p
    gap = np.minimum(math.log(delta) - log_p, 0.0)
    with np.errstate(divide="ignore"):
        # Exactly p == delta gives log1p(-1) = -inf; p < delta was clipped to that case.
        return np.asarray(log_p + np.log1p(-np.exp(gap)))


def log_ratio(log_p: npt.ArrayLike, log_q: npt.ArrayLike, delta: float) -> FloatArray:
    """The log of (p - delta) / q: the epsilon that a region with masses p and q proves.

    A region whose mass p does not exceed delta proves nothing: -inf, also where q is 0.
    Andrew et al. (2023), section 4; Kairouz et al. (2015).
    """
    log_gain = log_minus(log_p, delta)
    with np.errstate(invalid="ignore"):
        return np.where(log_gain == -np.inf, -np.inf, log_gain - np.asarray(log_q))
