"""Quantiles of the cosine's law, by Newton's method in log space."""

import math

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.laws.cosine_tail import central_mass, log_peak, log_tail, switch_point

_CLOSE = 1e-9
"""A Newton step this small, relative to the point, leaves an error below rounding."""

_MOST_STEPS = 30


def upper_quantile(p: FloatArray, dim: int) -> FloatArray:
    """The x >= 0 with P(X >= x) = p, for p in [0, 1/2] of shape (n,).

    The unknown is s = sqrt(-log(1 - x^2)), in which the law is nearly Gaussian (Wallace 1959,
    "Bounds on normal approximations to Student's and the chi-square distributions", gives the
    start) and which tells apart cosines that round to 1. In s the log of the tail is nearly a
    parabola; below the switch the mass from 0 is solved for instead, as its digits are those of x.
    """
    x = np.where(p == 0, 1.0, 0.0)
    inside = (p > 0) & (p < 0.5)
    x[inside] = _solve(p[inside], dim)
    x[~((p >= 0) & (p <= 0.5))] = np.nan
    return x


def _solve(p: FloatArray, dim: int) -> FloatArray:
    nu = float(dim - 1)
    start = (8 * nu + 3) / ((8 * nu + 1) * math.sqrt(nu))
    s = -special.ndtri(p) * start
    central = 0.5 - p <= central_mass(np.array([switch_point(dim)]), dim)
    for _ in range(_MOST_STEPS):
        step = np.empty_like(s)
        step[central] = _central_step(s[central], 0.5 - p[central], dim)
        step[~central] = _tail_step(s[~central], np.log(p[~central]), dim)
        s += step
        if np.all(np.abs(step) <= _CLOSE * s):
            break
    return _cosine(s)


def _cosine(s: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(-np.expm1(-s * s)))


def _log_density(s: FloatArray, x: FloatArray, dim: int) -> FloatArray:
    """Log of the density of s: C (1 - x^2)^(b - 1) times dx/ds = (1 - x^2) s / x."""
    return np.asarray(log_peak(dim) - (dim - 1) / 2 * s * s + np.log(s / x))


def _central_step(s: FloatArray, mass: FloatArray, dim: int) -> FloatArray:
    x = _cosine(s)
    return np.asarray((mass - central_mass(x, dim)) * np.exp(-_log_density(s, x, dim)))


def _tail_step(s: FloatArray, log_p: FloatArray, dim: int) -> FloatArray:
    x = _cosine(s)
    reached = log_tail(x, -s * s, dim)
    return np.asarray((reached - log_p) * np.exp(reached - _log_density(s, x, dim)))
