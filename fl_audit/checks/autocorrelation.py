"""Noise that comes twice within one aggregate: again, negated, or in reversed order."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
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
    aggregate: npt.NDArray[np.float32], stddev: float, norm_bound: float
) -> Autocorrelation | None:
    """The strongest of all lags and reversals, which the Fourier transform computes together.

    Args:
      aggregate: The aggregate, of shape (dim,).
      stddev: The standard deviation of the noise on a coordinate, positive.
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
    ends = np.arange(1, 2 * dim - 2)  # sums of the two indices of a pair
    reflected = np.minimum(ends, 2 * dim - 2 - ends) // 2 + np.minimum(ends % 2, 1)
    num_pairs = np.concatenate([dim - np.arange(1, dim), reflected]).astype(np.float64)
    log_p = log_p_autocorrelation(products, num_pairs, norm_bound / stddev)
    at = int(np.argmax(np.where(log_p == log_p.min(), np.abs(products), -1)))
    return Autocorrelation(
        correlation=float(products[at] / num_pairs[at]),
        log_p=min(0.0, float(log_p[at]) + math.log(len(products))),
        lag=at + 1 if at < dim - 1 else 0,
    )


def _products(vector: npt.NDArray[np.float32]) -> FloatArray:
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
    return np.asarray(np.concatenate([by_lag, around / 2]), np.float64)
