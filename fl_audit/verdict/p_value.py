"""The p-value of a claim: the smallest level at which the tests together contradict it."""

import functools
import math
from collections.abc import Callable, Sequence

from fl_audit.verdict.claim import Claim
from fl_audit.verdict.claim_tests import Bound, ClaimTest, ClaimTests

SMALLEST_LEVEL = 1e-9
"""The smallest level of a single bound that is tried."""

_LARGEST_LEVEL = 0.999
_PRECISION = 0.02


def p_value(tests: ClaimTests, bounds: Sequence[Bound], claim: Claim) -> float:
    """The smallest alpha at which the bounds, together at confidence 1 - alpha, exceed the claim.

    This is m times the smallest level at which one of the m bounds exceeds the claim, at most 1,
    found by bisection to a relative 2 % from above. It is at most 1 - confidence if and only if the
    claim is contradicted at `tests.confidence`, on which a verdict rests. Smaller p-values are
    approximate for a method whose tests depend on the level, such as `one_run_valid` with its
    numbers of guesses.

    Args:
      tests: The tests of the claim.
      bounds: The bounds that `tests` prove, the largest first.
      claim: The claim, which is the null hypothesis.

    Returns:
      The p-value, at least m times SMALLEST_LEVEL: smaller ones are not resolved.
    """
    above = [bound.test for bound in bounds if bound.estimate.epsilon > claim.epsilon]
    if above:
        smallest = _smallest(above, claim, SMALLEST_LEVEL, tests.level)
    else:
        smallest = _smallest([bound.test for bound in bounds], claim, tests.level, _LARGEST_LEVEL)
    return min(len(tests) * smallest, 1.0)


def _smallest(tests: Sequence[ClaimTest], claim: Claim, low: float, high: float) -> float:
    """The smallest level above `low` at which any test rejects the claim; 1 if none at `high`."""
    found = 1.0
    for test in tests:
        rejects = functools.partial(test.rejects, claim.epsilon, claim.delta)
        if rejects(min(found, high)):
            found = _smallest_level(rejects, low, min(found, high))
    return found


def _smallest_level(rejects: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest level up to `high` at which a test rejects, to _PRECISION from above."""
    while high > low * (1 + _PRECISION):
        middle = math.sqrt(low * high)
        if rejects(middle):
            high = middle
        else:
            low = middle
    return high
