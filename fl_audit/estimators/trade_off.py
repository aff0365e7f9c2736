"""Trade-off curves: the power that a privacy claim allows an attacker at each false positive rate.

A mechanism is f-DP (Dong, Roth & Su 2022, "Gaussian differential privacy", arXiv:1905.02383,
definition 2.3) if an event of probability q on one input has probability at most T(q) = 1 - f(q) on
a neighbouring one. T is increasing and concave. Conversely, an event of probability x on one input
has probability at least L(x) = f(1 - x) on the other.

Curves are upper bounds here: a T larger than the mechanism's makes a test weaker, but not invalid.
So a curve known only at points is replaced by a step function above it.

>>> curve = GaussianTradeOff(1.0)
>>> round(math.exp(float(curve.log_power(math.log(0.01)))), 3)
0.092
"""

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import narrowed
from fl_audit.estimators.optimal_tests import OptimalTests
from fl_audit.estimators.scores import check_delta

_GRID = special.log_ndtr(np.concatenate([np.arange(-45, -12, 0.05), np.arange(-12, 9, 0.005)]))
"""Logs of the false positive rates of a curve's points, rising from about -1017."""

_ORDERS = (1.01, 1.3, 2.0, 4.0, 10.0, 40.0)
_NEAR_BEST = (0.9, 1.0, 1.12)
"""Renyi orders for a zCDP curve: fixed ones, and multiples of sqrt(-log(q) / rho), which is optimal
for small q. Any set of orders would be valid.
"""

_HALVINGS = 45

_ROUNDING = 1e-9
"""A power above delta by less than this share of delta counts as delta."""


class TradeOff(Protocol):
    """The trade-off curve of a privacy claim."""

    def log_power(self, log_fpr: npt.ArrayLike) -> FloatArray:
        """Log of an upper bound on T at log false positive rates; at most 0, never falling."""

    def least(self, probability: float) -> float:
        """L: the least probability, on a neighbouring input, of an event with this probability."""


@dataclass(frozen=True)
class GaussianTradeOff:
    """The curve of mu-GDP (Dong, Roth & Su 2022, definition 2.6): N(mu, 1) against N(0, 1).

    >>> round(GaussianTradeOff(1.0).least(0.5), 4)
    0.1587
    """

    mu: float

    def __post_init__(self) -> None:
        _check("mu", self.mu)

    def log_power(self, log_fpr: npt.ArrayLike) -> FloatArray:
        """Log of Phi(Phi^-1(q) + mu)."""
        return np.asarray(special.log_ndtr(special.ndtri_exp(np.asarray(log_fpr)) + self.mu))

    def least(self, probability: float) -> float:
        """Phi(Phi^-1(x) - mu)."""
        return float(special.ndtr(special.ndtri(probability) - self.mu))


