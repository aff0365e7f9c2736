"""The maximum and the sum of cosines over rounds, in memory independent of their number."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


@dataclass(frozen=True, eq=False)
class OverRounds:
    """The maximum and the sum of each canary's cosines over rounds.

    Attributes:
      maximum: The largest cosine of each canary (Andrew et al. Algorithm 2), float64 of shape
        (num_canaries,); -inf without a round.
      total: The sum of the cosines of each canary, float64 of shape (num_canaries,).
    """

    maximum: FloatArray
    total: FloatArray


def over_rounds(cosines: Iterable[npt.ArrayLike], num_canaries: int) -> OverRounds:
    """Computes the maximum and the sum over rounds, in float64.

    Args:
      cosines: The cosines of every canary with each round's aggregate, of shape (num_canaries,)
        per round.
      num_canaries: The size of the pool.
    """
    maximum, total = np.full(num_canaries, -np.inf), np.zeros(num_canaries)
    for row in cosines:
        values = np.asarray(row, np.float64)
        np.maximum(maximum, values, out=maximum)
        total += values
    return OverRounds(maximum, total)
