"""Statistics over rounds, a round at a time: memory does not grow with their number."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.formats.cosine_log import CosineLog

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OverRounds:
    """What the cosines of all rounds come to.

    Attributes:
      num_rounds: rounds looked at.
      maximum: [canaries] largest cosine (Andrew et al. Algorithm 2); -inf without a round.
      total: [canaries] sum of the cosines.
    """

    num_rounds: int
    maximum: FloatArray
    total: FloatArray


def over_rounds(cosines: Iterable[npt.ArrayLike], num_canaries: int) -> OverRounds:
    """Maximum and sum over rounds, summed in float64.

    Args:
      cosines: of every canary with each round's aggregate, of shape (num_canaries,) per round.
      num_canaries: size of the pool.
    """
    maximum, total = np.full(num_canaries, -np.inf), np.zeros(num_canaries)
    num_rounds = 0
    for row in cosines:
        values = np.asarray(row, np.float64)
        np.maximum(maximum, values, out=maximum)
        total += values
        num_rounds += 1
    return OverRounds(num_rounds, maximum, total)


def over_logged_rounds(log: CosineLog, rounds: slice = slice(None)) -> OverRounds:
    """Maximum and sum over the rounds that are written, or those of them in a slice."""
    return over_rounds(log.rows(rounds), log.num_canaries)
