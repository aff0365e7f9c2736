"""Statistics over rounds, a round at a time: memory does not grow with their number."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


@dataclass(frozen=True, eq=False)
class OverRounds:
    """What the cosines of all rounds come to.

    Attributes:
      maximum: [canaries] largest cosine (Andrew et al. Algorithm 2); -inf without a round.
      total: [canaries] sum of the cosines.
    """

    maximum: FloatArray
    total: FloatArray


def over_rounds(cosines: Iterable[npt.ArrayLike], num_canaries: int) -> OverRounds:
    """Maximum and sum over rounds, summed in float64.

    Args:
      cosines: of every canary with each round's aggregate, of shape (num_canaries,) per round.
      num_canaries: size of the pool.
    """
    maximum, total = np.full(num_canaries, -np.inf), np.zeros(num_canaries)
    for row in cosines:
        values = np.asarray(row, np.float64)
        np.maximum(maximum, values, out=maximum)
        total += values
    return OverRounds(maximum, total)
