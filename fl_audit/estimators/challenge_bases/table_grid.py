"""A grid for each challenge base, fine where the base's own epsilon lies, and splines on it."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts

_NUM_POINTS = 128
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_HALF_NODES, _LOG_HALF_WEIGHTS = (_NODES + 1) / 2, np.log(_WEIGHTS / 2)


@dataclass(frozen=True, eq=False)
class Spline:
    """A cubic spline for each base, in units of the grid's steps.

    Attributes:
      coefficients: Coefficients, the highest power first, float64 of shape (4, k - 1, n, ...).
    """

    coefficients: FloatArray

    @classmethod
    def through(cls, values: FloatArray) -> "Spline":
        """The spline through values of shape (n, k, ...)."""
        return cls(CubicSpline(np.arange(values.shape[1]), values, axis=1).c)


@dataclass(frozen=True, eq=False)
class TableGrid:
    """The points centre_j + width_j sinh(z) of base j, for equally spaced z.

    Attributes:
      centre: Centre of each base's grid, float64 of shape (n, 1).
      width: Width of each base's grid, float64 of shape (n, 1).
      start: The first z, float64 of shape (n, 1).
      step: Step from one z to the next, float64 of shape (n, 1).
    """

    centre: FloatArray
    width: FloatArray
    start: FloatArray
    step: FloatArray

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
        """The points of each base, float64 of shape (n, k)."""
        z = self.start + self.step * np.arange(_NUM_POINTS)
        # The first is 0 but for rounding.
        return np.asarray(np.maximum(self.centre + self.width * np.sinh(z), 0.0))

    @property
    def log_stretch(self) -> FloatArray:
        """Log of the derivative of a point with respect to its index, float64 of shape (n, k)."""
        z = self.start + self.step * np.arange(_NUM_POINTS)
        return np.asarray(np.log(self.width * self.step) + np.log(np.cosh(z)))

    def evaluate(self, spline: Spline, bases: slice, x: FloatArray) -> FloatArray:
        """The splines of some bases at common points.

        Args:
          spline: Splines of all bases.
          bases: The bases to evaluate.
          x: Points in the grid's range, float64 of shape (m,).

        Returns:
          The values, float64 of shape (n, m, ...).
        """
        index = (np.arcsinh((x - self.centre[bases]) / self.width[bases]) - self.start[bases]) / (
            self.step[bases]
        )
        cell = np.clip(index.astype(np.int64), 0, _NUM_POINTS - 2)
        base = np.arange(len(cell))[:, None]
        a, b, c, d = (power[:, bases][cell, base] for power in spline.coefficients)
        u = np.expand_dims(index - cell, tuple(range(2, a.ndim)))
        return np.asarray(((a * u + b) * u + c) * u + d)


def cell_masses(log_density: FloatArray) -> FloatArray:
    """Log of the integral over each cell between equally spaced points, in units of the spacing.

    The logarithm is taken to be a cubic spline.

    Args:
      log_density: Log density at the points, float64 of shape (..., k).

    Returns:
      The logs of the masses, float64 of shape (..., k - 1).

    >>> np.exp(cell_masses(np.log([[1.0, 2.0, 4.0, 8.0]]))).round(6).tolist()  # 1 / log 2, ...
    [[1.442695, 2.88539, 5.77078]]
    """
    points = np.arange(log_density.shape[-1])
    spline = CubicSpline(points, log_density, axis=-1)
    at = points[:-1, None] + _HALF_NODES
    return np.asarray(np.logaddexp.reduce(spline(at) + _LOG_HALF_WEIGHTS, axis=-1))
