"""Distributions of a canary's score: Gaussian, and the cosine of a random direction.

Log tails and quantiles are accurate on both sides. `ExactCosine` is the null distribution of a
Gaussian canary's cosine in any dimension; the Gaussian is its limit. `beta_cdf` and `beta_quantile`
serve bounds on binomial error rates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.estimators.scores import check_dim


def supremum(holds: Callable[[float], bool]) -> float:
    """The supremum of the numbers >= 0 for which `holds` is true, to the last bit.

    `holds` has to be true up to some number and false from there on. Returns 0 if it is false at 0,
    and infinity if it is true for every finite number.

    >>> supremum(lambda x: x < 3.5)
    3.5
    """
    if not holds(0.0):
        return 0.0
    below, above = 0.0, 1.0
    while holds(above):
        below, above = above, above * 2
        if math.isinf(above):
            return math.inf
    while below < (middle := below + (above - below) / 2) < above:
        if holds(middle):
            below = middle
        else:
            above = middle
    return above


def narrowed(
    holds: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray, halvings: int
) -> tuple[FloatArray, FloatArray]:
    """Bisects intervals, elementwise; in each, the condition holds up to some point.

    >>> low, high = narrowed(lambda x: x < 0.3, np.zeros(1), np.ones(1), 2)
    >>> low.tolist(), high.tolist()
    ([0.25], [0.5])
    """
    for _ in range(halvings):
        middle = (low + high) / 2
        still = holds(middle)
        low, high = np.where(still, middle, low), np.where(still, high, middle)
    return low, high


def first_integers(
    holds: Callable[[IntArray], BoolArray], low: IntArray, high: IntArray
) -> IntArray:
    """The integers from `low` on at which a condition starts to hold, elementwise; else `high`."""
    while np.any(low < high):
        middle = (low + high) // 2
        found = holds(middle)
        low = np.where(found, low, np.minimum(middle + 1, high))
        high = np.where(found, middle, high)
    return np.asarray(low)


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
    """The values in units of a power of two, the largest about 1, and that unit.

    In these units no square overflows.
    """
    exponent = int(np.frexp(np.max(np.abs(values)))[1]) - 1
    return np.ldexp(values, -exponent), math.ldexp(1.0, exponent)


# The two sides of the cosine's distribution in log space, for any dimension.
#
# With b = (dim - 1) / 2 the density of the cosine X of a random direction is C (1 - x^2)^(b - 1), C
# = Gamma(b + 1/2) / (sqrt(pi) Gamma(b)). Two forms without subtraction cover [0, 1]:
#
# - near 0 the mass P(0 <= X <= x) = C x (1 - x^2)^b F(b + 1/2, 1; 3/2; x^2), a series of positive
#   terms (DLMF 8.17.8 for cos^2 ~ Beta(1/2, b));
# - away from it P(X >= x) = I_w(b, b) with w = (1 - x) / 2, for (1 + X) / 2 ~ Beta(b, b), by the
#   continued fraction of Didonato & Morris (1992), "Significant digit computation of the incomplete
#   beta function ratios", ACM TOMS 18, called BFRAC. For large b it becomes Laplace's fraction for
#   the Gaussian tail. With DLMF 8.17.22 for cos^2 half of the digits would cancel at dim 1e9.


_SWITCH_STANDARD = 3.0
_SWITCH_COSINE = 0.5
"""The series is used up to this many standard deviations or this cosine, whichever is less."""

_SERIES_TERMS = 50
_FRACTION_TERMS = 40
"""Terms of the series and of the fraction; more terms change the value at the switch by less than
1e-13, relatively.
"""

_RATIO_TERMS = (1 / 64, -5 / 2048, 61 / 49152, -1385 / 1048576)
_RATIO_SERIES_FROM = 16.0
"""Coefficients for log(Gamma(b + 1/2) / Gamma(b)), and the b from which on the next term is below
rounding.
"""


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
        # The difference would cancel: this is DLMF 5.11.8 about b - 1/4, where odd powers vanish.
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
    """Log P(X >= x) from `switch_point` on; log_rest = log(1 - x^2) tells cosines near 1 apart."""
    b = (dim - 1) / 2
    w = np.where(x < 0.5, (1 - x) / 2, np.exp(log_rest) / (2 * (1 + x)))
    square = w * w
    fraction = _denominator(_FRACTION_TERMS, b, x)
    for n in range(_FRACTION_TERMS, 0, -1):
        numerator = (b + n - 1) * (2 * b + n - 1) / (b + 2 * n - 1) ** 2 * n * (b - n)
        fraction = _denominator(n - 1, b, x) + numerator * square / fraction
    return np.asarray(b * log_rest + (log_peak(dim) - math.log(2)) - np.log(fraction))


def _denominator(n: int, b: float, x: FloatArray) -> FloatArray:
    """BFRAC's partial denominator beta_(n + 1), with both shapes b and lambda = b x."""
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

    The equation is solved for s = sqrt(-log(1 - x^2)), whose distribution is nearly Gaussian, so
    that the log of its tail is nearly a parabola, and which differs between cosines that round to
    1. The start is from Wallace (1959), "Bounds on normal approximations to Student's and the
    chi-square distributions". Below `switch_point` the equation is for P(0 <= X <= x), which is as
    accurate as x.
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
        """This distribution itself: -X is distributed like X."""
        return self


