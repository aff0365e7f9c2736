"""The epsilon of a pair of error rates, in log space.

Zanella-Béguelin et al. (2022), Theorem 2.2 and section 2.4, after Kairouz, Oh & Viswanath (2017).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.scores import check_delta


@dataclass(frozen=True)
class LogRates:
    """Logs of error rates and of one minus them, or of upper and lower bounds on these."""

    error: FloatArray
    success: FloatArray

    @property
    def opposite(self) -> "LogRates":
        """The rates of the opposite guesses; an upper bound becomes a lower one."""
        return LogRates(error=self.success, success=self.error)


def log_minus(log_p: npt.ArrayLike, delta: float) -> FloatArray:
    """The log of p - delta for p given as log p, elementwise; -inf where p <= delta.

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
    """Log of (p - delta) / q (Kairouz et al. 2015); -inf where p <= delta, even if q is 0."""
    log_gain = log_minus(log_p, delta)
    with np.errstate(invalid="ignore"):
        return np.where(log_gain == -np.inf, -np.inf, log_gain - np.asarray(log_q))


def epsilon_of_rates(
    false_negative_rates: npt.ArrayLike, false_positive_rates: npt.ArrayLike, delta: float
) -> FloatArray:
    """The infimum of the epsilons >= 0 with (FNR, FPR) in the privacy region R(epsilon, delta).

    R(epsilon, delta) contains the error rates that an attack on an (epsilon, delta)-DP mechanism
    may have. Its four conditions on x = FNR and y = FPR (below Theorem 2.2), each divided by the
    factor of e^epsilon, are

        e^epsilon >= (1 - delta - x) / y,    e^epsilon >= (1 - delta - y) / x,
        e^epsilon >= (y - delta) / (1 - x),  e^epsilon >= (x - delta) / (1 - y).

    The first two are binding for an attack better than chance, x + y < 1 - delta; the last two are
    the same for the opposite guesses, of rates (1 - x, 1 - y), and are binding for an attack worse
    than chance. A condition with a numerator of 0 or less holds at every epsilon. One with a
    positive numerator and a denominator of 0 holds at no finite epsilon: the infimum is infinite.
    (Equation 1 has only the first two conditions.)

    Args:
      false_negative_rates: Rates in [0, 1], of any shape; broadcast with the false positive rates.
      false_positive_rates: Rates in [0, 1].
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: A rate or delta is out of range.

    >>> epsilon_of_rates([0.4, 0.5, 0.6, 0.1], [0.4, 0.5, 0.6, 0.0], 0).round(4).tolist()
    [0.4055, 0.0, 0.4055, inf]
    """
    check_delta(delta)
    x = _rates("false_negative_rates", false_negative_rates)
    y = _rates("false_positive_rates", false_positive_rates)
    with np.errstate(divide="ignore"):
        negatives, positives = (LogRates(np.log(rate), np.log1p(-rate)) for rate in (x, y))
    needed = np.maximum(
        beyond_chance(negatives, positives, delta),
        beyond_chance(negatives.opposite, positives.opposite, delta),
    )
    return np.asarray(np.maximum(needed, 0.0))


def beyond_chance(x: LogRates, y: LogRates, delta: float) -> FloatArray:
    """The larger of log((1 - delta - x) / y) and log((1 - delta - y) / x) (equation 1).

    It decreases in the error rates x and y, and is -inf if neither numerator is positive.
    """
    return np.maximum(log_ratio(x.success, y.error, delta), log_ratio(y.success, x.error, delta))


def _rates(name: str, values: npt.ArrayLike) -> FloatArray:
    rates = np.asarray(values, dtype=np.float64)
    bad = rates[~((rates >= 0) & (rates <= 1))]
    if bad.size:
        raise InputError(f"{name} must be in [0, 1], got {bad.flat[0]}")
    return rates
