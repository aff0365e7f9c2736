"""How much of a guarantee an audit can prove at most, by the number of its canaries."""

import math
from dataclasses import dataclass

from fl_audit.accounting.attacker_bounds import AttackerBound, GaussianPair
from fl_audit.estimators.optimal_tests import largest_provable, largest_provable_gaussian

_MOST_CANARIES = 10**8
"""The largest number of canaries that is tried."""


@dataclass(frozen=True)
class Provable:
    """The largest lower bounds on epsilon that any test could have proven, in the median.

    Attributes:
      epsilon: By bounds that hold for any mechanism.
      gaussian: By bounds that hold for Gaussian mechanisms; None where what the attacker sees is
        not a Gaussian mechanism.
    """

    epsilon: float
    gaussian: float | None


def most_provable(
    bound: AttackerBound, num_included: int, delta: float, confidence: float
) -> Provable | None:
    """What an ideal auditor proves against the pair that dominates what an attacker sees.

    Args:
      bound: What holds against the attacker.
      num_included: The number of included canaries.
      delta: The delta of the bounds, in (0, 1).
      confidence: The confidence of the bounds, in (0, 1).

    Returns:
      The bounds, no larger than the guarantee; None without a pair or without canaries.
    """
    if bound.pair is None or num_included == 0:
        return None
    limit = math.inf if bound.guarantee.epsilon is None else bound.guarantee.epsilon
    epsilon = largest_provable(bound.pair.optimal_tests(), num_included, delta, confidence)
    gaussian = None
    if isinstance(bound.pair, GaussianPair):
        shift = bound.pair.shift
        gaussian = min(limit, largest_provable_gaussian(shift, num_included, delta, confidence))
    return Provable(min(limit, epsilon), gaussian)


def canaries_to_prove(
    bound: AttackerBound, share: float, delta: float, confidence: float
) -> int | None:
    """The least number of canaries, half of them included, that can prove a share of a guarantee.

    Args:
      bound: What holds against the attacker.
      share: The share of the guarantee, in (0, 1).
      delta: The delta of the bounds, in (0, 1).
      confidence: The confidence of the bounds, in (0, 1).

    Returns:
      The number, to 1 %; None where the guarantee is unknown, 0 or infinite, or where no number up
        to 100 million is enough.
    """
    limit = bound.guarantee.epsilon
    if limit is None or not 0 < limit < math.inf or bound.pair is None:
        return None
    tests = bound.pair.optimal_tests()

    def is_enough(canaries: int) -> bool:
        provable = largest_provable(tests, canaries // 2, delta, confidence)
        return provable >= share * limit

    low, high = 1, 2
    while not is_enough(high):
        low, high = high, 2 * high
        if high > _MOST_CANARIES:
            return None
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