def closed_form_null(dim: int) -> Gaussian | ExactCosine:
    """The null distribution of a canary's cosine (Andrew et al. 2023, section 4).

    The exact distribution below dimension EXACT_COSINE_BELOW and, as in the paper, its Gaussian
    limit from there on. ExactCosine itself serves any dimension.

    Raises:
      InputError: dim is below 2.

    >>> closed_form_null(10_000)
    Gaussian(mean=0.0, std=0.01)
    """
    return ExactCosine(dim) if dim < EXACT_COSINE_BELOW else Gaussian(0.0, dim**-0.5)


# The beta distribution where SciPy is inaccurate: counts of millions, quantiles in tails.


_FEW = 200_000
"""Sum of the shapes up to which scipy 1.9's betainc is accurate to 3e-10."""


def beta_cdf(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    """P(Beta(a, b) <= x), to about 3e-10 absolute for shapes up to millions, 2e-5 up to 10^12.

    For large shapes scipy 1.9's betainc truncates its continued fraction near the mean: it is off
    by 4e-7 at a = b = 1e6, by 1e-3 at 5e6 and by 0.3 at 5e8. Boost's function in scipy.stats is
    accurate to 1e-8 even in the last case, but takes half a second to import.

    >>> round(float(beta_cdf(np.array(1.0), np.array(2.0), np.array(0.1))), 12)  # 1 - (1 - x)^2
    0.19
    """
    if np.max(np.add(a, b), initial=0.0) <= _FEW:
        return np.asarray(special.betainc(a, b, x))
    from scipy import stats

    with np.errstate(all="ignore"):  # Boost's own intermediate steps
        # `cdf` without its checks of the arguments, which take longer than a few hundred values.
        return np.asarray(stats.beta._cdf(x, a, b))


def rank_quantile(rank: npt.ArrayLike, n: int, p: float) -> FloatArray:
    """The p-quantile of the rank-th smallest of n uniform variables; 0 for rank 0, 1 for n + 1.

    For k successes in n trials, Clopper and Pearson's lower limit is that of rank k at the level,
    and the upper limit that of rank k + 1 at one minus the level.

    >>> rank_quantile([0, 2, 3], 2, 0.25).round(12).tolist()  # sqrt(0.25)
    [0.0, 0.5, 1.0]
    """
    rank = np.asarray(rank)
    inside = np.clip(rank, 1, n)
    quantile = special.betaincinv(inside, n - inside + 1, p)
    return np.where(rank == 0, 0.0, np.where(rank > n, 1.0, quantile))


def beta_quantile(a: npt.ArrayLike, b: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """The x with P(Beta(a, b) <= x) = p, to about 1e-12 relative for p from 1e-300 to 0.9.

    scipy's betaincinv is only the first guess: in the tails it is off by 1e-5 and sometimes
    entirely wrong (1 - betaincinv(0.5, 1000.5, 1 - 1e-9) is 3e-9 in scipy 1.9 instead of 0.98).

    >>> round(float(beta_quantile(1.0, 2.0, 0.19)), 12)  # 1 - sqrt(1 - p)
    0.1
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(p))
    a, b, p = (np.broadcast_to(np.asarray(v, dtype=np.float64), shape).ravel() for v in (a, b, p))
    x = np.nan_to_num(special.betaincinv(a, b, p))
    x = np.where((x > 0) & (x < 1), x, a / (a + b))
    low, high = np.zeros_like(x), np.ones_like(x)
    unsettled = np.arange(len(x))
    for _ in range(200):
        if len(unsettled) == 0:
            break
        i = unsettled
        reached = beta_cdf(a[i], b[i], x[i])
        low[i] = np.where(reached < p[i], x[i], low[i])
        high[i] = np.where(reached < p[i], high[i], x[i])
        step = _newton(a[i], b[i], p[i], x[i], reached)
        middle = (low[i] + high[i]) / 2
        new = np.where((step >= low[i]) & (step <= high[i]), step, middle)
        unsettled = i[np.abs(new - x[i]) > _CLOSE * np.minimum(x[i], 1 - x[i])]
        x[i] = new
    return np.asarray(x.reshape(shape))


def _newton(
    a: FloatArray, b: FloatArray, p: FloatArray, x: FloatArray, reached: FloatArray
) -> FloatArray:
    """A Newton step in log x and log p, where the lower tail is a straight line."""
    with np.errstate(all="ignore"):  # a step that fails here is replaced by bisection
        log_density = a * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b)
        slope = np.exp(log_density - np.log(reached))
        return np.asarray(x * np.exp((np.log(p) - np.log(reached)) / slope))
