"""The noise that a target epsilon needs, whatever decides who takes part."""

import decimal
import functools
import math
from collections.abc import Callable

from scipy import optimize

from fl_audit.errors import InputError

_LARGEST_LOG = 28.0
"""The log of the largest noise multiplier that is tried; nothing is learned with it."""

_STEP = math.log(2.0)
"""The step, in the log of the noise multiplier, of the search for a bracket."""

_LOG_WIDTH = 5e-5
"""The width, in the log of the noise multiplier, to which it is solved for."""

_DIGITS = 6
"""The digits of the noise multiplier that is found, so that it can be copied."""

_LARGE_EXCESS = 50.0
"""The log of a ratio of epsilons that stands for an infinite one."""


def noise_multiplier_for(epsilon: float, epsilon_of: Callable[[float], float | None]) -> float:
    """The smallest noise multiplier whose analytical epsilon is at most a target, to 1e-4.

    It is rounded up to six digits. The one that is returned has been accounted itself, so that the
    target holds for it and not only nearly.

    Args:
      epsilon: The target, above 0 and finite.
      epsilon_of: A function that gives the analytical epsilon of a noise multiplier, and does not
        rise with it; None where none is known.

    Raises:
      InputError: The target is out of range, no epsilon is known, or no noise is enough.

    >>> round(noise_multiplier_for(0.5, lambda z: 1 / z), 3)
    2.0
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"the target epsilon must be a finite number above 0, got {epsilon}")

    @functools.cache
    def excess(log_multiplier: float) -> float:
        """Log epsilon above the target's, kept finite for the solver."""
        found = epsilon_of(math.exp(log_multiplier))
        if found is None:
            raise InputError("no accountant knows the analytical epsilon of such a run")
        if found == 0:
            return -_LARGE_EXCESS
        return min(max(math.log(found / epsilon), -_LARGE_EXCESS), _LARGE_EXCESS)

    below, above = 0.0, _STEP
    while excess(above) > 0:
        below, above = above, above + _STEP
        if above > _LARGEST_LOG:
            raise InputError(f"no noise gives epsilon {epsilon:g}")
    while below > -_LARGEST_LOG and excess(below) <= 0:
        below, above = below - _STEP, below
    if excess(below) <= 0:
        return math.exp(below)
    enough = float(optimize.brentq(excess, below, above, xtol=_LOG_WIDTH))
    multiplier = _rounded_up(math.exp(enough))
    while excess(math.log(multiplier)) > 0:
        multiplier = _rounded_up(multiplier * math.exp(_LOG_WIDTH))
    return multiplier


def _rounded_up(value: float) -> float:
    """The least number of so many digits that is not below a positive value."""
    digits = decimal.Context(prec=_DIGITS, rounding=decimal.ROUND_CEILING)
    return float(digits.create_decimal(value))
