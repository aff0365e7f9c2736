"""Generalisation from differential privacy: Steinke et al. (2023), appendix B.

A sees n independent draws X from P and outputs a query; q(Y, X) is its mean over the sample, in
[0, 1], and q(Y, P) its mean over P. A is (epsilon, delta)-DP for the replacement of one draw. The
functions bound the probability that the two differ much. They take Theorem 5.2 for granted; where
delta > 0, its proof has a gap (see delta_terms.py), though no case is known in which it fails where
f(v) is below 0.87.
"""

import math

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_delta, check_epsilon
from fl_audit.estimators.one_run.bound import p_values

_ROUNDING = 1e-9
_ETAS = 200


def fresh_sample_bound(n: int, gamma: float, eta: float, *, epsilon: float, delta: float) -> float:
    """P(q(Y, X) - q(Y, X') >= gamma) for a fresh sample X' of n draws (Proposition B.3).

    The bound is the p-value of (1 + gamma - eta) n / 2 right guesses out of n, plus e^(-n eta^2 /
    2), at most 1.

    Args:
      n: Number of draws, at least 1.
      gamma: Difference of the means, in [0, 1].
      eta: Part of gamma left to the rounding of guesses, in [0, gamma]; 0 gives 1.
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(fresh_sample_bound(2000, 0.4, 0.08, epsilon=1 / 3, delta=1e-6), 4)
    0.0017
    """
    _check(n, gamma, eta, 1.0)
    guessed = float(_guessed(n, gamma - eta, epsilon, delta))
    return min(guessed + math.exp(-n * eta**2 / 2), 1.0)


def generalisation_bound(
    n: int, gamma: float, eta: float, *, epsilon: float, delta: float
) -> float:
    """A bound on P(q(Y, X) - q(Y, P) >= gamma), for one side (Theorem B.1).

    It is the p-value of (1 + gamma - 3/2 eta) n / 2 right guesses out of n, plus 2 e^(-n eta^2 /
    2), at most 1.

    Args:
      n: Number of draws, at least 1.
      gamma: Difference of the means, in [0, 1].
      eta: Part of gamma left to the rounding of guesses, in [0, 2/3 gamma].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check(n, gamma, eta, 1.5)
    guessed = float(_guessed(n, gamma - 1.5 * eta, epsilon, delta))
    return min(guessed + 2 * math.exp(-n * eta**2 / 2), 1.0)


def least_generalisation_bound(n: int, gamma: float, *, epsilon: float, delta: float) -> float:
    """The `generalisation_bound` with the best of 200 values of eta, which no data enters.

    Args:
      n: Number of draws, at least 1.
      gamma: Difference of the means, in [0, 1].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(least_generalisation_bound(2000, 0.3, epsilon=1 / 3, delta=0.0), 4)
    0.0697
    """
    _check(n, gamma, 0.0, 1.5)
    etas = np.linspace(0, gamma / 1.5, _ETAS)
    bounds = _guessed(n, gamma - 1.5 * etas, epsilon, delta) + 2 * np.exp(-n * etas**2 / 2)
    return float(np.minimum(np.min(bounds), 1.0))


def accuracy_bound(n: int, gamma: float, beta: float, *, epsilon: float, delta: float) -> float:
    """P(|Z - q(Y, P)| >= alpha + gamma) if A also outputs Z: Corollary B.5, with its best eta.

    Here P(|Z - q(Y, X)| >= alpha) <= beta. The result is beta + 2 `least_generalisation_bound`, at
    most 1: the error has two sides, and Theorem B.1 is about one. As printed (equation 14) the 2 is
    missing; see `printed_accuracy_bound`.

    Args:
      n: Number of draws, at least 1.
      gamma: Excess of the error over alpha, in [0, 1].
      beta: Chance that Z is off by alpha or more on the sample, in [0, 1].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check_beta(beta)
    bound = least_generalisation_bound(n, gamma, epsilon=epsilon, delta=delta)
    return min(beta + 2 * bound, 1.0)


