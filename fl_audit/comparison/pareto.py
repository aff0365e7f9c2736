"""The Pareto front: the settings that no other setting dominates beyond noise."""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


def pareto_front(
    lower: FloatArray, upper: FloatArray, accuracy: FloatArray
) -> npt.NDArray[np.bool_]:
    """The points that no other dominates, where small epsilon and large accuracy are better.

    A point dominates another if its interval of epsilon lies below that of the other and its
    accuracy is no smaller. The intervals may touch if the accuracy is larger, so that for intervals
    without width this is the usual front: at least as good in both, and better in one. Negoescu et
    al. 2024 take the convex hull of point estimates, which asks in addition that no mixture of two
    settings is better, and has no place for an infinite epsilon.

    Args:
      lower: The lower end of each point's epsilon, possibly infinite, float64 of shape (num,).
      upper: The upper end likewise.
      accuracy: Accuracy of each point, finite, float64 of shape (num,).

    Returns:
      Whether each point is on the front, bool of shape (num,).
    """
    is_below, is_apart = upper[:, None] <= lower, upper[:, None] < lower
    is_as_accurate, is_better = accuracy[:, None] >= accuracy, accuracy[:, None] > accuracy
    dominates = (is_apart & is_as_accurate) | (is_below & is_better)
    is_dominated: npt.NDArray[np.bool_] = dominates.any(axis=0)
    return ~is_dominated
