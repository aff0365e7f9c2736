"""The smallest failure probability at which the looks together still contradict a claim."""

import functools
import math
from collections.abc import Callable, Sequence

from fl_audit.verdict.claim import Claim
from fl_audit.verdict.evidence import Bound, Look, Looks

SMALLEST_LEVEL = 1e-9
"""Of a single bound. Where it still rejects, no smaller level is tried."""

_LARGEST_LEVEL = 0.999
_PRECISION = 0.02


def p_value(looks: Looks, bounds: Sequence[Bound], claim: Claim) -> float:
    """The smallest alpha at which the bounds, together at confidence 1 - alpha, exceed the claim.

    That is m times the smallest level at which one of the m bounds exceeds the claim, at most 1,
    found by bisection to a relative 2 % from above. It is at most 1 - confidence exactly if the
    claim is contradicted at `looks.confidence`, which is what a verdict rests on. A method that
    chooses by its level what it asks (`one_run_valid` its numbers of guesses) makes smaller
    p-values approximate.

    Args:
      looks: what is looked at.
      bounds: what `looks` prove, the most first.
      claim: the null hypothesis.

    Returns:
      At least m times SMALLEST_LEVEL: a smaller p-value is not told from that.
    """
    above = [bound.look for bound in bounds if bound.estimate.epsilon > claim.epsilon]
    if above:
        smallest = _smallest(above, claim, SMALLEST_LEVEL, looks.level)
    else:
        smallest = _smallest([bound.look for bound in bounds], claim, looks.level, _LARGEST_LEVEL)
    return min(len(looks) * smallest, 1.0)


def _smallest(looks: Sequence[Look], claim: Claim, low: float, high: float) -> float:
    """The smallest level above `low` at which any look rejects the claim; 1 if none at `high`."""
    found = 1.0
    for look in looks:
        rejects = functools.partial(look.rejects, claim.epsilon, claim.delta)
        if rejects(min(found, high)):
            found = _smallest_level(rejects, low, min(found, high))
    return found


def _smallest_level(rejects: Callable[[float], bool], low: float, high: float) -> float:
    """Where a look that rejects at `high` ceases to, to _PRECISION from above."""
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        if rejects(middle):
            high = middle
        else:
            low = middle
    return high
