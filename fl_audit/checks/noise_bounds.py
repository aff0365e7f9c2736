"""Upper bounds on tail probabilities of correct noise, in closed form and as logarithms.

A round's aggregate is x = s + g: a sum s of clipped updates, of which only the largest possible
norm is known, and noise g ~ N(0, stddev^2 I). The bounds hold for every s that is chosen
before g is drawn: they are p-values for "the noise is as configured". `detectable_noise` is the
deficit of noise that they detect.
"""

import math

import numpy as np

from fl_audit.array_types import FloatArray


def log_p_shorter(squared_length: FloatArray, dof: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as short as this, or shorter.

    The squared length |s + g|^2 / stddev^2 is noncentral chi-square, which is stochastically larger
    than chi-square. Chernoff's bound for that, with q < 1: P(X <= q d) <= (q e^(1 - q))^(d / 2).
    """
    share = np.minimum(squared_length / dof, 1.0)
    missing = share - 1
    with np.errstate(divide="ignore"):
        # log1p has the digits where a share is near 1, log where it is tiny, as that of a single
        # coordinate may be.
        log_share = np.where(share < 0.5, np.log(share), np.log1p(missing))
    return np.asarray(np.minimum(dof / 2 * (log_share - missing), 0))


def log_p_longer(squared_length: FloatArray, dof: FloatArray, norm_bound: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as long as this, or longer.

    The source is Birgé 2001 ("An alternative point of view on Lepski's method", lemma 8.1) for the
    noncentral chi-square X of d degrees and noncentrality B, which is stochastically increasing in
    B: P(X >= d + B + 2 sqrt((d + 2 B) y) + 2 y) <= e^-y.

    The squared length is over the variance of a coordinate's noise, and the norm bound of s over
    its standard deviation.
    """
    noncentrality = square(norm_bound)
    above = _excess(squared_length, dof + noncentrality)
    linear = np.asarray(2 * np.sqrt(dof + 2 * noncentrality))
    return -(_root(2.0, linear, above) ** 2)


def log_p_autocorrelation(
    product: FloatArray, num_pairs: FloatArray, norm_bound: float
) -> FloatArray:
    """A bound on the log probability of so large a sum of products at a lag, of either sign.

    The sum of x_i x_(i + lag) is at most |s|^2, plus N(0, 4 |s|^2 stddev^2) or less, plus a
    quadratic form of the noise with Frobenius norm sqrt(pairs / 2) and eigenvalues up to 1, for
    which Laurent and Massart 2000 (lemma 1) give 2 sqrt(pairs / 2 y) + 2 y up to probability e^-y.

    The product is over the variance of a coordinate's noise, and the norm bound of s over its
    standard deviation.
    """
    above = _excess(np.abs(product), square(np.asarray(norm_bound)))
    linear = np.asarray(np.sqrt(8.0) * norm_bound + np.sqrt(2 * num_pairs))
    root = _root(2.0, linear, above)
    # The factor 4 is two parts times two signs.
    return np.asarray(np.minimum(np.log(4) - root**2, 0))


def square(norm: FloatArray) -> FloatArray:
    """The square; infinite beyond the range of floats, as under almost no noise."""
    with np.errstate(over="ignore"):
        return np.asarray(norm * norm)


def _excess(value: FloatArray, bound: FloatArray) -> FloatArray:
    """The part of a value above a bound, at least 0; 0 for an infinite bound."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(bound), 0.0, np.maximum(value - bound, 0.0))


def _root(quadratic: float, linear: FloatArray, value: FloatArray) -> FloatArray:
    """The solution r >= 0 of quadratic r^2 + linear r = value."""
    # This form avoids the difference of two nearly equal numbers.
    root = (
        2 * value / (linear + np.hypot(linear, np.sqrt(4 * quadratic * np.minimum(value, 1e300))))
    )
    return np.asarray(np.where(np.isinf(value), np.inf, root))


_QUANTILE = 1.6449
"""The standard deviations by which a normal variable exceeds its mean with probability 0.05."""


def detectable_noise(
    lengths: FloatArray, dof: FloatArray, allowed: float, log_level: float
) -> float | None:
    """Smallest detectable noise deficit, as a ratio.

    With noise r times as large, a squared length is about that of the updates (the measured one
    less that of the noise) plus r^2 dof; it is approximated by a normal distribution.

    Args:
      lengths: Squared lengths over the noise's variance, of any shape; NaN is not tested.
      dof: The number of dimensions of the noise, of the same shape.

    Returns:
      The noise that fails one test with a probability of about 0.95; 0 if even no noise would pass,
      None without tests.
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
        is_detected = of_updates + dof * noise**2 + _QUANTILE * spread <= failing
        low, high = np.where(is_detected, noise, low), np.where(is_detected, high, noise)
    return float(low.max())


def _shortest_share(dof: FloatArray, log_p: float) -> FloatArray:
    """The squared length over dof at which `log_p_shorter` is this, between 0 and 1."""
    low, high = np.full(len(dof), -800.0), np.zeros(len(dof))  # of its logarithm
    for _ in range(60):
        middle = (low + high) / 2
        is_less_likely = log_p_shorter(dof * np.exp(middle), dof) < log_p
        low, high = np.where(is_less_likely, middle, low), np.where(is_less_likely, high, middle)
    return np.asarray(np.exp(low))
