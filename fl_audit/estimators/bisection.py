"""Where a condition that holds on one side of a number ends, by bisection."""

import math
from collections.abc import Callable

import numpy as np

from fl_audit.array_types import BoolArray, FloatArray, IntArray


def supremum(holds: Callable[[float], bool]) -> float:
    """The supremum of the numbers >= 0 for which `holds`, to the last bit.

    `holds` is true up to some number and false from there on. Returns 0 if it does not hold at 0,
    and infinity if it holds for every finite number.

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
    """The ends of ever smaller intervals, elementwise; the condition holds up to a point in each.

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
    """The first integers from `low` on for which the condition holds, elementwise; else `high`."""
    while np.any(low < high):
        middle = (low + high) // 2
        found = holds(middle)
        low = np.where(found, low, np.minimum(middle + 1, high))
        high = np.where(found, middle, high)
    return np.asarray(low)
