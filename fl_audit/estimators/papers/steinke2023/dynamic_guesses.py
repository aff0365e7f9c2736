"""The one-run test with a number of guesses chosen from the scores, but not from the coins.

Steinke et al. (2023), Corollary 5.8, for guesses that are right (1), wrong or not made (0).
"""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.beta_quantile import beta_quantile
from fl_audit.estimators.one_run.bound import binomial_tail
from fl_audit.estimators.one_run.guesses import Counts
from fl_audit.estimators.papers.steinke2023.many_bounds import checked_counts


def dynamic_p_values(
    m: int, r: npt.ArrayLike, v: npt.ArrayLike, *, epsilon: float, delta: float, tau: float
) -> FloatArray:
    """P-values of v right guesses out of r for (epsilon, delta)-DP, r chosen from the scores.

    Each is the chance that Binomial(r, e^epsilon / (1 + e^epsilon)) is at least v - tau, plus 2 m
    delta / tau, at most 1. It is at most gamma + 2 m delta / tau exactly if v >= g(T, gamma) + tau
    for some g that Corollary 5.8 allows. The corollary needs from Proposition 5.7 no more than the
    mean number of failures, so that what is wrong with the proposition (see sharp.py) does no harm
    here.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [0, m], int64 of shape (n,); any function of the scores, but not of
        the coins.
      v: Numbers of right guesses in [0, r], int64 of shape (n,).
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).
      tau: Number of right guesses given away to failures, above 0, chosen before the scores are
        seen.

    Raises:
      InputError: If an argument is out of range.

    >>> p = dynamic_p_values(100, [30, 100], [28, 75], epsilon=np.log(3), delta=1e-5, tau=1)
    >>> p.round(3).tolist()
    [0.039, 0.644]
    """
    guesses, correct = checked_counts(m, r, v)
    check_epsilon(epsilon)
    check_delta(delta)
    _check_tau(tau)
    chance = binomial_tail(guesses, _surely_right(correct, tau), epsilon)
    return np.asarray(np.minimum(chance + 2 * m * delta / tau, 1.0))


def dynamic_epsilon_bounds(
    m: int, r: npt.ArrayLike, v: npt.ArrayLike, *, delta: float, confidence: float, tau: float
) -> FloatArray:
    """The largest epsilon that v right guesses out of r reject, r chosen from the scores.

    It is 0 where they reject none. Each is a valid lower bound on epsilon at the given confidence:
    the Clopper-Pearson bound of v - tau right guesses at level 1 - confidence - 2 m delta / tau.
    The largest of several, with r chosen by several rules, is not.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [0, m], int64 of shape (n,); any function of the scores, but not of
        the coins.
      v: Numbers of right guesses in [0, r], int64 of shape (n,).
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).
      tau: Number of right guesses given away to failures, above 0, chosen before the scores are
        seen.

    Raises:
      InputError: If an argument is out of range.

    >>> found = dynamic_epsilon_bounds(
    ...     100, [30, 100], [28, 75], delta=1e-5, confidence=0.95, tau=1
    ... )
    >>> found.round(3).tolist()
    [1.151, 0.65]
    """
    guesses, correct = checked_counts(m, r, v)
    check_delta(delta)
    check_confidence(confidence)
    _check_tau(tau)
    gamma = 1 - confidence - 2 * m * delta / tau
    if gamma <= 0:
        return np.zeros(guesses.shape)
    sure = _surely_right(correct, tau)
    right = np.maximum(sure, 1)
    bounds = special.logit(beta_quantile(right, np.maximum(guesses - right, 0) + 1, gamma))
    return np.asarray(np.where(sure >= 1, np.maximum(bounds, 0.0), 0.0))


def _surely_right(v: Counts, tau: float) -> Counts:
    """The least number of right guesses that is at least v - tau."""
    given_away = min(tau, float(np.max(v, initial=0)) + 1)  # tau may be infinite
    return np.asarray(np.ceil(v - given_away), dtype=np.int64)


def _check_tau(tau: float) -> None:
    if not tau > 0:
        raise InputError(f"tau must be above 0, got {tau}")
