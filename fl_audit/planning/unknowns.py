"""What is unknown of real clients before training, and the range that a plan covers.

The sum of n real updates at the clip norm is between sqrt(n) and n clip norms long: sqrt(n) if they
are orthogonal, n if they are parallel. It is shorter where updates are shorter than the clip norm,
and an adaptive clip norm follows the norms of updates. All unknowns are simulated at the ends of
their range, so that a plan's interval covers them.
"""

import itertools
from dataclasses import dataclass

SPREAD = 0.5
"""Standard deviation of the logarithm of real updates' norms in one round; an assumption."""

FACTOR = 10.0
"""Factor by which the median norm of a real update may exceed or fall below the clip norm."""


@dataclass(frozen=True)
class Unknowns:
    """One way in which real clients may behave.

    Attributes:
      alignment: Cosine between any two real updates of a round, in [0, 1].
      drift: Cosine between the real sums of any two rounds, in [0, 1]; it is also the squared
        cosine between a round's real sum and the part of it that all rounds share.
      first_norm: Median norm of a real update in the first round, over the config's clip norm.
      last_norm: The same in the last round; the logarithm is linear in between.
    """

    alignment: float
    drift: float
    first_norm: float
    last_norm: float


MIDDLE = Unknowns(alignment=0.1, drift=0.1, first_norm=1.0, last_norm=1.0)
"""The point for the tables' medians: nearly orthogonal updates, as in small models."""

_DIRECTIONS = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
"""Ends of alignment and drift, without drift for orthogonal updates, where it hardly occurs."""

_NORMS = tuple(itertools.product((1 / FACTOR, FACTOR), repeat=2))

ENDS = tuple(
    Unknowns(alignment, drift, first, last)
    for (alignment, drift), (first, last) in itertools.product(_DIRECTIONS, _NORMS)
)
"""The ends of the range, which a plan's intervals cover."""