@dataclass(frozen=True)
class PointTradeOff:
    """The curve of (epsilon, delta)-DP (Dong, Roth & Su 2022, equation 4).

    >>> PointTradeOff(0.0, 0.25).least(0.5)
    0.25
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)
        check_delta(self.delta)

    def log_power(self, log_fpr: npt.ArrayLike) -> FloatArray:
        """Log of min(e^epsilon q + delta, 1 - e^-epsilon (1 - delta - q))."""
        log_fpr = np.asarray(log_fpr, np.float64)
        with np.errstate(divide="ignore"):
            near = np.logaddexp(self.epsilon + log_fpr, np.log(self.delta))
        left = np.maximum(-np.expm1(log_fpr) - self.delta, 0.0)
        return np.asarray(np.minimum(near, np.log1p(-math.exp(-self.epsilon) * left)).clip(max=0))

    def least(self, probability: float) -> float:
        """max(0, e^-epsilon (x - delta), 1 - delta - e^epsilon (1 - x))."""
        growth, offset = math.exp(self.epsilon), -math.expm1(self.epsilon) - self.delta
        # The last is 1 - delta - e^epsilon (1 - x), without the cancellation at small x.
        return max(0.0, (probability - self.delta) / growth, offset + growth * probability)


@dataclass(frozen=True, eq=False)
class TabulatedTradeOff:
    """A curve known at points, and bounded from above between them.

    Attributes:
      log_fpr: Logs of false positive rates, rising, float64 of shape (points,).
      log_tpr: Logs of T there, never falling, at most 0, float64 of shape (points,).
      log_fnr: Logs of false negative rates, rising, float64 of shape (others,). Together with
        log_tnr, these are points of the curve for exchanged inputs.
      log_tnr: Logs of true negative rates there, never falling, float64 of shape (others,).
    """

    log_fpr: FloatArray
    log_tpr: FloatArray
    log_fnr: FloatArray
    log_tnr: FloatArray

    def log_power(self, log_fpr: npt.ArrayLike) -> FloatArray:
        """Log of T at the first point at or above each rate; 0 beyond the last point."""
        at = np.searchsorted(self.log_fpr, np.asarray(log_fpr, np.float64), side="left")
        return np.asarray(np.append(self.log_tpr, 0.0)[at])

    def least(self, probability: float) -> float:
        """L, on the lower convex hull of the points in both directions."""
        events, bounds = self._hull
        return float(np.interp(probability, events, bounds))

    @functools.cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        """Corners of the lower convex hull of points (T, next lower rate), in both directions."""
        rising = np.concatenate([np.exp(self.log_tpr), np.exp(self.log_tnr), [1.0]])
        # Between points the other input's probability is bounded by its value at the lower point.
        below = [
            np.concatenate([[0.0], np.exp(log_rates[:-1])])
            for log_rates in (self.log_fpr, self.log_fnr)
        ]
        last = min(*np.exp([self.log_fpr[-1], self.log_fnr[-1]]), 1.0)
        return lower_hull(rising, np.concatenate([*below, [last]]))


def lower_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The corners of the lower convex hull of points and (0, 0), by Andrew's monotone chain.

    Returns the corners' abscissas, rising, and ordinates; all coordinates are at least 0.
    """
    order = np.lexsort((y, x))
    corners = [(0.0, 0.0)]
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        while len(corners) > 1 and _turns_right(corners[-2], corners[-1], point):
            corners.pop()
        if point[0] > corners[-1][0]:
            corners.append(point)
    hull = np.array(corners)
    return hull[:, 0], hull[:, 1]


def _turns_right(
    first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]
) -> bool:
    (x1, y1), (x2, y2), (x3, y3) = first, second, third
    return (x2 - x1) * (y3 - y1) <= (y2 - y1) * (x3 - x1)


def epsilon_of_curve(curve: TradeOff, delta: float) -> float:
    """An upper bound on the epsilon that a curve allows at delta > 0, in the direction of T.

    The largest log((T(q) - delta) / q) over the cells of a grid, with T at the upper end of a cell
    and q at the lower end. It is infinite if T exceeds delta even at the lowest rate of the grid.

    >>> round(epsilon_of_curve(GaussianTradeOff(1.0), 1e-5), 2)
    4.4
    """
    power = np.exp(curve.log_power(_GRID))
    exceeds = power > delta * (1 + _ROUNDING)
    if exceeds[0]:
        return math.inf
    gain = power[exceeds] - delta
    return float(np.max(np.log(gain) - _GRID[:-1][exceeds[1:]], initial=0.0))


def trade_off_of_tests(tests: OptimalTests) -> TabulatedTradeOff:
    """The curve of two distributions by their likelihood ratio tests (Neyman & Pearson)."""
    with np.errstate(divide="ignore"):
        log_tpr, log_tnr, log_fnr = np.log(tests.tpr), np.log(tests.tnr), np.log(tests.fnr)
    return TabulatedTradeOff(
        *_rising(tests.log_fpr, np.minimum(log_tpr, 0.0)),
        *_rising(log_fnr, np.minimum(log_tnr, 0.0)),
    )


