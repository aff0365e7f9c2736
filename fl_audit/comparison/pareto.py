"""Which settings no other setting beats."""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


def pareto_front(epsilon: FloatArray, accuracy: FloatArray) -> npt.NDArray[np.bool_]:
    """The points that no other dominates: smaller epsilon is better, larger accuracy is better.

    A point dominates another that it equals or beats in both and beats in one; equal points stand
    or fall together. Negoescu et al. 2024 take the convex hull, a part of these points: it asks in
    addition that no mixture of two settings is better, and has no place for an infinite epsilon.

    Args:
      epsilon: [points] may be infinite.
      accuracy: [points] finite.

    Returns:
      [points] whether each is on the front.
    """
    # Best first: a point is on the front if it is the most accurate of its epsilon, and more
    # accurate than every point of a smaller epsilon.
    on_front = np.zeros(len(epsilon), dtype=bool)
    best = -np.inf
    for value in np.unique(epsilon):
        ties = epsilon == value
        most = accuracy[ties].max()
        if most > best:
            on_front |= ties & (accuracy == most)
            best = most
    return on_front
