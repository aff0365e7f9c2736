"""Scoring of a pool of canaries on all cores."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from fl_audit.cores import num_cores


def score_on_all_cores(
    num_canaries: int, new_scorer: Callable[[], Callable[[int], float]]
) -> npt.NDArray[np.float64]:
    """Scores every canary; each core takes the next one that is left.

    Args:
      num_canaries: The size of the pool.
      new_scorer: A function that makes a function from canary to score; each thread has one, with
        buffers of its own.

    Returns:
      The scores, float64 of shape (num_canaries,).
    """
    scores = np.empty(num_canaries)
    # All threads take from one iterator: a task per canary would hold 2 KB for each.
    canaries = iter(range(num_canaries))

    def score_until_none_is_left(_: int) -> None:
        score = new_scorer()
        for canary in canaries:
            scores[canary] = score(canary)

    num_threads = num_cores()
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(score_until_none_is_left, range(num_threads)))
    return scores
