"""Null laws of scores in common units, in which they can be compared, and audits be simulated."""

import math
from collections.abc import Sequence

import numpy as np

from fl_audit.estimators import (
    GaussianCanaryNull,
    LargestOfRoundsNull,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.null import AtMostNull
from fl_audit.verdict.claim_tests import ScoredStatistic

SIMULATED_DIM = 10**12
"""The dimension of simulated cosines, so large that all of them are below 1."""

_UNIT = SIMULATED_DIM**-0.5

_FAR_OUT = 5.0
"""Standard deviations at which null laws are compared: about where bounds of audits are proven."""

_ALIKE = 0.5
"""Difference of log probabilities there up to which null laws count as equally hard."""


def standard_null(statistic: ScoredStatistic) -> NullTail | None:
    """What is known of an excluded score, as if it were a cosine in `SIMULATED_DIM` dimensions.

    Bounds lose as much to it as to the statistic's own law: a bound that holds for any vector is
    heavier than the Gaussian law, and the union over rounds heavier than one of them.

    Returns:
      None where nothing is known, so that excluded scores have to tell.
    """
    tail = statistic.null.known_tail()
    if tail is None:
        return None
    unit = _unit(tail)
    if unit is None:  # a law from outside the package
        return GaussianCanaryNull(SIMULATED_DIM)
    return ScaledNull(_of_equal_rounds(tail), _UNIT / unit)


def hardest(statistics: Sequence[ScoredStatistic]) -> list[ScoredStatistic]:
    """The statistics with whose null laws least can be proven: unknown ones, else the heaviest.

    Args:
      statistics: The statistics to choose from, at least one.
    """
    nulls = [standard_null(statistic) for statistic in statistics]
    unknown = [one for one, null in zip(statistics, nulls, strict=True) if null is None]
    if unknown:
        return unknown
    heavy = [float(n.log_tail_upper(_FAR_OUT * _UNIT)) for n in nulls if n is not None]
    order = np.argsort(heavy)[::-1]
    return [statistics[at] for at in order if heavy[at] >= max(heavy) - _ALIKE]


def _unit(tail: NullTail) -> float | None:
    """The standard deviation of the score that a law is about; None where it is not known."""
    match tail:
        case SignCanaryNull(dim=dim) | GaussianCanaryNull(dim=dim):
            return 1 / math.sqrt(dim)
        case ScaledNull(of=of, scale=scale):
            unit = _unit(of)
            return None if unit is None else scale * unit
        case AtMostNull(of=of):
            return _unit(of)
        case LargestOfRoundsNull(rounds=rounds):
            return _unit(rounds[0])
        case _:
            return None


def _of_equal_rounds(tail: NullTail) -> NullTail:
    """The law of a maximum over as many rounds, all like the heaviest, which is computed once."""
    if not isinstance(tail, LargestOfRoundsNull):
        return tail
    at = _FAR_OUT * (_unit(tail) or 0.0)
    heaviest = max(set(tail.rounds), key=lambda null: float(null.log_tail_upper(at)))
    return LargestOfRoundsNull(len(tail.rounds) * (heaviest,))