def trade_off_of_profile(epsilons: npt.ArrayLike, deltas: npt.ArrayLike) -> TabulatedTradeOff:
    """The curve of a privacy profile delta(epsilon) that holds in both directions.

    T(q) <= e^epsilon q + delta(epsilon) and T(q) <= 1 - e^-epsilon (1 - delta(epsilon) - q) for
    every epsilon (Dong, Roth & Su 2022, proposition 2.13), so any set of epsilons is valid.
    """
    log_tpr = np.zeros_like(_GRID)
    for epsilon, delta in zip(np.ravel(epsilons), np.ravel(deltas), strict=True):
        if delta < 1:
            log_power = PointTradeOff(float(epsilon), float(delta)).log_power(_GRID)
            log_tpr = np.minimum(log_tpr, log_power)
    return TabulatedTradeOff(_GRID, log_tpr, _GRID, log_tpr)


@functools.lru_cache(maxsize=16)
def zcdp_trade_off(rho: float) -> TabulatedTradeOff:
    """The curve of rho-zCDP, from the Renyi divergences of the outcome of a test.

    rho-zCDP (Bun & Steinke 2016, "Concentrated differential privacy", arXiv:1605.02065, definition
    1.1) bounds the Renyi divergence of every order a > 1 by rho a, in both directions. A test maps
    the output to one bit, of probability p on one input and q on the other, and post-processing
    increases no divergence. So p and q of any test satisfy

        log(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) <= (a - 1) rho a    for all a > 1,

    also with p and q exchanged. T(q) is at most the largest such p. The left side rises with p from
    q on, so that p is found by bisection, from above.
    """
    _check("rho", rho)
    best = np.maximum(np.sqrt(-_GRID / rho), 1.0) if rho else np.full_like(_GRID, _ORDERS[-1])
    log_tpr = np.asarray(-np.square(np.maximum(np.sqrt(-_GRID) - math.sqrt(rho), 0.0)))
    for order in (*_ORDERS, *(1e-3 + factor * best for factor in _NEAR_BEST)):
        orders = np.maximum(np.broadcast_to(order, _GRID.shape), _ORDERS[0])
        log_tpr = np.minimum(log_tpr, _largest_power(orders, rho))
    log_tpr = np.maximum.accumulate(np.maximum(log_tpr, _GRID))
    # The inequality also holds for 1 - q and 1 - p, so the curve is its own mirror image. Only
    # values of T well below 1 are accurate, so only these are mirrored.
    at = np.searchsorted(log_tpr, _log1mexp(_GRID), side="left")
    mirrored = _log1mexp(np.concatenate([[-np.inf], _GRID])[at])
    mirrored[math.log(0.01) > _GRID] = 0.0
    log_tpr = np.maximum.accumulate(np.maximum(np.minimum(log_tpr, mirrored), _GRID))
    return TabulatedTradeOff(_GRID, log_tpr, _GRID, log_tpr)


def _largest_power(orders: FloatArray, rho: float) -> FloatArray:
    """Logs of the largest p that each point's order allows in both directions, rounded up."""
    with np.errstate(over="ignore"):  # an infinite bound allows every p
        most = (orders - 1) * rho * orders

    def is_allowed(log_p: FloatArray) -> BoolArray:
        moments = _log_moment(log_p, _GRID, orders), _log_moment(_GRID, log_p, orders)
        return np.asarray((moments[0] <= most) & (moments[1] <= most))

    return narrowed(is_allowed, _GRID, np.zeros_like(_GRID), _HALVINGS)[1]


def _log_moment(log_p: FloatArray, log_q: FloatArray, order: FloatArray) -> FloatArray:
    """log(p^a q^(1-a) + (1-p)^a (1-q)^(1-a)) of two Bernoulli distributions."""
    hits = order * log_p + (1 - order) * log_q
    misses = order * _log1mexp(log_p) + (1 - order) * _log1mexp(log_q)
    return np.asarray(np.logaddexp(hits, misses))


def _log1mexp(log_p: FloatArray) -> FloatArray:
    """log(1 - p), finite even if p rounds to 1."""
    return np.asarray(np.log(np.maximum(-np.expm1(log_p), 1e-300)))


def _rising(log_from: FloatArray, log_to: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.lexsort((log_to, log_from))
    return log_from[order], np.maximum.accumulate(log_to[order])


def _check(name: str, number: float) -> None:
    if not 0 <= number < math.inf:
        raise InputError(f"{name} must be at least 0 and finite, got {number}")
