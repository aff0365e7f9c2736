"""The Pareto front: the settings that no other setting dominates."""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


def pareto_front(epsilon: FloatArray, accuracy: FloatArray) -> npt.NDArray[np.bool_]:
    """The points that no other dominates, where small epsilon and large accuracy are better.

    A point dominates another if it is at least as good in both and better in one; of equal points
    all or none are on the front. Negoescu et al. 2024 take the convex hull, a part of these points:
    it asks in addition that no mixture of two settings is better, and has no place for an infinite
    epsilon.

    Args:
      epsilon: Epsilon of each point, possibly infinite, float64 of shape (num_points,).
      accuracy: Accuracy of each point, finite, float64 of shape (num_points,).

    Returns:
      Whether each point is on the front, bool of shape (num_points,).
    """
    # In ascending epsilon, a point is on the front if it is the most accurate of its epsilon, and
    # more accurate than every point of a smaller epsilon.
    on_front = np.zeros(len(epsilon), dtype=bool)
    best = -np.inf
    for value in np.unique(epsilon):
        ties = epsilon == value
        most = accuracy[ties].max()
        if most > best:
            on_front |= ties & (accuracy == most)
            best = most
    return on_front
