"""Upper bounds on tail probabilities of correct noise, in closed form and as logarithms.

A round's aggregate is x = s + g: a sum s of clipped updates, of which only the largest possible
length is known, and noise g ~ N(0, stddev^2 I). The bounds hold for every s that is chosen before g
is drawn: they are p-values for "the noise is as configured".
"""

import numpy as np

from fl_audit.array_types import FloatArray


def log_p_shorter(squared_length: FloatArray, dof: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as short as this, or shorter.

    |s + g|^2 / stddev^2 is noncentral chi-square, which is stochastically larger than chi-square.
    Chernoff's bound for that: P(X <= q d) <= (q e^(1 - q))^(d / 2) for q < 1.

    Args:
      squared_length: The squared length, over the variance of a coordinate's noise.
      dof: The number of dimensions that the noise has there, at least 1.

    Returns:
      Logarithms, at most 0; -inf for length 0.
    """
    excess = squared_length / dof - 1
    with np.errstate(divide="ignore"):
        chernoff = dof / 2 * (np.log1p(np.minimum(excess, 0)) - np.minimum(excess, 0))
    return np.asarray(np.minimum(chernoff, 0))


def log_p_longer(squared_length: FloatArray, dof: FloatArray, norm_bound: FloatArray) -> FloatArray:
    """A bound on the log probability that a vector with noise is as long as this, or longer.

    The source is Birgé 2001 ("An alternative point of view on Lepski's method", lemma 8.1) for the
    noncentral chi-square X of d degrees and noncentrality B, which is stochastically increasing in
    B: P(X >= d + B + 2 sqrt((d + 2 B) y) + 2 y) <= e^-y.

    Args:
      squared_length: The squared length, over the variance of a coordinate's noise.
      dof: The number of dimensions, at least 1.
      norm_bound: The largest norm that s can have, over the noise's standard deviation.

    Returns:
      Logarithms, at most 0.
    """
    noncentrality = norm_bound**2
    above = np.maximum(squared_length - dof - noncentrality, 0)
    linear = np.asarray(2 * np.sqrt(dof + 2 * noncentrality))
    return -(_root(2.0, linear, above) ** 2)


def log_p_autocorrelation(
    product: FloatArray, num_pairs: FloatArray, norm_bound: float
) -> FloatArray:
    """A bound on the log probability of so large a sum of products at a lag, of either sign.

    The sum of x_i x_(i + lag) is at most |s|^2, plus N(0, 4 |s|^2 stddev^2) or less, plus a
    quadratic form of the noise with Frobenius norm sqrt(pairs / 2) and eigenvalues up to 1, for
    which Laurent and Massart 2000 (lemma 1) give 2 sqrt(pairs / 2 y) + 2 y but for e^-y.

    Args:
      product: The sum of products of coordinates a lag apart, over the variance of a coordinate's
        noise.
      num_pairs: The number of pairs of coordinates that lie so far apart, at least 1.
      norm_bound: The largest norm that s can have, over the noise's standard deviation.

    Returns:
      Logarithms, at most 0.
    """
    above = np.maximum(np.abs(product) - norm_bound**2, 0)
    linear = np.asarray(np.sqrt(8.0) * norm_bound + np.sqrt(2 * num_pairs))
    root = _root(2.0, linear, above)
    # The factor 4 stands for two parts times two signs.
    return np.asarray(np.minimum(np.log(4) - root**2, 0))


def _root(quadratic: float, linear: FloatArray, value: FloatArray) -> FloatArray:
    """The solution r >= 0 of quadratic r^2 + linear r = value."""
    # This form avoids the difference of two nearly equal numbers.
    root = 2 * value / (linear + np.sqrt(linear**2 + 4 * quadratic * np.minimum(value, 1e300)))
    return np.asarray(np.where(np.isinf(value), np.inf, root))
