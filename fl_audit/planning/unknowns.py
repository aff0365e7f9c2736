"""What nobody knows of real clients before training, and the range that a plan covers.

A clipped sum of real updates is between sqrt(n) and n clip norms long for n clients at the clip
norm: orthogonal or parallel. Where updates are shorter than the clip norm it is shorter still. An
adaptive clip follows their norms. All that is left open here is simulated at its ends, so that a
plan's interval covers them.
"""

import itertools
from dataclasses import dataclass

SPREAD = 0.5
"""Standard deviation of the logarithm of real updates' norms in one round; an assumption."""

FACTOR = 10.0
"""How far the median norm of a real update may be from the config's clip norm, either way."""


@dataclass(frozen=True)
class Unknowns:
    """One way in which real clients may behave.

    Attributes:
      alignment: cosine between any two real updates of a round, in [0, 1].
      drift: squared cosine between the part of a round's real sum that all rounds share and that
        sum; also the cosine between the real sums of any two rounds. In [0, 1].
      first_norm: median norm of a real update in the first round, over the config's clip norm.
      last_norm: the same in the last round; the logarithm is linear between them.
    """

    alignment: float
    drift: float
    first_norm: float
    last_norm: float


MIDDLE = Unknowns(alignment=0.1, drift=0.1, first_norm=1.0, last_norm=1.0)
"""A middle for the tables' medians: nearly orthogonal updates, as small models showed them."""

_DIRECTIONS = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
"""Alignment and drift at their ends; where updates are orthogonal, a drift is hardly possible."""

_NORMS = tuple(itertools.product((1 / FACTOR, FACTOR), repeat=2))

ENDS = tuple(
    Unknowns(alignment, drift, first, last)
    for (alignment, drift), (first, last) in itertools.product(_DIRECTIONS, _NORMS)
)
"""The ends of the range, which a plan's intervals cover."""
