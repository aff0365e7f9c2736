"""Distributions of a canary's score: Gaussian, and the cosine of a random direction.

Tails and quantiles are accurate in log space on both sides. `ExactCosine` is the null distribution
of a Gaussian canary's cosine in any dimension; the Gaussian is its limit.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_dim


class Distribution(Protocol):
    """A distribution on the real line whose tails are accurate in log space."""

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x)."""

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x)."""

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p, accurate for small p."""

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p, accurate for small p."""

    def reflected(self) -> "Distribution":
        """The distribution of -X."""


@dataclass(frozen=True)
class Gaussian:
    """The normal distribution N(mean, std^2); with std 0, all mass is at the mean.

    Raises:
      ValueError: Mean or std is not finite, or std is negative.

    >>> bool(Gaussian(0.0, 1.0).logsf(50.0) < -1250)
    True
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean):
            raise ValueError(f"mean must be finite, got {self.mean}")
        if not (math.isfinite(self.std) and self.std >= 0):
            raise ValueError(f"std must be finite and at least 0, got {self.std}")

    @classmethod
    def fitted_to(cls, values: npt.ArrayLike) -> "Gaussian":
        """The Gaussian with the values' mean and population standard deviation (ddof=0).

        Equal values give std exactly 0, which rounding in the mean would otherwise hide.

        Raises:
          ValueError: There are no values.
        """
        sample = np.asarray(values, dtype=np.float64)
        if sample.size == 0:
            raise ValueError("values must hold at least one value, got none")
        if np.ptp(sample) == 0:
            return cls(float(sample[0]), 0.0)
        scaled, unit = scaled_to_one(sample)
        return cls(float(np.mean(scaled)) * unit, float(np.std(scaled)) * unit)

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        distance = self.mean - np.asarray(x, dtype=np.float64)
        if self.std == 0:
            return np.where(distance >= 0, 0.0, -np.inf)
        return np.asarray(special.log_ndtr(distance / self.std))

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self.reflected().logsf(-np.asarray(x, dtype=np.float64))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p."""
        return np.asarray(self.mean - self.std * special.ndtri(p))

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p."""
        return np.asarray(self.mean + self.std * special.ndtri(p))

    def reflected(self) -> "Gaussian":
        """The distribution of -X."""
        return Gaussian(-self.mean, self.std)


def scaled_to_one(values: FloatArray) -> tuple[FloatArray, float]:
    """Values in units of a power of two, the largest about 1, so that no square overflows."""
    exponent = int(np.frexp(np.max(np.abs(values)))[1]) - 1
    return np.ldexp(values, -exponent), math.ldexp(1.0, exponent)


# The two sides of the cosine's distribution in log space, for any dimension.
#
# With b = (dim - 1) / 2 the density of the cosine X of a random direction is C (1 - x^2)^(b - 1), C
# = Gamma(b + 1/2) / (sqrt(pi) Gamma(b)). Two forms cover [0, 1], neither of which subtracts:
#
# - near 0 the mass P(0 <= X <= x) = C x (1 - x^2)^b F(b + 1/2, 1; 3/2; x^2), a series of positive
#   terms (DLMF 8.17.8 for cos^2 ~ Beta(1/2, b));
# - away from it P(X >= x) = I_w(b, b) with w = (1 - x) / 2, for (1 + X) / 2 ~ Beta(b, b), by the
#   continued fraction of Didonato & Morris (1992), "Significant digit computation of the incomplete
#   beta function ratios", ACM TOMS 18, their BFRAC. For large b it becomes Laplace's fraction for
#   the Gaussian tail. DLMF 8.17.22 for cos^2 would cancel there: at dim 1e9, half of the digits.


_SWITCH_STANDARD = 3.0
_SWITCH_COSINE = 0.5
"""The series is used up to so many standard deviations and this cosine, the fraction beyond."""

_SERIES_TERMS = 50
_FRACTION_TERMS = 40
"""Number of terms that truncates less than 1e-13 of the value at the switch, in any dimension."""

_RATIO_TERMS = (1 / 64, -5 / 2048, 61 / 49152, -1385 / 1048576)
_RATIO_SERIES_FROM = 16.0
"""From this b on, the next term is below rounding."""


def switch_point(dim: int) -> float:
    """The cosine up to which `central_mass` is used, and `log_tail` from there on."""
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
    """P(0 <= X <= x) for x in [0, switch_point], to full relative precision."""
    b = (dim - 1) / 2
    square = x * x
    series = np.ones_like(x)
    for n in range(_SERIES_TERMS, 0, -1):
        series *= square * ((b + n - 0.5) / (n + 0.5))
        series += 1
    return np.asarray(np.exp(log_peak(dim) + b * np.log1p(-square)) * x * series)


