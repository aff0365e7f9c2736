"""The posterior mass of the error rates of an attack of strength s under (epsilon, delta)-DP.

R(epsilon, delta) are the rates that (epsilon, delta)-DP allows, and R_s(epsilon, delta) is
R(epsilon, delta) without R(s epsilon, s delta): Kairouz, Oh & Viswanath (2017), Theorem 2.1;
Yıldırım et al. (2025), Theorem 1, equations 2 and 3.

**The boundary of R(epsilon, delta).** Given its counts and a uniform prior, a base's error rates
are alpha ~ Beta(fp + 1, n0 - fp + 1) and beta ~ Beta(fn + 1, n1 - fn + 1). The mass outside
R(epsilon, delta) is

    C(epsilon, delta) = P((alpha, beta) not in R(epsilon, delta)),

which falls in both arguments. Its two derivatives are integrals along the boundary: four straight
pieces that are the same up to swapping alpha and beta and taking complements. On the piece
y = c - e^epsilon x with c = 1 - delta, 0 <= x <= c / (1 + e^epsilon),

    -dC/d epsilon = integral of p(x) p(y) e^epsilon x dx,   -dC/d delta = integral of p(x) p(y) dx.

Both integrands are log-concave, so a Gauss rule around the mode gives every digit, in log space and
without cancellation, arbitrarily far in the tail.

**The mass in R_s(epsilon, delta).** This region is between the boundaries of R(epsilon, delta) and
of R(v, s delta), with v = s epsilon. With C as above its mass is a sum of two nonnegative terms:

    [C(v, delta) - C(epsilon, delta)] + [C(v, s delta) - C(v, delta)].

The first is a difference of one function of one variable, tabulated from both ends so that no
digits cancel. The second is an integral over delta, tabulated in v and s; it vanishes at delta = 0.
All tables are splines of logarithms.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.interpolate import CubicSpline

from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts
from fl_audit.estimators.distributions import narrowed


@dataclass(frozen=True, eq=False)
class FoldedRates:
    """Error rates mirrored at both diagonals, so that a single line bounds R(epsilon, delta)."""

    low: FloatArray  # the smaller one, below the line alpha + beta = 1
    high: FloatArray  # the larger one

    def inside(self, epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> BoolArray:
        """Whether the rates are in R(epsilon, delta), that is high + e^epsilon low >= 1 - delta."""
        # Divided by e^epsilon, nothing overflows.
        shrink = np.exp(-np.asarray(epsilon, dtype=np.float64))
        return np.asarray(self.low >= shrink * (1 - np.asarray(delta) - self.high))

    def reached(self, epsilon: npt.ArrayLike, strength: npt.ArrayLike, delta: float) -> BoolArray:
        """Whether the rates are in R_s(epsilon, delta), with s = strength."""
        s = np.asarray(strength)
        return self.inside(epsilon, delta) & ~self.inside(s * epsilon, s * delta)


def below_diagonal(alpha: FloatArray, beta: FloatArray) -> FoldedRates:
    """The error rates below alpha + beta = 1, swapped or complemented by R's symmetries."""
    low, high = np.minimum(alpha, beta), np.maximum(alpha, beta)
    above = low + high > 1
    return FoldedRates(np.where(above, 1 - high, low), np.where(above, 1 - low, high))


