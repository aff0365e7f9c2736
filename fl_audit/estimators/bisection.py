"""The largest epsilon at which something still holds."""

import math
from collections.abc import Callable


def largest_epsilon(holds: Callable[[float], bool]) -> float:
    """The supremum of the epsilon >= 0 at which `holds`, to the last bit.

    Returns 0 if it does not hold at 0, and infinity if it holds at every finite epsilon.

    Args:
        holds: true up to some epsilon and false from there on.

    >>> largest_epsilon(lambda epsilon: epsilon < 3.5)
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
