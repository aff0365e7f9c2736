"""The posterior of epsilon, given the counts of an attack (Zanella-Béguelin et al. 2022).

The posterior follows from masses outside privacy regions, by quadrature in one dimension. Outside
the region R(epsilon, delta) are two corners of the unit square of error rates (x, y): one with
small rates, below the line x + e^epsilon y = 1 - delta or y + e^epsilon x = 1 - delta, and its
mirror image, the same corner for 1 - x and 1 - y. The two lines cross at x = y = c = (1 - delta) /
(1 + e^epsilon). Beyond c the corner is a thin wing along each axis, so that its mass is

    P(X < c) P(Y < c) + wing(Y, X) + wing(X, Y),
    wing(Y, X) = integral over y from c to 1 - delta of f_Y(y) F_X((1 - delta - y) e^-epsilon),

with independent X and Y. F_X is a Beta cdf, so one integral remains of the two in equation 3 of
Zanella-Béguelin et al. (2022).

Three steps make the integrand smooth. y = sin^2(theta) removes the square-root singularities of a
Beta density with half-integer parameters. The integral is restricted to where neither factor is
constant, at most some 16 standard deviations of either, so that it has no narrow peak. Finally, a
cubic with vanishing slope at both ends removes the square-root singularity of F_X at y = 1 - delta.
Compared with 400 points instead of 60, on 3,554 random tables, the error is below 2e-11 for counts
up to 200,000, and 2e-10, the rounding, for counts up to two million. Larger counts are compared
with an Edgeworth series, which is exact there: the error is that of scipy's Beta cdf.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.counts.confusion_counts import ConfusionCounts, Interval
from fl_audit.estimators.distributions import beta_cdf, beta_quantile
from fl_audit.estimators.scores import check_confidence, check_delta

_CUT = 1e-14
"""The tail probability below which a distribution is treated as having no mass."""


_U, _W = np.polynomial.legendre.leggauss(60)
_NODES = (2 - _U) * (1 + _U) ** 2 / 4
_WEIGHTS = _W * 3 * (1 - _U**2) / 4


@dataclass(frozen=True, eq=False)
class RateDistributions:
    """Beta distributions of m error rates, and the range of their mass.

    The rows are first shapes; second shapes; rates below which the probability is 1e-14; and one
    minus the rates above which it is 1e-14. They share one array, because for a single table the
    overhead of small arrays dominates.
    """

    rows: FloatArray  # (4, m)

    @classmethod
    def jeffreys(cls, errors: npt.ArrayLike, right: npt.ArrayLike) -> "RateDistributions":
        """The posteriors Beta(errors + 1/2, right + 1/2) under Jeffreys priors, equation 2."""
        shapes = np.stack([np.atleast_1d(errors), np.atleast_1d(right)]) + 0.5
        return cls(np.concatenate([shapes, beta_quantile(shapes, shapes[::-1], _CUT)]))

    @property
    def a(self) -> FloatArray:
        """First shapes."""
        return np.asarray(self.rows[0])

    @property
    def b(self) -> FloatArray:
        """Second shapes."""
        return np.asarray(self.rows[1])

    @property
    def lower_cutoff(self) -> FloatArray:
        """Rates below which the probability is 1e-14."""
        return np.asarray(self.rows[2])

    @property
    def upper_cutoff_complement(self) -> FloatArray:
        """One minus the rates above which the probability is 1e-14."""
        return np.asarray(self.rows[3])

    @property
    def opposite(self) -> "RateDistributions":
        """The distributions of one minus the rates."""
        return RateDistributions(self.rows[[1, 0, 3, 2]])

    def __getitem__(self, indices: IntArray) -> "RateDistributions":
        return RateDistributions(self.rows[:, indices])

    def followed_by(self, other: "RateDistributions") -> "RateDistributions":
        return RateDistributions(np.concatenate([self.rows, other.rows], axis=1))


def corner_mass(
    x: RateDistributions, y: RateDistributions, delta: float, epsilon: FloatArray
) -> FloatArray:
    """P((1 - delta - X) / Y > e^epsilon or (1 - delta - Y) / X > e^epsilon), row by row.

    X and Y are independent. The mass falls as X or Y grows stochastically, that is, with more
    errors among the same guesses. It is as accurate as `beta_cdf`: to about 1e-10 for counts up to
    two million, 1e-8 up to a billion, and 2e-5 up to 10^12.
    """
    wings = _Wings.between(x, y, delta, epsilon)
    below = beta_cdf(wings.outer.a, wings.outer.b, wings.crossing)
    mass = beta_cdf(wings.outer.a, wings.outer.b, wings.full_until) - below
    rows, t, density = wings.points()
    inner = wings.inner[rows]
    mass[rows] += np.sum(density * beta_cdf(inner.a[:, None], inner.b[:, None], t), axis=1)
    m = len(epsilon)
    return np.asarray(np.clip(below[:m] * below[m:] + mass[:m] + mass[m:], 0.0, 1.0))


def corner_density(
    x: RateDistributions, y: RateDistributions, delta: float, epsilon: FloatArray
) -> FloatArray:
    """Minus the derivative of `corner_mass` with respect to epsilon, at least 0.

    Each wing's boundary x = t(y) = (1 - delta - y) e^-epsilon recedes at the speed t, so it adds
    the integral of f_Y(y) f_X(t) t; the contributions at c cancel. This is the boundary integral
    of Zanella-Béguelin et al. (2022), equations 7 to 12.
    """
    wings = _Wings.between(x, y, delta, epsilon)
    rows, t, density = wings.points()
    a, b = wings.inner.a[rows, None], wings.inner.b[rows, None]
    speed = np.exp(_log_beta_ratio(a, b, t, 1 - t) - special.log1p(-t))
    slope = np.zeros(len(wings.epsilon))
    slope[rows] = np.sum(density * speed, axis=1)
    m = len(epsilon)
    return np.asarray(slope[:m] + slope[m:])


@dataclass(frozen=True, eq=False)
class _Wings:
    """Both wings of m corners: first those along y, then those along x; arrays of shape (2 m,)."""

    outer: RateDistributions  # of the rate along the wing's axis
    inner: RateDistributions  # of the rate across it, below (1 - delta - outer) e^-epsilon
    delta: float
    epsilon: FloatArray
    crossing: FloatArray  # points c where the wings start
    full_until: FloatArray  # points, at least c, up to which the inner cdf is 1
    end: FloatArray  # points from which on the outer density or inner cdf is 0

    @classmethod
    def between(
        cls, x: RateDistributions, y: RateDistributions, delta: float, epsilon: FloatArray
    ) -> "_Wings":
        outer, inner = y.followed_by(x), x.followed_by(y)
        epsilon = np.concatenate([epsilon, epsilon])
        crossing = (1 - delta) * special.expit(-epsilon)
        # Beyond e^700, still a float, the wings have no mass.
        growth = np.exp(np.minimum(epsilon, 700.0))
        full_until = np.maximum(crossing, 1 - delta - growth * (1 - inner.upper_cutoff_complement))
        end = np.minimum(1 - delta - growth * inner.lower_cutoff, 1 - outer.upper_cutoff_complement)
        return cls(outer, inner, delta, epsilon, crossing, full_until, end)

    def points(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Quadrature: rows (k,), points t (k, n), and the density of theta times weight (k, n)."""
        begin = np.maximum(self.full_until, self.outer.lower_cutoff)
        rows = np.flatnonzero(begin < self.end)
        outer = self.outer[rows]
        low = np.arcsin(np.sqrt(begin[rows, None]))
        width = np.arcsin(np.sqrt(self.end[rows, None])) - low
        theta = low + width * _NODES
        # 1 - delta - sin^2(theta) without the difference.
        top = np.arctan2(np.sqrt(1 - self.delta), np.sqrt(self.delta))
        gap = np.maximum(np.sin(top - theta) * np.sin(top + theta), 0.0)
        a, b = outer.a[:, None], outer.b[:, None]
        sine, cosine = np.sin(theta), np.cos(theta)
        density = np.exp(_log_beta_ratio(a, b, sine**2, cosine**2)) / (sine * cosine)
        density *= 2 * width * _WEIGHTS
        return rows, gap * np.exp(-self.epsilon[rows, None]), density