def log_outside(x: FloatArray) -> FloatArray:
    """Log(1 - x^2) for x in [0, 1], to full relative precision at both ends."""
    with np.errstate(divide="ignore"):
        return np.where(x < 0.5, np.log1p(-x * x), np.log(1 - x) + np.log1p(x))


def log_tail(x: FloatArray, log_rest: FloatArray, dim: int) -> FloatArray:
    """Log P(X >= x) from `switch_point` on; log_rest = log(1 - x^2) separates cosines near 1."""
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


# Quantiles of the cosine's distribution, by Newton's method in log space.


_CLOSE = 1e-9
"""A Newton step this small, relative to the point, leaves an error below rounding."""

_MOST_STEPS = 30


def upper_quantile(p: FloatArray, dim: int) -> FloatArray:
    """The x >= 0 with P(X >= x) = p, for p in [0, 1/2].

    The unknown is s = sqrt(-log(1 - x^2)), in which the distribution is nearly Gaussian (Wallace
    1959, "Bounds on normal approximations to Student's and the chi-square distributions", gives the
    start) and which distinguishes cosines that round to 1. In s the log of the tail is nearly a
    parabola. Below the switch the mass from 0 is solved for instead, as its digits are those of x.
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


EXACT_COSINE_BELOW = 1000
"""From this dimension on the closed-form null is N(0, 1/dim) instead of the exact distribution."""


@dataclass(frozen=True)
class ExactCosine:
    """The cosine of a uniformly random direction with a fixed one, in dimension `dim`.

    Density proportional to (1 - x^2)^((dim - 3) / 2) on [-1, 1] (Andrew et al. 2023, section 4), so
    that X^2 ~ Beta(1/2, (dim - 1) / 2) and (1 + X) / 2 ~ Beta((dim - 1) / 2, (dim - 1) / 2).

    Log probabilities and quantiles are exact to about 1e-14 relative, from 0 to the ends of the
    range and in every dimension. The limit N(0, 1/dim) has heavier tails: far out by a factor of
    about exp(dim x^4 / 4).

    Attributes:
      dim: Dimension of the space, 2 to 2^53; InputError if out of range.

    >>> round(float(np.exp(ExactCosine(3).logsf(0.5))), 12)  # Archimedes: uniform on [-1, 1]
    0.25
    >>> float(ExactCosine(10**9).logsf(40 / math.sqrt(10**9)).round(9))  # 40 stddevs out
    -804.609081213
    """

    dim: int

    def __post_init__(self) -> None:
        check_dim(self.dim)

    @property
    def mean(self) -> float:
        """0, by symmetry."""
        return 0.0

    @property
    def std(self) -> float:
        """The standard deviation of the cosine, exactly dim^(-1/2)."""
        return 1 / math.sqrt(self.dim)

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        x = np.clip(np.asarray(x, dtype=np.float64), -1.0, 1.0)
        size = np.abs(x)
        central = size <= switch_point(self.dim)
        log_p = np.empty_like(x)
        log_p[central] = np.log(
            0.5 - np.copysign(central_mass(size[central], self.dim), x[central])
        )
        far, positive = size[~central], x[~central] > 0
        upper = log_tail(far, log_outside(far), self.dim)
        log_p[~central] = np.where(positive, upper, np.log1p(-np.exp(upper)))
        return log_p

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self.logsf(-np.asarray(x, dtype=np.float64))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p, for p in [0, 1]; accurate for small p and near 1/2."""
        p = np.asarray(p, dtype=np.float64)
        return np.copysign(upper_quantile(np.minimum(p, 1 - p), self.dim), 0.5 - p)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p, for p in [0, 1]; accurate for small p and near 1/2."""
        return -self.isf(p)

    def reflected(self) -> "ExactCosine":
        """The distribution of -X, which is the same."""
        return self


def closed_form_null(dim: int) -> Gaussian | ExactCosine:
    """The null distribution of a canary's cosine (Andrew et al. 2023, section 4).

    The exact distribution below dimension EXACT_COSINE_BELOW and, as in the paper, its Gaussian
    limit from there on. ExactCosine itself serves any dimension.

    Raises:
      ValueError: dim is below 2.

    >>> closed_form_null(10_000)
    Gaussian(mean=0.0, std=0.01)
    """
    return ExactCosine(dim) if dim < EXACT_COSINE_BELOW else Gaussian(0.0, dim**-0.5)