def printed_accuracy_bound(
    n: int, gamma: float, beta: float, *, epsilon: float, delta: float
) -> float:
    """Equation 14 as printed: beta + `least_generalisation_bound`, at most 1.

    It gives the paper's example: with epsilon 1/3, n 2000, beta = delta = 1e-5, the bound reaches
    0.05 at gamma 0.308 (0.322 with both sides paid for).

    Args:
      n: Number of draws, at least 1.
      gamma: Excess of the error over alpha, in [0, 1].
      beta: Chance that Z is off by alpha or more on the sample, in [0, 1].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check_beta(beta)
    return min(beta + least_generalisation_bound(n, gamma, epsilon=epsilon, delta=delta), 1.0)


def pure_accuracy_bound(n: int, c: float, beta: float) -> float:
    """P(|Z - q(Y, P)| >= alpha + (e^eps - 1) / (e^eps + 1) + c) at delta = 0: equation 15.

    The bound is beta + 3 e^(-2/25 n c^2), at most 1; as printed, for one side (see
    `accuracy_bound`).

    Args:
      n: Number of draws, at least 1.
      c: Excess of the error beyond that of epsilon, at least 0.
      beta: Chance that Z is off by alpha or more on the sample, in [0, 1].

    Raises:
      InputError: If an argument is out of range.

    >>> round(pure_accuracy_bound(2000, 0.2, 0.0), 4)
    0.005
    """
    _check_beta(beta)
    if n < 1 or not c >= 0:
        raise InputError(f"n must be at least 1 and c at least 0, got {n} and {c}")
    return min(beta + 3 * math.exp(-0.08 * n * c**2), 1.0)


def jung_error(epsilon: float, c: float, d: float) -> float:
    """The error allowed beyond alpha, e^epsilon - 1 + c + 2 d (Theorem B.4, equation 13).

    Jung et al. (2019), arXiv:1909.03577, Theorem 3.5. A larger error has probability at most
    `jung_failure`.

    >>> round(jung_error(1 / 3, 0.0005, 0.0002), 3)
    0.397
    """
    return math.expm1(epsilon) + c + 2 * d


def jung_failure(beta: float, delta: float, c: float, d: float) -> float:
    """The chance beta / c + delta / d, at most 1, of a larger error than `jung_error`.

    Theorem B.4, equation 13; equation 16 for delta = 0.

    Args:
      beta: Chance that Z is off by alpha or more on the sample, in [0, 1].
      delta: The delta of differential privacy, in [0, 1).
      c: The c of `jung_error`, above 0.
      d: The d of `jung_error`, above 0.

    Raises:
      InputError: If an argument is out of range.

    >>> round(jung_failure(1e-5, 1e-5, 0.0005, 0.0005), 3)
    0.04
    """
    _check_beta(beta)
    check_delta(delta)
    if not (c > 0 and d > 0):
        raise InputError(f"c and d must be above 0, got {c} and {d}")
    return min(beta / c + delta / d, 1.0)


def _guessed(n: int, surplus: npt.ArrayLike, epsilon: float, delta: float) -> FloatArray:
    """The p-values of (1 + surplus) n / 2 right guesses out of n, Theorem 5.2."""
    check_epsilon(epsilon)
    check_delta(delta)
    share = (1 + np.asarray(surplus, dtype=np.float64)) / 2
    v = np.ceil(share * n - _ROUNDING).astype(np.int64)
    return p_values(n, np.full_like(v, n), v, epsilon, delta)


def _check(n: int, gamma: float, eta: float, etas: float) -> None:
    if n < 1:
        raise InputError(f"number of draws (n) must be at least 1, got {n}")
    if not 0 <= gamma <= 1:
        raise InputError(f"gamma must be in [0, 1], got {gamma}")
    if not 0 <= etas * eta <= gamma:
        raise InputError(f"eta must be in [0, {gamma / etas:g}], gamma / {etas:g}, got {eta}")


def _check_beta(beta: float) -> None:
    if not 0 <= beta <= 1:
        raise InputError(f"beta must be in [0, 1], got {beta}")
