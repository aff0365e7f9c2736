"""One-sided confidence bounds on error rates, in log space."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.beta_quantile import beta_quantile
from fl_audit.estimators.laws import Law, NullTail


@dataclass(frozen=True)
class LogRates:
    """Bounds on an error rate and on its complement, as logarithms, one per threshold.

    Attributes:
      error: Logs of the upper bounds on the error rates, float64 of shape (t,).
      success: Logs of the lower bounds on one minus the error rates, float64 of shape (t,).
    """

    error: FloatArray
    success: FloatArray


def jeffreys_upper(errors: IntArray, trials: int, confidence: float) -> LogRates:
    """One-sided Jeffreys upper bounds on an error rate.

    The bound is the `confidence` quantile of Beta(k + 1/2, n - k + 1/2); where every trial is an
    error it is 1 (Brown, Cai & DasGupta 2001), so that such a threshold proves nothing.

    Args:
      errors: Numbers of errors k in [0, trials], int64 of shape (t,).
      trials: Number of trials n, at least 1.
      confidence: Confidence of each bound, in (0, 1).

    >>> bounds = jeffreys_upper(np.array([0, 1000]), 1000, 0.95)
    >>> np.exp(bounds.error).round(7).tolist()
    [0.0019184, 1.0]
    """
    # From the lower quantile of the complement: the tail that keeps its digits.
    rest = beta_quantile(trials - errors + 0.5, errors + 0.5, 1 - confidence)
    return log_rates(np.where(errors == trials, 0.0, rest))


def clopper_pearson_upper(errors: IntArray, trials: int, confidence: float) -> LogRates:
    """One-sided Clopper-Pearson upper bounds on an error rate, which are exact.

    The bound is the `confidence` quantile of Beta(k + 1, n - k), and 1 where every trial is an
    error; it is too small at most as often as the confidence allows (Clopper & Pearson 1934).

    Args:
      errors: Numbers of errors k in [0, trials], int64 of shape (t,).
      trials: Number of trials n, at least 1.
      confidence: Confidence of each bound, in (0, 1).

    >>> bounds = clopper_pearson_upper(np.array([0, 1000]), 1000, 0.95)
    >>> np.exp(bounds.error).round(7).tolist()  # 1 - 0.05^(1/1000)
    [0.0029912, 1.0]
    """
    some_right = np.minimum(errors, trials - 1)
    rest = beta_quantile(trials - some_right, some_right + 1, 1 - confidence)
    return log_rates(np.where(errors == trials, 0.0, rest))


def false_positive_rates(law: Law, thresholds: FloatArray) -> LogRates:
    """The exact false positive rates of thresholds where the null law is known."""
    return LogRates(error=law.logsf(thresholds), success=law.logcdf(thresholds))


def bounded_false_positives(null: NullTail, thresholds: FloatArray) -> LogRates:
    """Bounds on the false positive rates of thresholds by what is known of the null."""
    log_tail = null.log_tail_upper(thresholds)
    with np.errstate(divide="ignore"):
        return LogRates(error=log_tail, success=np.log(-np.expm1(log_tail)))


def log_rates(success: FloatArray) -> LogRates:
    """The bounds that follow from lower bounds of shape (t,) on one minus the error rate."""
    with np.errstate(divide="ignore"):
        return LogRates(error=np.log1p(-success), success=np.log(success))
