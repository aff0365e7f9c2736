"""Noise that repeats within one aggregate, found as the strongest autocorrelation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.checks.noise_bounds import log_p_autocorrelation
from fl_audit.formats.text_files import read_json

MOST_COORDINATES = 1 << 25
"""The largest model that is tested, in coordinates: the transform takes 24 bytes for each."""


@dataclass(frozen=True)
class Autocorrelation:
    """The lag at which an aggregate is most like itself.

    Attributes:
      lag: The distance in coordinates, at least 1.
      product: The sum of the products of all pairs of coordinates at this distance.
      num_pairs: The number of these pairs.
      num_lags: The number of lags of which this one is the strongest.
    """

    lag: int
    product: float
    num_pairs: int
    num_lags: int


def strongest_autocorrelation(
    aggregate: npt.NDArray[np.float32], stddev: float, norm_bound: float
) -> Autocorrelation | None:
    """The strongest of all lags, which the Fourier transform computes together.

    Args:
      aggregate: The aggregate, of shape (dim,).
      stddev: The standard deviation of the noise on a coordinate, positive.
      norm_bound: The largest norm of the aggregate without noise.

    Returns:
      The lag whose correlation is the least likely by chance; None for a model of one coordinate,
      or of more than `MOST_COORDINATES`.
    """
    dim = len(aggregate)
    if not 1 < dim <= MOST_COORDINATES:
        return None
    # In units of the noise, which keeps float32's range whatever the clip norm is. A length that
    # only a broken clip leaves may still overflow, which another check finds; so may any length
    # over noise of next to nothing.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        products = _products_by_lag(aggregate / np.float32(stddev))
    if not np.isfinite(products).all():
        return None
    num_pairs = dim - np.arange(1, dim, dtype=np.float64)
    log_p = log_p_autocorrelation(products, num_pairs, norm_bound / stddev)
    at = int(np.argmax(np.where(log_p == log_p.min(), np.abs(products), -1)))
    return Autocorrelation(
        lag=at + 1,
        product=float(products[at] * stddev**2),
        num_pairs=dim - 1 - at,
        num_lags=dim - 1,
    )


def _products_by_lag(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The sums of products of coordinates at a lag, for every lag from 1."""
    from scipy import fft  # here, for it takes a fifth of a second that an estimate needs not

    size = fft.next_fast_len(2 * len(vector), real=True)  # so that no lag wraps around
    spectrum = fft.rfft(vector, size)
    products = fft.irfft(spectrum.real**2 + spectrum.imag**2, size)
    return np.asarray(products[1 : len(vector)], np.float64)


def autocorrelation_to_json(autocorrelation: Autocorrelation | None) -> str:
    """An autocorrelation as a line of JSON, `null` for none."""
    return msgspec.json.encode(autocorrelation).decode() + "\n"


def read_autocorrelation(path: Path) -> Autocorrelation | None:
    """Reads the line of `autocorrelation_to_json`; raises InputError if it is damaged."""
    kind: Any = Autocorrelation | None
    autocorrelation = read_json(path, kind, "an autocorrelation")
    return autocorrelation if isinstance(autocorrelation, Autocorrelation) else None
