"""Upper bounds on tail probabilities of correct noise, in closed form and as logarithms.

A round's aggregate is x = s + g: a sum s of clipped updates, of which only the largest possible
norm is known, and noise g ~ N(0, stddev^2 I). The bounds hold for every s that is chosen
before g is drawn: they are p-values for "the noise is as configured". `detectable_noise` is the
deficit of noise that these bounds detect.

The last part finds noise that one aggregate contains twice: repeated, negated or reversed.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray


def log_p_shorter(squared_length: FloatArray, dof: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is at most this long.

    The squared norm |s + g|^2 / stddev^2 is noncentral chi-square, which is stochastically larger
    than chi-square X. Chernoff's bound for X, with q < 1: P(X <= q d) <= (q e^(1 - q))^(d / 2).
    """
    share = np.minimum(squared_length / dof, 1.0)
    missing = share - 1
    with np.errstate(divide="ignore"):
        # log1p is accurate for a share near 1, log for a tiny one, as a single coordinate may have.
        log_share = np.where(share < 0.5, np.log(share), np.log1p(missing))
    return np.asarray(np.minimum(dof / 2 * (log_share - missing), 0))


def log_p_longer(squared_length: FloatArray, dof: FloatArray, norm_bound: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is at least this long.

    A noncentral chi-square X with d degrees of freedom and noncentrality B increases stochastically
    in B, and P(X >= d + B + 2 sqrt((d + 2 B) y) + 2 y) <= e^-y (Birgé 2001, "An alternative point
    of view on Lepski's method", lemma 8.1).

    The squared norm is in units of the variance of a coordinate's noise, and the norm bound of s
    in units of its standard deviation.
    """
    noncentrality = square(norm_bound)
    above = _excess(squared_length, dof + noncentrality)
    linear = np.asarray(2 * np.sqrt(dof + 2 * noncentrality))
    return -(_root(linear, above) ** 2)


def log_p_autocorrelation(
    product: FloatArray, num_pairs: FloatArray, norm_bound: float
) -> FloatArray:
    """A bound on the log probability of a sum of products this large, of either sign, at a lag.

    The sum of x_i x_(i + lag) is at most |s|^2, plus N(0, 4 |s|^2 stddev^2) or less, plus a
    quadratic form of the noise with Frobenius norm sqrt(pairs / 2) and eigenvalues up to 1, for
    which Laurent and Massart 2000 (lemma 1) give 2 sqrt(pairs y / 2) + 2 y up to probability e^-y.

    The product is in units of the variance of a coordinate's noise, and the norm bound of s in
    units of its standard deviation.
    """
    above = _excess(np.abs(product), square(np.asarray(norm_bound)))
    linear = np.asarray(np.sqrt(8.0) * norm_bound + np.sqrt(2 * num_pairs))
    root = _root(linear, above)
    # The factor 4 is for two terms and two signs.
    return np.asarray(np.minimum(np.log(4) - root**2, 0))


def square(norm: FloatArray) -> FloatArray:
    """The square; infinite beyond the range of floats, as under almost no noise."""
    with np.errstate(over="ignore"):
        return np.asarray(norm * norm)


def _excess(value: FloatArray, bound: FloatArray) -> FloatArray:
    """The part of a value above a bound, at least 0; 0 for an infinite bound."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(bound), 0.0, np.maximum(value - bound, 0.0))


def _root(linear: FloatArray, value: FloatArray) -> FloatArray:
    """The solution r >= 0 of 2 r^2 + linear r = value."""
    # This form avoids the difference of two nearly equal numbers.
    root = 2 * value / (linear + np.hypot(linear, np.sqrt(8 * np.minimum(value, 1e300))))
    return np.asarray(np.where(np.isinf(value), np.inf, root))


QUANTILE = 1.6449
"""The standard normal quantile at 0.95, to the digits with which ratios were recorded."""


def detectable_noise(
    lengths: FloatArray, dof: FloatArray, allowed: float, log_level: float
) -> float | None:
    """The smallest detectable noise deficit, as a ratio of actual to configured noise.

    Under noise r times the configured one, a squared norm is approximated by a normal variable with
    mean r^2 dof plus the squared norm of the updates, which is estimated by the measured squared
    norm less dof.

    Args:
      lengths: Squared norms over the noise's variance, of any shape; NaN is not tested.
      dof: The number of dimensions of the noise, of the same shape.
      allowed: The ratio of actual to configured variance down to which noise is correct.
      log_level: The logarithm of the level of all tests together.

    Returns:
      The largest ratio that fails one test with probability about 0.95; 0 if even no noise would
      pass, None without tests.
    """
    tested = ~np.isnan(lengths)
    if not tested.any():
        return None
    lengths, dof = lengths[tested], dof[tested]
    of_updates = np.maximum(lengths - dof, 0)
    failing = dof * allowed * _shortest_share(dof, log_level - math.log(len(dof)))
    low, high = np.zeros(len(dof)), np.ones(len(dof))
    for _ in range(30):
        noise = (low + high) / 2
        spread = np.sqrt(2 * dof * noise**4 + 4 * of_updates * noise**2)
        is_detected = of_updates + dof * noise**2 + QUANTILE * spread <= failing
        low, high = np.where(is_detected, noise, low), np.where(is_detected, high, noise)
    return float(low.max())


def _shortest_share(dof: FloatArray, log_p: float) -> FloatArray:
    """The squared norm over dof, between 0 and 1, with a given `log_p_shorter`."""
    low, high = np.full(len(dof), -800.0), np.zeros(len(dof))  # bounds on its logarithm
    for _ in range(60):
        middle = (low + high) / 2
        is_less_likely = log_p_shorter(dof * np.exp(middle), dof) < log_p
        low, high = np.where(is_less_likely, middle, low), np.where(is_less_likely, high, middle)
    return np.asarray(np.exp(low))


MOST_COORDINATES = 1 << 25
"""The largest tested model, in coordinates: the transform needs 24 bytes for each."""

EVERY_ROUND = 1 << 20
"""Up to this size of a model every round is tested; for larger ones rounds 1, 2, 4, 8 and so on."""


@dataclass(frozen=True)
class Autocorrelation:
    """The strongest autocorrelation of an aggregate."""

    correlation: float  # the mean product of the correlated pairs over the noise's variance
    # the logarithm of a bound on the probability of a mean product this large, of either sign, at
    # any lag or under any reversal
    log_p: float
    lag: int  # the lag of the pairs, at least 1; 0 for a reversal


def strongest_autocorrelation(
    aggregate: Float32Array, stddev: float, norm_bound: float
) -> Autocorrelation | None:
    """The least likely autocorrelation of all lags and reversals, by Fourier transforms.

    None for a model of one coordinate, of more than `MOST_COORDINATES`, or if float32 overflows.
    """
    dim = len(aggregate)
    if not 1 < dim <= MOST_COORDINATES:
        return None
    # In units of the noise, so that float32's range suffices for any clip norm. Products overflow
    # only after a broken clip, which another check finds, or with negligible noise.
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
    """The index of the least `log_p_autocorrelation`; of the largest product if all are likely.

    The root r of 2 r^2 + l r = a in that bound is at most a / l, so only entries with a / l above
    a known root can have a larger root.
    """
    sizes = np.abs(products)
    with np.errstate(invalid="ignore", over="ignore"):
        linear = np.sqrt(2 * _num_pairs((len(products) + 4) // 3))
        linear += np.float32(math.sqrt(8) * norm_bound)
        most = (sizes - np.float32(norm_bound) ** 2) / linear
    first = int(np.argmax(most))
    if not most[first] > 0:
        return int(np.argmax(sizes))
    likely = np.flatnonzero(most >= _least_root(most[first], linear[first]))
    return int(likely[np.argmax(_least_root(most[likely], linear[likely]))])


def _least_root(most: Float32Array, linear: Float32Array) -> Float32Array:
    """The solution r of 2 r^2 + l r = a, from `most` = a / l and `linear` = l."""
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

    Around a middle each pair counts once, and a coordinate in the middle does not count.
    """
    from scipy import fft  # imported here because it takes a fifth of a second

    dim = len(vector)
    size = fft.next_fast_len(2 * dim, real=True)  # so that no lag wraps around
    spectrum = fft.rfft(vector, size)
    by_lag = fft.irfft(spectrum.real**2 + spectrum.imag**2, size)[1:dim]
    around = fft.irfft(spectrum * spectrum, size)[1 : 2 * dim - 2]
    around[1::2] -= np.square(vector[1:-1])
    products: Float32Array = np.concatenate([by_lag, around / 2])
    return products
