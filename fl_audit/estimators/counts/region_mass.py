"""The posterior mass outside a privacy region, by quadrature in one dimension.

Outside R(epsilon, delta) lie two corners of the unit square of error rates (x, y): one with small
rates, below the lines x + e^epsilon y = 1 - delta and y + e^epsilon x = 1 - delta, and its mirror
image, the same corner for 1 - x and 1 - y. The two lines cross at x = y = c = (1 - delta) / (1 +
e^epsilon). Beyond c the corner is a thin wing along each axis, so that its mass is

    P(X < c) P(Y < c) + wing(Y, X) + wing(X, Y),
    wing(Y, X) = integral over y from c to 1 - delta of f_Y(y) F_X((1 - delta - y) e^-epsilon),

with independent X and Y. F_X is a Beta cdf, so one integral is left of the two of
Zanella-Béguelin et al. (2022), equation 3.

What makes the integrand smooth: y = sin^2(theta) takes the square-root singularities off a Beta
density with half-integer parameters; the integral is cut to where neither factor is constant, at
most some 16 standard deviations of either, so that nothing in it is narrow; and a cubic with
vanishing slope at both ends takes off the power 1/2 with which F_X leaves 0 where y reaches
1 - delta. Against 400 points instead of 60, on 3,554 tables at random, the error is below 2e-11
for counts up to 200,000, and 2e-10, the rounding, for counts up to two million.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.beta_cdf import beta_cdf
from fl_audit.estimators.beta_quantile import beta_quantile

_CUT = 1e-14
"""The tail probability beyond which a law is taken to have no mass."""

_U, _W = np.polynomial.legendre.leggauss(60)
_NODES = (2 - _U) * (1 + _U) ** 2 / 4
_WEIGHTS = _W * 3 * (1 - _U**2) / 4


@dataclass(frozen=True, eq=False)
class RateLaws:
    """Beta laws of error rates, and where their mass lies.

    Attributes:
      rows: First shapes; second shapes; rates below which the probability is 1e-14; and the same
        for one minus the rates: float64 of shape (4, m). They are in one array because much of the
        time for a single table is that of handling small arrays.
    """

    rows: FloatArray

    @classmethod
    def jeffreys(cls, errors: npt.ArrayLike, right: npt.ArrayLike) -> "RateLaws":
        """The posteriors Beta(errors + 1/2, right + 1/2) under Jeffreys priors, equation 2."""
        shapes = np.stack([np.atleast_1d(errors), np.atleast_1d(right)]) + 0.5
        return cls(np.concatenate([shapes, beta_quantile(shapes, shapes[::-1], _CUT)]))

    @property
    def a(self) -> FloatArray:
        """First shapes, float64 of shape (m,)."""
        return np.asarray(self.rows[0])

    @property
    def b(self) -> FloatArray:
        """Second shapes, float64 of shape (m,)."""
        return np.asarray(self.rows[1])

    @property
    def start(self) -> FloatArray:
        """Rates below which the probability is 1e-14, float64 of shape (m,)."""
        return np.asarray(self.rows[2])

    @property
    def rest(self) -> FloatArray:
        """One minus the rates above which the probability is 1e-14, float64 of shape (m,)."""
        return np.asarray(self.rows[3])

    @property
    def opposite(self) -> "RateLaws":
        """The laws of one minus the rates."""
        return RateLaws(self.rows[[1, 0, 3, 2]])

    def __getitem__(self, laws: npt.NDArray[np.intp]) -> "RateLaws":
        """Some of the laws."""
        return RateLaws(self.rows[:, laws])

    def then(self, other: "RateLaws") -> "RateLaws":
        """These laws followed by the others."""
        return RateLaws(np.concatenate([self.rows, other.rows], axis=1))


def corner_mass(x: RateLaws, y: RateLaws, delta: float, epsilon: FloatArray) -> FloatArray:
    """P((1 - delta - X) / Y > e^epsilon or (1 - delta - Y) / X > e^epsilon), row by row.

    The mass falls as X or Y grows in law, that is with more errors among as many guesses.

    Args:
      x: Laws of one error rate, m of them.
      y: Laws of the other, m of them, independent of x.
      delta: The delta of differential privacy, in [0, 1).
      epsilon: Values at least 0, float64 of shape (m,).

    Returns:
      The probabilities, float64 of shape (m,), to about 1e-10 (1e-9 for counts near a million,
        where scipy's betaln is known no better).
    """
    wings = _Wings.between(x, y, delta, epsilon)
    below = beta_cdf(wings.outer.a, wings.outer.b, wings.crossing)
    mass = beta_cdf(wings.outer.a, wings.outer.b, wings.full_until) - below
    rows, t, density = wings.points()
    inner = wings.inner[rows]
    mass[rows] += np.sum(density * beta_cdf(inner.a[:, None], inner.b[:, None], t), axis=1)
    m = len(epsilon)
    return np.asarray(np.clip(below[:m] * below[m:] + mass[:m] + mass[m:], 0.0, 1.0))


def corner_density(x: RateLaws, y: RateLaws, delta: float, epsilon: FloatArray) -> FloatArray:
    """Minus the derivative of `corner_mass` with respect to epsilon.

    Each wing's boundary x = t(y) = (1 - delta - y) e^-epsilon recedes at the speed t, so its part
    is the integral of f_Y(y) f_X(t) t; what happens at c cancels. This is the boundary integral of
    Zanella-Béguelin et al. (2022), equations 7 to 12.

    Args:
      x: Laws of one error rate, m of them.
      y: Laws of the other, m of them, independent of x.
      delta: The delta of differential privacy, in [0, 1).
      epsilon: Values at least 0, float64 of shape (m,).

    Returns:
      The densities, float64 of shape (m,), at least 0.
    """
    wings = _Wings.between(x, y, delta, epsilon)
    rows, t, density = wings.points()
    a, b = wings.inner.a[rows, None], wings.inner.b[rows, None]
    speed = np.exp(special.xlogy(a, t) + special.xlog1py(b - 1, -t) - special.betaln(a, b))
    slope = np.zeros(len(wings.epsilon))
    slope[rows] = np.sum(density * speed, axis=1)
    m = len(epsilon)
    return np.asarray(slope[:m] + slope[m:])


@dataclass(frozen=True, eq=False)
class _Wings:
    """Both wings of m corners: first those along y, then those along x.

    Attributes:
      outer: Laws of the rate along the axis, 2 m of them.
      inner: Laws of the other rate, 2 m of them, below (1 - delta - outer) e^-epsilon.
      delta: The delta of differential privacy, in [0, 1).
      epsilon: Values of epsilon, float64 of shape (2 m,).
      crossing: Points c where the wings start, float64 of shape (2 m,).
      full_until: Points, at least c, up to which the inner cdf is 1, float64 of shape (2 m,).
      end: Points from which on the outer density or inner cdf is 0, float64 of shape (2 m,).
    """

    outer: RateLaws
    inner: RateLaws
    delta: float
    epsilon: FloatArray
    crossing: FloatArray
    full_until: FloatArray
    end: FloatArray

    @classmethod
    def between(cls, x: RateLaws, y: RateLaws, delta: float, epsilon: FloatArray) -> "_Wings":
        outer, inner = y.then(x), x.then(y)
        epsilon = np.concatenate([epsilon, epsilon])
        crossing = (1 - delta) * special.expit(-epsilon)
        # Beyond e^700, which still is a float, nothing is left in the wings.
        growth = np.exp(np.minimum(epsilon, 700.0))
        full_until = np.maximum(crossing, 1 - delta - growth * (1 - inner.rest))
        end = np.minimum(1 - delta - growth * inner.start, 1 - outer.rest)
        return cls(outer, inner, delta, epsilon, crossing, full_until, end)

    def points(self) -> tuple[npt.NDArray[np.intp], FloatArray, FloatArray]:
        """The points to integrate at: rows (k,), t (k, n) and outer density (k, n), by shape.

        The outer density is that of the points' theta, times their weights.
        """
        begin = np.maximum(self.full_until, self.outer.start)
        rows = np.flatnonzero(begin < self.end)
        outer = self.outer[rows]
        low = np.arcsin(np.sqrt(begin[rows, None]))
        width = np.arcsin(np.sqrt(self.end[rows, None])) - low
        theta = low + width * _NODES
        # 1 - delta - sin^2(theta) without the difference.
        top = np.arctan2(np.sqrt(1 - self.delta), np.sqrt(self.delta))
        gap = np.maximum(np.sin(top - theta) * np.sin(top + theta), 0.0)
        a, b = outer.a[:, None], outer.b[:, None]
        log_density = (
            (2 * a - 1) * np.log(np.sin(theta))
            + (2 * b - 1) * np.log(np.cos(theta))
            - special.betaln(a, b)
        )
        density = 2 * np.exp(log_density) * width * _WEIGHTS
        return rows, gap * np.exp(-self.epsilon[rows, None]), density
