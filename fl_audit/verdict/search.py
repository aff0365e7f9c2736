"""The searches of a verdict: where a statement about a number begins to hold."""

import math
from collections.abc import Callable

_STEP = 3
"""Ratio of two whole numbers that are tried in turn."""

_NEAR = 1.5
"""Ratio of two numbers that are tried in turn where the first is thought to be near."""

_CLOSE = 1.2
"""Ratio of two whole numbers, too few and enough, between which no other is tried."""


def least(is_so: Callable[[float], bool], low: float, high: float, ratio: float) -> float:
    """The smallest number in [low, high] from which on a statement holds, to a ratio from above.

    Infinite where it does not hold at `high`; the numbers are positive.
    """
    if not is_so(high):
        return math.inf
    if is_so(low):
        return low
    return bisected(is_so, low, high, ratio)


def least_near(
    is_so: Callable[[float], bool], near: float, low: float, high: float, ratio: float
) -> float:
    """As `least`, of a statement that takes long far from where it begins to hold."""
    at = near
    if is_so(at):
        while at > low and is_so(at / _NEAR):
            at /= _NEAR
        return low if at <= low else bisected(is_so, at / _NEAR, at, ratio)
    while at < high and not is_so(min(_NEAR * at, high)):
        at *= _NEAR
    return math.inf if at >= high else bisected(is_so, at, min(_NEAR * at, high), ratio)


def bisected(is_so: Callable[[float], bool], low: float, high: float, ratio: float) -> float:
    """As `least`, of a statement that is known to hold at `high` and not at `low`."""
    while high > low * ratio:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_so(middle) else (middle, high)
    return high


def least_number(
    is_enough: Callable[[int], bool], *, above: int, first: int, most: int
) -> int | None:
    """The smallest whole number that is enough, rounded up to two digits; None above `most`.

    Args:
      is_enough: Whether a number is; larger ones are, then.
      above: A number that is too small.
      first: The number that is tried first, above that.
      most: The largest number that is tried.
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
