"""The two sides of the cosine's law in log space, for any dimension.

With b = (dim - 1) / 2 the density of the cosine X of a random direction is C (1 - x^2)^(b - 1),
C = Gamma(b + 1/2) / (sqrt(pi) Gamma(b)). Two forms cover [0, 1], neither of which subtracts:

- near 0 the mass P(0 <= X <= x) = C x (1 - x^2)^b F(b + 1/2, 1; 3/2; x^2), a series of positive
  terms (DLMF 8.17.8 for cos^2 ~ Beta(1/2, b));
- away from it P(X >= x) = I_w(b, b) with w = (1 - x) / 2, for (1 + X) / 2 ~ Beta(b, b), by the
  continued fraction of Didonato & Morris (1992), "Significant digit computation of the incomplete
  beta function ratios", ACM TOMS 18, their BFRAC. For large b it becomes Laplace's fraction for
  the Gaussian tail. DLMF 8.17.22 for cos^2 would cancel there: at dim 1e9, half of the digits.
"""

import math

import numpy as np

from fl_audit.array_types import FloatArray

_SWITCH_STANDARD = 3.0
_SWITCH_COSINE = 0.5
"""The series is used up to so many deviations and up to this cosine, the fraction beyond."""

_SERIES_TERMS = 50
_FRACTION_TERMS = 40
"""Number of terms that cuts off less than 1e-13 of the value at the switch, in any dimension."""

_RATIO_TERMS = (1 / 64, -5 / 2048, 61 / 49152, -1385 / 1048576)
_RATIO_SERIES_FROM = 16.0
"""From this b on, the next term is below rounding."""


def switch_point(dim: int) -> float:
    """The cosine up to which `central_mass` is to be used, and from which on `log_tail` is."""
    return min(_SWITCH_COSINE, _SWITCH_STANDARD / math.sqrt(dim))


def log_peak(dim: int) -> float:
    """Log C, with C the density's factor Gamma(b + 1/2) / (sqrt(pi) Gamma(b)).

    >>> round(math.exp(log_peak(3)), 12)  # uniform on [-1, 1]
    0.5
    """
    b = (dim - 1) / 2
    if b < _RATIO_SERIES_FROM:
        log_gammas = math.lgamma(b + 0.5) - math.lgamma(b)
    else:
        # The difference would cancel. DLMF 5.11.8 about b - 1/4, where odd powers vanish.
        centre = b - 0.25
        terms = (c * centre ** (-2 * k) for k, c in enumerate(_RATIO_TERMS, start=1))
        log_gammas = 0.5 * math.log(centre) + sum(terms)
    return log_gammas - 0.5 * math.log(math.pi)


def central_mass(x: FloatArray, dim: int) -> FloatArray:
    """P(0 <= X <= x) for x in [0, switch_point] of shape (n,), to full relative precision."""
    b = (dim - 1) / 2
    square = x * x
    series = np.ones_like(x)
    for n in range(_SERIES_TERMS, 0, -1):
        series *= square * ((b + n - 0.5) / (n + 0.5))
        series += 1
    return np.asarray(np.exp(log_peak(dim) + b * np.log1p(-square)) * x * series)


def log_outside(x: FloatArray) -> FloatArray:
    """Log(1 - x^2) for x in [0, 1] of shape (n,), to full relative precision at both ends."""
    with np.errstate(divide="ignore"):
        return np.where(x < 0.5, np.log1p(-x * x), np.log(1 - x) + np.log1p(x))


def log_tail(x: FloatArray, log_rest: FloatArray, dim: int) -> FloatArray:
    """Log P(X >= x) for x in [switch_point, 1] of shape (n,).

    Args:
      x: The cosines, float64 of shape (n,).
      log_rest: Log(1 - x^2), float64 of shape (n,), which tells apart cosines that round to 1.
      dim: Dimension of the space, at least 2.
    """
    b = (dim - 1) / 2
    w = np.where(x < 0.5, (1 - x) / 2, np.exp(log_rest) / (2 * (1 + x)))
    square = w * w
    fraction = _denominator(_FRACTION_TERMS, b, x)
    for n in range(_FRACTION_TERMS, 0, -1):
        numerator = (b + n - 1) * (2 * b + n - 1) / (b + 2 * n - 1) ** 2 * n * (b - n)
        fraction = _denominator(n - 1, b, x) + numerator * square / fraction
    return np.asarray(b * log_rest + (log_peak(dim) - math.log(2)) - np.log(fraction))


def _denominator(n: int, b: float, x: FloatArray) -> FloatArray:
    """The n-th partial denominator, beta_(n + 1), with both shapes b and lambda = b x."""
    falling = n * (b - n) / (2 * (b + 2 * n - 1)) if n else 0.0
    rising = (b + n) / (b + 2 * n + 1)
    constant = n + falling + rising * (1 + 1.5 * n)
    return np.asarray(constant + (rising * (b + n / 2) - falling) * x)