def _log_beta_ratio(a: FloatArray, b: FloatArray, y: FloatArray, rest: FloatArray) -> FloatArray:
    """log(y^a rest^b / B(a, b)), with rest = 1 - y in [0, 1], to 1e-9 for all counts.

    By Stirling's formula it is a sum of distances of y and rest from their means. The large terms
    of the plain formula would cancel: of 10^12 counts they leave three digits.
    """
    n = a + b
    away = a * _distance(y * (n / a)) + b * _distance(rest * (n / b))
    stirling = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    return np.asarray(stirling + 0.5 * np.log(a / n * b / (2 * np.pi)) - away)


def _distance(ratio: FloatArray) -> FloatArray:
    return np.asarray(ratio - 1 - special.xlogy(1.0, ratio))


def _stirling_error(a: FloatArray) -> FloatArray:
    """log Gamma(a) less Stirling's (a - 1/2) log(a) - a + log(2 pi) / 2, for a from 1/2."""
    exact = special.gammaln(a) - (a - 0.5) * np.log(a) + a - 0.5 * np.log(2 * np.pi)
    square = np.maximum(a, 1.0) ** 2
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / a
    return np.where(a < _SMALL, exact, series)


_SMALL = 30.0
"""Below it Stirling's error is the difference itself; from it on, the series is exact to 1e-14."""

_PRECISION = 1e-12
"""The absolute precision of a quantile."""


