"""How small noise would have to be for the checks of its length to see it."""

import math

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.tails import log_p_shorter

_SEEN = 1.6449
"""The standard deviations below which a normal variable is with a probability of 0.05."""


def detectable_noise(
    lengths: FloatArray, dof: FloatArray, allowed: float, log_level: float
) -> float | None:
    """The largest noise, over what it should be, that one of several tests would have failed.

    With noise r times as large a squared length is around that of the updates, which is about the
    measured one without the noise's own, and r^2 dof. A normal law is taken for what it then is.

    Args:
      lengths: Squared lengths over the noise's variance, of any shape; NaN where none is tested.
      dof: The number of dimensions that the noise has there, of the same shape.
      allowed: The part of a squared length that is allowed for what is said of the noise.
      log_level: The logarithm of the probability of a false alarm, of all tests together.

    Returns:
      The noise that one test fails with a probability of about 0.95; 0 where none at all would pass
      too, None without tests.
    """
    tested = ~np.isnan(lengths)
    if not tested.any():
        return None
    lengths, dof = lengths[tested], dof[tested]
    of_updates = np.maximum(lengths - dof, 0)
    failing = dof * allowed * _shortest_share(dof, log_level - math.log(len(dof)))
    low, high = np.zeros(len(dof)), np.ones(len(dof))
    for _ in range(30):
        noise = (low + high) / 2
        spread = np.sqrt(2 * dof * noise**4 + 4 * of_updates * noise**2)
        is_seen = of_updates + dof * noise**2 + _SEEN * spread <= failing
        low, high = np.where(is_seen, noise, low), np.where(is_seen, high, noise)
    return float(low.max())


def _shortest_share(dof: FloatArray, log_p: float) -> FloatArray:
    """The squared length over dof at which `log_p_shorter` is this, between 0 and 1."""
    low, high = np.full(len(dof), -800.0), np.zeros(len(dof))  # of its logarithm
    for _ in range(60):
        middle = (low + high) / 2
        is_less_likely = log_p_shorter(dof * np.exp(middle), dof) < log_p
        low, high = np.where(is_less_likely, middle, low), np.where(is_less_likely, high, middle)
    return np.asarray(np.exp(low))
