"""Noise that comes twice within one aggregate: again, negated, or in reversed order."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.checks.noise_bounds import log_p_autocorrelation

MOST_COORDINATES = 1 << 25
"""The largest model that is tested, in coordinates: the transform takes 24 bytes for each."""

EVERY_ROUND = 1 << 20
"""The largest model of which every round is tested; of larger ones rounds 1, 2, 4, 8 and so on."""


@dataclass(frozen=True)
class Autocorrelation:
    """The pairs of coordinates at which an aggregate is most like itself.

    Attributes:
      correlation: The mean product of these pairs over the noise's variance.
      log_p: The logarithm of a bound on the probability that noise has so large a one, of either
        sign, at any lag or under any reversal.
      lag: The distance of the pairs, at least 1; 0 if they lie on both sides of a middle.
    """

    correlation: float
    log_p: float
    lag: int


def strongest_autocorrelation(
    aggregate: Float32Array, stddev: float, norm_bound: float
) -> Autocorrelation | None:
    """The strongest of all lags and reversals, which the Fourier transform computes together.

    Args:
      aggregate: The aggregate, of shape (dim,).
      norm_bound: The largest norm of the aggregate without noise.

    Returns:
      The pairs whose products are the least likely by chance; None for a model of one coordinate,
      or of more than `MOST_COORDINATES`.
    """
    dim = len(aggregate)
    if not 1 < dim <= MOST_COORDINATES:
        return None
    # In units of the noise, which keeps float32's range whatever the clip norm is. A length that
    # only a broken clip leaves may still overflow, which another check finds; so may any length
    # over noise of next to nothing.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        products = _products(aggregate / np.float32(stddev))
    if not np.isfinite(products).all():
        return None
    at = _least_likely(products, norm_bound / stddev)
    product, num_pairs = np.array([products[at], _num_pairs(dim)[at]], np.float64)
    log_p = float(log_p_autocorrelation(product, num_pairs, norm_bound / stddev))
    return Autocorrelation(
        correlation=float(product / num_pairs),
        log_p=min(0.0, log_p + math.log(len(products))),
        lag=at + 1 if at < dim - 1 else 0,
    )


def _least_likely(products: Float32Array, norm_bound: float) -> int:
    """Where `log_p_autocorrelation` is least, and the largest product if all are likely.

    Its root r, of 2 r^2 + l r = a, is at most a / l: only where that exceeds one root it may be
    larger.
    """
    sizes = np.abs(products)
    with np.errstate(invalid="ignore", over="ignore"):
        linear = np.sqrt(2 * _num_pairs((len(products) + 4) // 3))
        linear += np.float32(math.sqrt(8) * norm_bound)
        most = (sizes - np.float32(norm_bound) ** 2) / linear
    first = int(np.argmax(most))
    if not most[first] > 0:
        return int(np.argmax(sizes))
    likely = np.flatnonzero(most >= _root(most[first], linear[first]))
    return int(likely[np.argmax(_root(most[likely], linear[likely]))])


def _root(most: Float32Array, linear: Float32Array) -> Float32Array:
    """The solution r of 2 r^2 + l r = a, for a / l and l."""
    return np.asarray(2 * most / (1 + np.sqrt(1 + 8 * (most / linear))), np.float32)


@functools.lru_cache(maxsize=1)
def _num_pairs(dim: int) -> Float32Array:
    """The number of pairs at each lag, then around each middle, of shape (3 dim - 4,)."""
    ends = np.arange(1, 2 * dim - 2)  # sums of the two indices of a pair
    nearer = np.minimum(ends, 2 * dim - 2 - ends)
    around = nearer // 2 + nearer % 2
    num_pairs: Float32Array = np.append(np.arange(dim - 1, 0, -1), around).astype(np.float32)
    return num_pairs


def _products(vector: Float32Array) -> Float32Array:
    """Sums of products of coordinates: at every lag from 1, then around every middle.

    Around a middle each pair counts once, and the coordinate in it not at all.
    """
    from scipy import fft  # here, for it takes a fifth of a second that an estimate needs not

    dim = len(vector)
    size = fft.next_fast_len(2 * dim, real=True)  # so that no lag wraps around
    spectrum = fft.rfft(vector, size)
    by_lag = fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[1:dim]
    around = fft.irfft(spectrum * spectrum, size)[1 : 2 * dim - 2]
    around[1::2] -= np.square(vector[1:-1])
    products: Float32Array = np.concatenate([by_lag, around / 2])
    return products
