"""The searches of a verdict for the least number with a monotone property."""

import math
from collections.abc import Callable

_STEP = 3
"""Ratio of consecutive integers in a search."""

_NEAR = 1.5
"""Ratio of consecutive numbers in a search near the first one."""

_CLOSE = 1.2
"""The ratio of a sufficient to an insufficient integer at which the search ends."""


def least(is_so: Callable[[float], bool], low: float, high: float, ratio: float) -> float:
    """The smallest number in [low, high] with a monotone property, at most `ratio` times too large.

    Infinite if the property does not hold at `high`; the numbers are positive.
    """
    if not is_so(high):
        return math.inf
    if is_so(low):
        return low
    return bisected(is_so, low, high, ratio)


def least_near(
    is_so: Callable[[float], bool], near: float, low: float, high: float, ratio: float
) -> float:
    """Like `least`, for a property that is slow to test far from the result."""
    at = near
    if is_so(at):
        while at > low and is_so(at / _NEAR):
            at /= _NEAR
        return low if at <= low else bisected(is_so, at / _NEAR, at, ratio)
    while at < high and not is_so(min(_NEAR * at, high)):
        at *= _NEAR
    return math.inf if at >= high else bisected(is_so, at, min(_NEAR * at, high), ratio)


def bisected(is_so: Callable[[float], bool], low: float, high: float, ratio: float) -> float:
    """Like `least`, for a property known to hold at `high` and not at `low`."""
    while high > low * ratio:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_so(middle) else (middle, high)
    return high


def least_number(
    is_enough: Callable[[int], bool], *, above: int, first: int, most: int
) -> int | None:
    """Nearly the least sufficient integer, rounded up to two digits; None above `most`.

    Args:
      is_enough: Whether a number suffices; larger numbers then suffice too.
      above: A number that is too small.
      first: The first number tried, above `above`.
      most: The largest number tried.
    """
    too_few, enough = above, min(first, most)
    while not is_enough(enough):
        if enough >= most:
            return None
        too_few, enough = enough, min(_STEP * enough, most)
    while enough // _STEP > too_few and is_enough(enough // _STEP):
        enough //= _STEP
    too_few = max(too_few, enough // _STEP)
    while enough > _CLOSE * too_few and enough > too_few + 1:
        middle = round(math.sqrt(too_few * enough))
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    unit = int(10 ** max(len(str(enough)) - 2, 0))
    return -(-enough // unit) * unit
