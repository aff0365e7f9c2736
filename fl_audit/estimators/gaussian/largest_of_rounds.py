"""The largest of several Gaussian scores, one of which may be shifted: its epsilon.

A canary that takes part in one unknown round of K has K scores, N(0, 1) but for one N(m, 1), and an
attacker who looks at the largest tells two laws apart: Phi(x)^K and Phi(x)^(K - 1) Phi(x - m).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize, special

_FAR = 40.0
"""Deviations beyond which a normal law has no mass that a float can tell from 0."""

_LEAST_LOG = -1e12
"""What stands for the logarithm of 0 where a root is looked for."""

_CERTAIN = 1e-9
"""A log probability above minus this is that of an event whose complement needs logs of its own."""


def epsilon_of_largest(rounds: float, shift: float, delta: float) -> float:
    """The epsilon at delta of the largest of K scores, with one of them shifted against none.

    The likelihood ratio ((K - 1) Phi(x - m) / Phi(x) + exp(m x - m^2 / 2)) / K rises with x, so
    thresholds are the most powerful tests (Neyman-Pearson), and delta(epsilon) = P1(X >= x) -
    e^epsilon P0(X >= x) at the x where the ratio is e^epsilon. The root of delta(x) = delta gives
    epsilon in one direction, and the same below a threshold in the other.

    Args:
      rounds: The number K of scores, at least 1; need not be whole.
      shift: The shift m of the one in deviations; 0 or below gives 0.
      delta: The delta of differential privacy, in [0, 1).

    >>> round(epsilon_of_largest(1, 1.0, 1e-5), 2)  # Balle & Wang, as of the Gaussian mechanism
    4.38
    """
    if shift <= 0:
        return 0.0
    if delta == 0:
        return math.inf

    def log_ratio(x: float) -> float:
        log_shifted = float(special.log_ndtr(x - shift)) - float(special.log_ndtr(x))
        own = shift * x - shift**2 / 2
        if rounds == 1:
            return own
        return float(np.logaddexp(math.log(rounds - 1) + log_shifted, own)) - math.log(rounds)

    def above(x: float) -> float:
        shifted, null = _log_sf(x, rounds, shift), _log_sf(x, rounds, 0.0)
        return _log_difference(shifted, log_ratio(x) + null)

    def below(x: float) -> float:
        shifted, null = _log_cdf(x, rounds, shift), _log_cdf(x, rounds, 0.0)
        return _log_difference(null, shifted - log_ratio(x))

    ends = (-_FAR, shift + _FAR)
    return max(
        0.0,
        log_ratio(_root(above, ends, math.log(delta))),
        -log_ratio(_root(below, ends, math.log(delta))),
    )


def _root(function: Callable[[float], float], ends: tuple[float, float], value: float) -> float:
    """Where a monotone function takes a value; the nearer end where it does not."""
    first, last = (function(end) - value for end in ends)
    if first * last > 0:
        return ends[0] if abs(first) < abs(last) else ends[1]
    return float(optimize.brentq(lambda x: function(x) - value, *ends, xtol=1e-12, rtol=1e-14))


def _log_difference(log_larger: float, log_smaller: float) -> float:
    if log_smaller >= log_larger:
        return _LEAST_LOG
    return max(log_larger + math.log(-math.expm1(log_smaller - log_larger)), _LEAST_LOG)


def _log_cdf(x: float, rounds: float, shift: float) -> float:
    return (rounds - 1) * float(special.log_ndtr(x)) + float(special.log_ndtr(x - shift))


def _log_sf(x: float, rounds: float, shift: float) -> float:
    log_cdf = _log_cdf(x, rounds, shift)
    if log_cdf < -_CERTAIN:
        return math.log(-math.expm1(log_cdf))
    # Both tails are below 1e-9, so that their sum is that of the largest to as much.
    own = float(special.log_ndtr(shift - x))
    if rounds == 1:
        return own
    return float(np.logaddexp(math.log(rounds - 1) + float(special.log_ndtr(-x)), own))
