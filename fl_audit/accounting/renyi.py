"""Rényi divergences of Gaussian noise on Poisson samples, and the epsilon that divergences give.

Divergences are computed here, so as not to depend on the version of dp-accounting: from 0.4.4 on,
its series for fractional orders loses the signs of terms, and overstates epsilon by up to 80 %.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

RDP_ORDERS: tuple[float, ...] = (
    *(1 + np.geomspace(0.0102, 1, 80, endpoint=False)).tolist(),
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *range(11, 64),
    *(2**power for power in range(6, 12)),
)
"""dp-accounting's default orders, and finer ones down to 1.01, the smallest that it accepts.

At the noise multiplier 0.0644 of Andrew et al., epsilon is 100,000 by the default orders (from 1.1
on), 1,150 by these, and 463,000 by whole orders alone (from 2 on).
"""

_ROUNDING = 1e-10
"""A composed divergence below this is due to rounding, and may be negative."""

_LEAST_NOISE = 1e-150
"""Below this noise multiplier the divergences of large orders overflow."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

_SMALL = 0.05
"""If |t| times the order is smaller, 12 terms of the series are exact to 1e-16."""


def epsilon_of_divergences(
    orders: Sequence[float], divergences: npt.NDArray[np.float64], delta: float
) -> float:
    """Epsilon by the best order (Canonne et al. 2020, arXiv:2004.00010v4, proposition 12).

    It is 0 where a divergence is so small that the total variation is below delta (Pinsker's bound
    in the form of Bretagnolle & Huber). dp-accounting has the same formulas, and takes a second to
    import. `divergences` are in nats, float64 of shape (orders,); all orders are above 1.
    """
    alpha, above_rounding = np.asarray(orders), np.maximum(divergences, _ROUNDING)
    if (delta**2 + np.expm1(-above_rounding) > 0).any():
        return 0.0
    slack = np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)
    return max(0.0, float((above_rounding + slack).min()))


def sampled_gaussian_divergences(
    probability: float, noise_multiplier: float, orders: Sequence[float] = RDP_ORDERS
) -> npt.NDArray[np.float64]:
    """Rényi divergences of one Gaussian release on a Poisson sample, by order.

    They are the divergences of (1 - q) N(0, z²) + q N(1, z²) from N(0, z²), the larger of the two
    directions (Mironov, Talwar & Zhang 2019, arXiv:1908.10530, section 3). Let 1 + t be the ratio
    of the two densities at a draw from N(0, z²). Then t has mean 0, so the mean of (1 + t)^order is
    1 plus the mean of f(t) = (1 + t)^order - 1 - order t. As f is nowhere negative, no digits
    cancel, however little a sample reveals.

    The result is in nats, float64 of shape (orders,), to a relative 1e-12; infinite without noise.
    """
    if noise_multiplier < _LEAST_NOISE:
        return np.full(len(orders), math.inf)
    log_excess = [
        _log_excess_integer(probability, noise_multiplier, int(order))
        if float(order).is_integer()
        else _log_excess(probability, noise_multiplier, order)
        for order in orders
    ]
    return np.asarray(np.logaddexp(0.0, log_excess) / (np.asarray(orders, float) - 1))


def _log_excess_integer(q: float, z: float, order: int) -> float:
    """The log of the mean of f(t): a binomial sum without its first two terms."""
    k = np.arange(2, order + 1)
    log_choices = -math.log(order + 1) - special.betaln(order - k + 1, k + 1)
    log_masses = log_choices + k * math.log(q) + (order - k) * math.log1p(-q)
    grown = k * (k - 1.0) / 2 / z / z
    return float(special.logsumexp(log_masses + grown + np.log(-np.expm1(-grown))))


def _log_excess(q: float, z: float, order: float) -> float:
    """The log of the mean of f(t), by quadrature."""
    edges = _panel_edges(q, z, order)
    halves = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + halves + halves * _NODES).ravel()
    log_weights = np.log((halves * _WEIGHTS).ravel()) - math.log(z) - math.log(2 * math.pi) / 2
    return float(special.logsumexp(_log_f(q, z, order, x) - (x / z) ** 2 / 2 + log_weights))


def _panel_edges(q: float, z: float, order: float) -> npt.NDArray[np.float64]:
    """The ends of the panels of the quadrature, in each of which the integrand is smooth.

    The integrand has Gaussian peaks as wide as the noise: near 0 (a client is missing), near
    `order`, near 2 (where f(t) is a square), and near t = 1, where the densities' two terms 1 - q
    and q e^y are equal. At t = 0 and near t = 1 it bends within z². With large noise the whole
    range from 0 to `order` counts.
    """
    turn = z * z * (math.log1p(-q) - math.log(q)) + 0.5
    lowest, highest = -10 * z, max(order, 2.0) + 10 * z
    peaks = np.add.outer([0.0, 2.0, order, turn], z * np.arange(-10, 11))
    wide = math.ceil(math.log2(10 / min(z, 1.0))) + 4
    bends = np.add.outer([0.5, turn], np.outer([-1, 1], z * z * 2.0 ** np.arange(wide)))
    between = np.arange(lowest, highest, z) if z > 0.25 else [lowest]
    edges = np.concatenate([peaks.ravel(), bends.ravel(), between, [0.5, turn, highest]])
    return np.asarray(np.unique(edges[(edges >= lowest) & (edges <= highest)]))


def _log_f(q: float, z: float, order: float, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The log of f(t) at outputs x, where t = q (e^y - 1) and y is the loss without sampling."""
    y = (2 * x - 1) / 2 / z / z
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + y)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        t = q * np.expm1(y)
        log_t = math.log(q) + y + np.log(-np.expm1(-y))
        # Each formula is used where it is exact: difference of logs, difference, power series.
        log_line = np.where(
            t > 1, math.log(order) + log_t + np.log1p(1 / (order * t)), np.log1p(order * t)
        )
        power = order * log_ratio
        large = power + np.log(-np.expm1(log_line - power))
        direct = np.log(np.expm1(power) - order * t)
        series = np.polynomial.polynomial.polyval(t, special.binom(order, np.arange(2, 14)))
        small = 2 * np.log(np.abs(t)) + np.log(series)
    is_small = np.abs(t) < _SMALL / order
    return np.where(is_small, small, np.where(power > 1, large, direct))
