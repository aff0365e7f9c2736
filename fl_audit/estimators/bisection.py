"""The largest number for which a condition holds."""

import math
from collections.abc import Callable


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