_PROBIT_RANGE = (1e-300, 1 - 2**-53)
"""The range of probabilities whose normal quantiles are finite."""


@dataclass(frozen=True)
class EpsilonPosterior:
    """The distribution of epsilon(FNR, FPR) under the joint posterior of the two error rates.

    FNR and FPR are independent with Jeffreys priors, so Beta(FN + 1/2, TP + 1/2) and Beta(FP + 1/2,
    TN + 1/2) given the counts; epsilon is the infimum that `epsilon_of_rates` gives. Its
    distribution has an atom at 0 (the rates that (0, delta)-DP allows; none if delta is 0) and a
    positive density beyond. Zanella-Béguelin et al. (2022), section 3.2, equations 2, 3 and 6, and
    appendix A.2. (There the upper boundary lacks "1 +" in front of (delta - x) e^-epsilon.)

    Attributes:
      counts: Counts of the attack's correct and wrong guesses.
      delta: The delta of differential privacy, in [0, 1); else InputError.

    >>> posterior = EpsilonPosterior(ConfusionCounts(35, 65, 25, 75), delta=0.05)
    >>> interval = posterior.interval(0.95)  # the paper's example
    >>> round(interval.lower, 4), round(interval.upper, 4)
    (0.5218, 1.2666)
    """

    counts: ConfusionCounts
    delta: float

    def __post_init__(self) -> None:
        check_delta(self.delta)

    @property
    def atom(self) -> float:
        """P(epsilon = 0), the posterior mass of R(0, delta) (equation 13)."""
        return float(self.cdf(0.0))

    def sf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """P(epsilon > x), elementwise; InputError unless 0 <= x < inf.

        To 1e-8 for counts up to a billion, to 2e-5 for larger ones.
        """
        return np.clip(self._over_corners(corner_mass, epsilon), 0.0, 1.0)

    def cdf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """P(epsilon <= x), elementwise (definition 3.1, equation 3); InputError as `sf`."""
        return np.asarray(1.0 - self.sf(epsilon))

    def pdf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """The density of the part without the atom, elementwise (equations 7 to 12).

        It integrates to 1 - `atom` over epsilon > 0. InputError as `sf`.
        """
        return self._over_corners(corner_density, epsilon)

    def quantile(self, probability: float) -> float:
        """The epsilon at which the cdf reaches a probability, in (0, 1); 0 within the atom."""
        if not 0 < probability < 1:
            raise InputError(f"probability must be in (0, 1), got {probability}")
        return self._where_sf_is(1 - probability)

    def interval(self, confidence: float) -> Interval:
        """The equal-tailed credible interval (equations 4 and 5).

        (Section 3.3 puts the lower end at the alpha quantile, as for a one-sided interval.)
        """
        check_confidence(confidence)
        tail = (1 - confidence) / 2
        return Interval(self._where_sf_is(1 - tail), self._where_sf_is(tail))

    @functools.cached_property
    def _fnr(self) -> RateDistributions:
        return RateDistributions.jeffreys(self.counts.false_negatives, self.counts.true_positives)

    @functools.cached_property
    def _fpr(self) -> RateDistributions:
        return RateDistributions.jeffreys(self.counts.false_positives, self.counts.true_negatives)

    def _over_corners(
        self,
        corner_function: Callable[
            [RateDistributions, RateDistributions, float, FloatArray], FloatArray
        ],
        epsilon: npt.ArrayLike,
    ) -> FloatArray:
        """The sum over both corners outside the privacy region, at each epsilon."""
        values = np.asarray(epsilon, dtype=np.float64)
        bad = values[~((values >= 0) & (values < np.inf))]
        if bad.size:
            raise InputError(f"epsilon must be finite and at least 0, got {bad.flat[0]}")
        flat = values.ravel()
        # One call for the four wings of a table, to save overhead.
        rows = np.zeros(len(flat), dtype=np.intp)
        fnr, fpr = self._fnr[rows], self._fpr[rows]
        both = corner_function(
            fnr.followed_by(fnr.opposite),
            fpr.followed_by(fpr.opposite),
            self.delta,
            np.concatenate([flat, flat]),
        )
        return np.asarray((both[: len(flat)] + both[len(flat) :]).reshape(values.shape))

    def _where_sf_is(self, probability: float) -> float:
        """Inverse survival function, clipped at 0."""
        target = special.ndtri(probability)

        @functools.cache  # the bracket's ends are evaluated twice
        def excess(epsilon: float) -> float:
            # As a normal quantile the cdf is nearly linear, and the root a few steps away.
            return float(special.ndtri(np.clip(self.sf(epsilon), *_PROBIT_RANGE)) - target)

        below, above = 0.0, 1.0
        if excess(below) <= 0:
            return 0.0
        while excess(above) > 0:
            below, above = above, 2 * above
        return float(optimize.brentq(excess, below, above, xtol=_PRECISION))