def log_forbidden(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of the area of the unit square outside R(epsilon, delta), 2 (1 - delta)^2 / (1 + e^eps).

    >>> bool(np.isclose(np.exp(log_forbidden(np.log([3.0]), 0.0))[0], 0.5))
    True
    """
    return np.asarray(np.log(2) + 2 * np.log1p(-delta) + special.log_expit(-epsilon))


def log_growth(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of |R(epsilon, delta)| - |R(0, delta)|, (1 - delta)^2 tanh(epsilon / 2); -inf at 0.

    >>> bool(np.isclose(np.exp(log_growth(np.log([3.0]), 0.0))[0], 0.5))
    True
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.log1p(-delta) + np.log(np.tanh(epsilon / 2)))


def log_reach(epsilon: FloatArray, shrunk: FloatArray, delta: float) -> FloatArray:
    """Log of |R_s(epsilon, delta)|, the area of R(epsilon, delta) without R(s epsilon, s delta).

    It is 2 [(1 - s delta)^2 / (1 + e^(s epsilon)) - (1 - delta)^2 / (1 + e^epsilon)], written as a
    sum of two nonnegative terms, with shrunk = s epsilon. Yıldırım et al. (2025), below equation 3.

    >>> area = 2 * (0.5 - 0.25)
    >>> bool(np.isclose(log_reach(np.log([3.0]), np.array([0.0]), 0.0)[0], np.log(area)))
    True
    """
    weaker = special.log_expit(-shrunk)
    with np.errstate(divide="ignore"):
        by_epsilon = (
            2 * np.log1p(-delta)
            + weaker
            + special.log_expit(epsilon)
            + np.log(-np.expm1(shrunk - epsilon))
        )
        if delta == 0:
            return np.asarray(np.log(2) + by_epsilon)
        strength = shrunk / epsilon
        gap = delta * (1 - strength) * (2 - delta - strength * delta)
        return np.asarray(np.log(2) + np.logaddexp(by_epsilon, np.log(gap) + weaker))


def log_reach_slope(epsilon: FloatArray, delta: float) -> FloatArray:
    """Log of |R_s(epsilon, delta)| / (1 - s) as s tends to 1, times 1/epsilon if delta is 0."""
    by_epsilon = (
        np.log(2) + 2 * np.log1p(-delta) + special.log_expit(epsilon) + special.log_expit(-epsilon)
    )
    if delta == 0:
        return np.asarray(by_epsilon)
    by_delta = np.log(4) + np.log1p(-delta) + special.log_expit(-epsilon)
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(epsilon) + by_epsilon, np.log(delta) + by_delta))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_DROP = 40.0
"""The integrand is truncated where its log is this far below its maximum."""


@dataclass(frozen=True, eq=False)
class BoundaryDensity:
    """The logs of -dC/d epsilon and -dC/d delta, a row per challenge base, of shape (n, k)."""

    by_epsilon: FloatArray
    by_delta: FloatArray


def boundary_density(counts: ChallengeCounts, epsilon: FloatArray, delta: float) -> BoundaryDensity:
    """-dC/d epsilon and -dC/d delta at points epsilon of shape (n, k) for n challenge bases.

    >>> flat = ChallengeCounts([0], [0], [0], [0])  # C = 2 / (1 + e^epsilon) where delta = 0
    >>> slope = boundary_density(flat, np.log([[3.0]]), 0.0).by_epsilon
    >>> bool(np.isclose(np.exp(slope[0, 0]), 2 * 3 / 4**2))
    True
    """
    fp, n0, fn, n1 = (v.astype(np.float64) for v in (counts.fp, counts.n0, counts.fn, counts.n1))
    right = (fp, n0 - fp), (fn, n1 - fn)
    wrong = (n0 - fp, fp), (n1 - fn, fn)
    by_epsilon = np.full(epsilon.shape, -np.inf)
    by_delta = np.full(epsilon.shape, -np.inf)
    for first, second in (right, right[::-1], wrong, wrong[::-1]):
        piece = _Piece.between(first, second, epsilon, delta).integrate()
        by_epsilon = np.logaddexp(by_epsilon, piece.by_epsilon)
        by_delta = np.logaddexp(by_delta, piece.by_delta)
    return BoundaryDensity(by_epsilon, by_delta)


_Counts = tuple[FloatArray, FloatArray]
"""Errors and the other trials of each base, (n,): the rate is Beta(errors + 1, others + 1)."""


@dataclass(frozen=True, eq=False)
class _Piece:
    """One piece of the boundary: x = steep t and y = c - slope t for t in [0, 1].

    The log density is a0 log x + a1 log(1 - x) + b0 log y + b1 log(1 - y) + constant.
    """

    a0: FloatArray
    a1: FloatArray
    b0: FloatArray
    b1: FloatArray
    constant: FloatArray
    delta: float
    steep: FloatArray
    slope: FloatArray

    @classmethod
    def between(cls, x: _Counts, y: _Counts, epsilon: FloatArray, delta: float) -> "_Piece":
        c = 1 - delta
        a0, a1, b0, b1 = (counts[:, None] for counts in (*x, *y))
        log_steep = np.log(c) + special.log_expit(-epsilon)
        normaliser = special.betaln(a0 + 1, a1 + 1) + special.betaln(b0 + 1, b1 + 1)
        return cls(
            a0, a1, b0, b1,
            # x^a0 and dx are powers of steep, factored out so that they do not underflow.
            constant=(a0 + 1) * log_steep + b0 * np.log(c) - normaliser,
            delta=delta,
            steep=c * special.expit(-epsilon),
            slope=c * special.expit(epsilon),
        )  # fmt: skip

    def log_density(self, t: FloatArray) -> FloatArray:
        """The log density up to the constant; t may have a trailing axis beyond the points'."""
        a0, a1, b0, b1, steep, slope = (
            np.expand_dims(v, tuple(range(2, t.ndim)))
            for v in (self.a0, self.a1, self.b0, self.b1, self.steep, self.slope)
        )
        return np.asarray(
            special.xlogy(a0, t)
            + special.xlog1py(a1, -steep * t)
            + special.xlog1py(b0, -slope / (1 - self.delta) * t)
            + special.xlogy(b1, self.delta + slope * t)
        )

    def rising(self, t: FloatArray) -> BoolArray:
        """Whether the log density rises at t, in (0, 1)."""
        up = self.a0 / t + self.b1 * self.slope / (self.delta + self.slope * t)
        ratio = self.slope / (1 - self.delta)
        down = self.a1 * self.steep / (1 - self.steep * t) + self.b0 * ratio / (1 - ratio * t)
        return np.asarray(up > down)

    def integrate(self) -> BoundaryDensity:
        """Both integrals along the piece."""
        mode = self._mode()
        height = self.log_density(mode)
        start = self._where_low(np.zeros_like(mode), mode, height)
        end = self._where_low(np.ones_like(mode), mode, height)
        half = (end - start) / 2
        t = (start + half)[..., None] + half[..., None] * _NODES
        weights = np.exp(self.log_density(t) - height[..., None]) * _WEIGHTS * half[..., None]
        scale = height + self.constant
        return BoundaryDensity(
            by_epsilon=scale + np.log(np.sum(weights * t, axis=-1)) + np.log(self.slope),
            by_delta=scale + np.log(np.sum(weights, axis=-1)),
        )

    def _mode(self) -> FloatArray:
        low, high = narrowed(self.rising, np.zeros_like(self.steep), np.ones_like(self.steep), 40)
        # A mode at an end of the piece is that end.
        return np.where(high == 1, 1.0, np.where(low == 0, 0.0, (low + high) / 2))

    def _where_low(self, outer: FloatArray, inner: FloatArray, height: FloatArray) -> FloatArray:
        """A point between `outer` and the mode `inner`, beyond which the density is negligible."""
        return narrowed(lambda t: self.log_density(t) < height - _DROP, outer, inner, 24)[0]


_NUM_POINTS = 128
_CELL_NODES, _CELL_WEIGHTS = np.polynomial.legendre.leggauss(4)
_HALF_NODES, _LOG_HALF_WEIGHTS = (_CELL_NODES + 1) / 2, np.log(_CELL_WEIGHTS / 2)


def _splines(values: FloatArray) -> FloatArray:
    """The powers of cubic splines through values (n, k, ...), the highest first: (4, k-1, n, ...).

    Their unit is the grid's step.
    """
    return np.asarray(CubicSpline(np.arange(values.shape[1]), values, axis=1).c)


@dataclass(frozen=True, eq=False)
class TableGrid:
    """Points centre_j + width_j sinh(z) of base j, for equally spaced z: dense near centre_j."""

    centre: FloatArray  # of shape (n, 1), like all fields
    width: FloatArray
    start: FloatArray  # the first z
    step: FloatArray  # from one z to the next

    @classmethod
    def around(cls, counts: ChallengeCounts, largest: float) -> "TableGrid":
        """The grid from 0 to `largest` around each base's epsilon at delta = 0."""
        right = np.stack([counts.fp, counts.fn]) + 1.0
        wrong = np.stack([counts.n0 - counts.fp, counts.n1 - counts.fn]) + 1.0
        rate, rest = right / (right + wrong), wrong / (right + wrong)
        ratios = np.concatenate([rest / rate[::-1], rate / rest[::-1]])
        centre = np.maximum(np.max(np.log(ratios), axis=0), 0.0)[:, None]
        width = np.minimum(np.sqrt(np.sum(1 / right + 1 / wrong, axis=0)), 1.0)[:, None]
        start = np.arcsinh(-centre / width)
        end = np.arcsinh((largest - centre) / width)
        return cls(centre, width, start, (end - start) / (_NUM_POINTS - 1))

    @property
    def points(self) -> FloatArray:
        """The points of each base, of shape (n, k)."""
        z = self.start + self.step * np.arange(_NUM_POINTS)
        # The first is 0 up to rounding.
        return np.asarray(np.maximum(self.centre + self.width * np.sinh(z), 0.0))

    @property
    def log_stretch(self) -> FloatArray:
        """Log of the derivative of a point with respect to its index, of shape (n, k)."""
        z = self.start + self.step * np.arange(_NUM_POINTS)
        return np.asarray(np.log(self.width * self.step) + np.log(np.cosh(z)))

    def evaluate(self, powers: FloatArray, bases: slice, x: FloatArray) -> FloatArray:
        """Values (n, m, ...) of the splines of some bases at points x of shape (m,)."""
        index = (np.arcsinh((x - self.centre[bases]) / self.width[bases]) - self.start[bases]) / (
            self.step[bases]
        )
        cell = np.clip(index.astype(np.int64), 0, _NUM_POINTS - 2)
        base = np.arange(len(cell))[:, None]
        a, b, c, d = (power[:, bases][cell, base] for power in powers)
        u = np.expand_dims(index - cell, tuple(range(2, a.ndim)))
        return np.asarray(((a * u + b) * u + c) * u + d)


def cell_masses(log_density: FloatArray) -> FloatArray:
    """Log of the integral over each cell between equally spaced points, in units of the spacing.

    The log density is interpolated by a cubic spline.

    >>> np.exp(cell_masses(np.log([[1.0, 2.0, 4.0, 8.0]]))).round(6).tolist()  # 1 / log 2, ...
    [[1.442695, 2.88539, 5.77078]]
    """
    points = np.arange(log_density.shape[-1])
    spline = CubicSpline(points, log_density, axis=-1)
    at = points[:-1, None] + _HALF_NODES
    return np.asarray(np.logaddexp.reduce(spline(at) + _LOG_HALF_WEIGHTS, axis=-1))


_BEYOND = 40.0
"""The tables reach this far beyond the largest epsilon; about e^-40 of the mass is left there."""
_STEPS_PER_STDDEV = 8
_MOST_STEPS = 64
_CHUNK = 1_000_000
"""The size of the largest array of bases by epsilons by shrunk epsilons."""


class RegionMass:
    """The tables of n challenge bases at one delta, and the likelihood of epsilon and s epsilon."""

    def __init__(self, counts: ChallengeCounts, delta: float, largest: float) -> None:
        """Make the tables for epsilons in [0, largest]."""
        self._num_bases, self._delta = counts.num_bases, delta
        self._grid = TableGrid.around(counts, largest + _BEYOND)
        x = self._grid.points
        shifts = delta * np.linspace(0, 1, _delta_steps(counts, delta) + 1)
        slices = [boundary_density(counts, x, shift) for shift in shifts]
        by_epsilon, by_delta = slices[-1].by_epsilon, slices[-1].by_delta
        self._by_epsilon = _splines(by_epsilon)
        self._by_delta = _splines(by_delta)
        if delta > 0:
            means = _mean_shift(np.stack([density.by_delta for density in slices], -1), delta)
            self._mean_shift = _splines(means)
        cells = cell_masses(by_epsilon + self._grid.log_stretch)
        above = np.concatenate([cells, by_epsilon[:, -1:]], axis=1)
        outside = np.logaddexp.accumulate(above[:, ::-1], axis=1)[:, ::-1]
        gained = np.logaddexp.accumulate(cells, axis=1) - log_growth(x[:, 1:], delta)
        # At 0 mass and area both vanish; their ratio is the ratio of slopes.
        first = by_epsilon[:, :1] - 2 * math.log1p(-delta) + math.log(2)
        self._outside = _splines(outside - log_forbidden(x, delta))
        self._gained = _splines(np.concatenate([first, gained], axis=1))

    def log_likelihood(self, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """The log likelihood of all counts, up to one constant for all calls.

        `epsilon` is above 0 and of shape (i,), `shrunk` is v, of shape (1, k) or (i, 1). The result
        is -inf where v >= epsilon.
        """
        column = epsilon[:, None]
        below = shrunk < column
        total = np.zeros(below.shape)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = max(1, _CHUNK // below.size)
            for start in range(0, self._num_bases, step):
                bases = slice(start, start + step)
                total += np.sum(self._log_mass(bases, epsilon, shrunk), axis=0)
            area = log_reach(column, np.minimum(shrunk, column), self._delta)
            return np.where(below, total - self._num_bases * area, -np.inf)

    def log_likelihood_at_full_strength(self, epsilon: FloatArray) -> FloatArray:
        """The limit of the log likelihood as s tends to 1, with the same constant."""
        bases = slice(None)
        mass = self._grid.evaluate(self._by_epsilon, bases, epsilon)
        if self._delta > 0:
            by_delta = self._grid.evaluate(self._by_delta, bases, epsilon)
            mass = np.logaddexp(np.log(epsilon) + mass, math.log(self._delta) + by_delta)
        return np.asarray(np.sum(mass - log_reach_slope(epsilon, self._delta), axis=0))

    def _log_mass(self, bases: slice, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Log of the masses in R_s of some bases, (n, i, k); meaningless if v >= epsilon."""
        flat = shrunk.ravel()
        shape = (-1, *shrunk.shape)
        inner_outside = self._log_outside(bases, flat).reshape(shape)
        inner_gained = self._log_gained(bases, flat).reshape(shape)
        outer_outside = self._log_outside(bases, epsilon)[:, :, None]
        outer_gained = self._log_gained(bases, epsilon)[:, :, None]
        # The smaller of the masses on either side of epsilon is accurate.
        mostly_outside = outer_gained < outer_outside
        larger = np.where(mostly_outside, outer_gained, inner_outside)
        smaller = np.where(mostly_outside, inner_gained, outer_outside)
        mass = larger + np.log(-np.expm1(np.minimum(smaller - larger, -1e-300)))
        if self._delta == 0:
            return np.asarray(mass)
        return np.asarray(np.logaddexp(mass, self._log_shift(bases, epsilon, shrunk)))

    def _log_outside(self, bases: slice, x: FloatArray) -> FloatArray:
        return self._grid.evaluate(self._outside, bases, x) + log_forbidden(x, self._delta)

    def _log_gained(self, bases: slice, x: FloatArray) -> FloatArray:
        """Log of C(0, delta) - C(x, delta), of shape (n, m)."""
        return self._grid.evaluate(self._gained, bases, x) + log_growth(x, self._delta)

    def _log_shift(self, bases: slice, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Log of C(v, s delta) - C(v, delta), of shape (n, i, k)."""
        strength = np.minimum(shrunk / epsilon[:, None], 1.0)
        means = self._grid.evaluate(self._mean_shift, bases, shrunk.ravel())
        steps = means.shape[-1] - 1
        cell = np.clip((strength * steps).astype(np.int64), 0, steps - 1)
        column = np.broadcast_to(np.arange(shrunk.size).reshape(shrunk.shape), cell.shape)
        powers = CubicSpline(np.arange(steps + 1), means, axis=-1).c
        a, b, c, d = (np.moveaxis(power[cell, :, column], -1, 0) for power in powers)
        u = strength * steps - cell
        width = math.log(self._delta) + np.log1p(-strength)
        return np.asarray(((a * u + b) * u + c) * u + d + width)


def _delta_steps(counts: ChallengeCounts, delta: float) -> int:
    """The number of steps from 0 to delta, several per standard deviation of an error rate."""
    if delta == 0:
        return 0
    most = float(max(np.max(counts.n0), np.max(counts.n1)))
    return min(4 + math.ceil(_STEPS_PER_STDDEV * delta * math.sqrt(most)), _MOST_STEPS)


def _mean_shift(by_delta: FloatArray, delta: float) -> FloatArray:
    """Log of the mean of -dC/d delta from s delta to delta, for s = 0 to 1, of shape (n, k, r)."""
    steps = by_delta.shape[-1] - 1
    cells = cell_masses(by_delta) - math.log(steps)
    sums = np.logaddexp.accumulate(cells[..., ::-1], axis=-1)[..., ::-1]
    means = sums - np.log(np.linspace(1, 0, steps + 1)[:-1])
    return np.concatenate([means, by_delta[..., -1:]], axis=-1)
