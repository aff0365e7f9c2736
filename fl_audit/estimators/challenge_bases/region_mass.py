"""The posterior mass of each base's error rates in R_s(epsilon, delta), tabulated once.

R_s(epsilon, delta) lies between two boundaries, that of R(epsilon, delta) and that of R(v, s delta)
with v = s epsilon. In the notation of boundary.py its mass is a sum of two that are never negative:

    [C(v, delta) - C(epsilon, delta)] + [C(v, s delta) - C(v, delta)].

The first is a difference of one function of one variable, tabulated from both ends so that no
digits cancel. The second is an integral over delta, tabulated in v and s; it vanishes at delta = 0.
All tables are splines of logarithms.
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.interpolate import CubicSpline

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.boundary import boundary_density
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.regions import (
    log_forbidden,
    log_growth,
    log_reach,
    log_reach_slope,
)
from fl_audit.estimators.challenge_bases.table_grid import Spline, TableGrid, cell_masses

_BEYOND = 40.0
"""The tables reach this far beyond the largest epsilon: the rest is e^-40 of it."""
_STEPS_PER_DEVIATION = 8
_MOST_STEPS = 64
_CHUNK = 1_000_000
"""The size of the largest array of bases by epsilons by shrunk epsilons."""


class RegionMass:
    """The tables of n challenge bases at one delta, and the likelihood they give."""

    def __init__(self, counts: ChallengeCounts, delta: float, largest: float) -> None:
        """Make the tables for epsilons in [0, largest]."""
        self._num_bases, self._delta = counts.num_bases, delta
        self._grid = TableGrid.around(counts, largest + _BEYOND)
        x = self._grid.points
        shifts = delta * np.linspace(0, 1, _delta_steps(counts, delta) + 1)
        slices = [boundary_density(counts, x, shift) for shift in shifts]
        by_epsilon, by_delta = slices[-1].by_epsilon, slices[-1].by_delta
        self._by_epsilon = Spline.through(by_epsilon)
        self._by_delta = Spline.through(by_delta)
        if delta > 0:
            means = _mean_shift(np.stack([density.by_delta for density in slices], -1), delta)
            self._mean_shift = Spline.through(means)
        cells = cell_masses(by_epsilon + self._grid.log_stretch)
        above = np.concatenate([cells, by_epsilon[:, -1:]], axis=1)
        outside = np.logaddexp.accumulate(above[:, ::-1], axis=1)[:, ::-1]
        gained = np.logaddexp.accumulate(cells, axis=1) - log_growth(x[:, 1:], delta)
        # At 0 mass and area both vanish, and their ratio is that of their slopes.
        first = by_epsilon[:, :1] - 2 * math.log1p(-delta) + math.log(2)
        self._outside = Spline.through(outside - log_forbidden(x, delta))
        self._gained = Spline.through(np.concatenate([first, gained], axis=1))

    def log_likelihood(self, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """The log likelihood of all counts, up to a constant that is the same for every call.

        Args:
          epsilon: Values above 0, at most the largest tabulated, float64 of shape (i,).
          shrunk: Values v = s epsilon, at least 0, float64 of shape (1, k) or (i, 1).

        Returns:
          The log likelihoods where v < epsilon, -inf elsewhere, float64 of shape (i, k) or (i, 1).
        """
        column = epsilon[:, None]
        below = shrunk < column
        total = np.zeros(below.shape)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for bases in self._chunks(below.size):
                total += np.sum(self._log_mass(bases, epsilon, shrunk), axis=0)
            area = log_reach(column, np.minimum(shrunk, column), self._delta)
            return np.where(below, total - self._num_bases * area, -np.inf)

    def log_likelihood_at_full_strength(self, epsilon: FloatArray) -> FloatArray:
        """The limit of the log likelihood as s tends to 1, with the same constant.

        Args:
          epsilon: Values above 0, at most the largest tabulated, float64 of shape (i,).

        Returns:
          The limits, float64 of shape (i,).
        """
        bases = slice(None)
        mass = self._grid.evaluate(self._by_epsilon, bases, epsilon)
        if self._delta > 0:
            by_delta = self._grid.evaluate(self._by_delta, bases, epsilon)
            mass = np.logaddexp(np.log(epsilon) + mass, math.log(self._delta) + by_delta)
        return np.asarray(np.sum(mass - log_reach_slope(epsilon, self._delta), axis=0))

    def _chunks(self, size: int) -> Iterator[slice]:
        step = max(1, _CHUNK // size)
        for start in range(0, self._num_bases, step):
            yield slice(start, start + step)

    def _log_mass(self, bases: slice, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Log of the masses in R_s of some bases, of shape (n, i, k); no use where v >= epsilon."""
        flat = shrunk.ravel()
        shape = (-1, *shrunk.shape)
        inner_outside = self._log_outside(bases, flat).reshape(shape)
        inner_gained = self._log_gained(bases, flat).reshape(shape)
        outer_outside = self._log_outside(bases, epsilon)[:, :, None]
        outer_gained = self._log_gained(bases, epsilon)[:, :, None]
        # Of the masses on either side of epsilon, the smaller one keeps its digits.
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
        """Log of C(0, delta) - C(x, delta), float64 of shape (n, m)."""
        return self._grid.evaluate(self._gained, bases, x) + log_growth(x, self._delta)

    def _log_shift(self, bases: slice, epsilon: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Log of C(v, s delta) - C(v, delta), float64 of shape (n, i, k)."""
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
    """The steps from 0 to delta, several to a standard deviation of an error rate."""
    if delta == 0:
        return 0
    most = float(max(np.max(counts.n0), np.max(counts.n1)))
    return min(4 + math.ceil(_STEPS_PER_DEVIATION * delta * math.sqrt(most)), _MOST_STEPS)


def _mean_shift(by_delta: FloatArray, delta: float) -> FloatArray:
    """Log of the mean of -dC/d delta from s delta to delta, for s = 0 to 1, of shape (n, k, r)."""
    steps = by_delta.shape[-1] - 1
    cells = cell_masses(by_delta) - math.log(steps)
    sums = np.logaddexp.accumulate(cells[..., ::-1], axis=-1)[..., ::-1]
    means = sums - np.log(np.linspace(1, 0, steps + 1)[:-1])
    return np.concatenate([means, by_delta[..., -1:]], axis=-1)
