"""The cells of a one-dimensional grid: where to split them, and a density linear in each."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray

_MOST_PARTS = 8


def trapezoid_errors(points: FloatArray, values: FloatArray) -> FloatArray:
    """The approximate error of the trapezoidal rule in each cell, per unit of the cell's width.

    It is h^2 f'' / 12 for a cell of width h; h f'' is the larger change of slope at its two ends.
    Cells of no width have no error and hide their neighbours' changes of slope.

    Args:
      points: Points, ascending, float64 of shape (..., k).
      values: Values at the points, float64 of shape (..., k).

    Returns:
      The errors of the cells, float64 of shape (..., k - 1).

    >>> trapezoid_errors(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 12.0])).tolist()
    [0.0, 1.0, 1.0]
    """
    widths = np.diff(points)
    slopes = np.diff(values) / np.where(widths > 0, widths, np.inf)
    bends = np.abs(np.diff(slopes)) * ((widths[..., 1:] > 0) & (widths[..., :-1] > 0))
    none = np.zeros((*bends.shape[:-1], 1))
    at_points = np.concatenate([none, bends, none], axis=-1)
    return np.asarray(widths * np.maximum(at_points[..., :-1], at_points[..., 1:]) / 12)


def refined(points: FloatArray, errors: FloatArray, tolerance: float) -> FloatArray:
    """The points, with more of them in cells whose error is too large.

    An error is taken to fall with the third power of a cell's width.

    Args:
      points: Points, ascending, float64 of shape (k,).
      errors: Errors of the cells, float64 of shape (k - 1,).
      tolerance: Largest error allowed to a cell.

    >>> refined(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.8]), 0.1).tolist()
    [0.0, 1.0, 1.5, 2.0]
    """
    parts = np.clip(np.ceil(np.cbrt(errors / tolerance)), 1, _MOST_PARTS)
    new = [
        points[cell] + (points[cell + 1] - points[cell]) * np.arange(1, parts[cell]) / parts[cell]
        for cell in np.flatnonzero(parts > 1)
    ]
    return np.sort(np.concatenate([points, *new]))


def counting(points: FloatArray, masses: FloatArray, negligible: float) -> FloatArray:
    """The points of the cells that count, and of one more cell on each side.

    Args:
      points: Points, ascending, float64 of shape (k,).
      masses: Masses of the cells, float64 of shape (k - 1,).
      negligible: A share of the largest mass; a cell with less does not count.

    >>> points = np.arange(6.0)
    >>> counting(points, np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 1e-9).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    cells = np.flatnonzero(masses > negligible * np.max(masses))
    return points[max(int(cells[0]) - 1, 0) : int(cells[-1]) + 3]


@dataclass(frozen=True, eq=False)
class LinearDensity:
    """A density that is linear between points, normalised.

    Attributes:
      points: Points, ascending, float64 of shape (k,).
      density: Density at the points, at least 0, float64 of shape (k,).
    """

    points: FloatArray
    density: FloatArray

    @property
    def masses(self) -> FloatArray:
        """Masses of the cells, float64 of shape (k - 1,)."""
        return np.asarray(np.diff(self.points) * (self.density[:-1] + self.density[1:]) / 2)

    @property
    def weights(self) -> FloatArray:
        """The probability that each point stands for, float64 of shape (k,)."""
        halves = np.diff(self.points) / 2
        left, right = np.concatenate([[0.0], halves]), np.concatenate([halves, [0.0]])
        return np.asarray((left + right) * self.density)

    @property
    def mean(self) -> float:
        """The mean, by the same trapezoidal rule."""
        return float(np.sum(self.weights * self.points))

    def quantile(self, p: float) -> float:
        """The point below which the share p of the mass lies.

        >>> round(LinearDensity(np.array([0.0, 2.0]), np.array([0.0, 1.0])).quantile(0.25), 12)
        1.0
        """
        sums = np.concatenate([[0.0], np.cumsum(self.masses)])
        cell = min(int(np.searchsorted(sums, p, side="right")) - 1, len(self.points) - 2)
        left, right = self.density[cell], self.density[cell + 1]
        width = self.points[cell + 1] - self.points[cell]
        rest = min(max(p - sums[cell], 0.0), self.masses[cell])
        if rest == 0:
            return float(self.points[cell])
        # left t + (right - left) t^2 / 2 = rest / width, solved without cancellation.
        share = rest / width
        root = np.sqrt(max(left**2 + 2 * (right - left) * share, 0.0))
        return float(self.points[cell] + width * min(2 * share / (left + root), 1.0))
