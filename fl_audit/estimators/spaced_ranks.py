"""Ranks at which a sample is tested: few, and dense at both ends."""

import numpy as np
import numpy.typing as npt

_SPACING = 1.2


def spaced_ranks(n: int) -> npt.NDArray[np.int64]:
    """Ranks that grow by a fifth at each step from 1 and, mirrored, from n, up to the middle.

    Args:
      n: Sample size, at least 1.

    Returns:
      Ranks in [1, n], ascending, int64 of shape (r,).

    >>> spaced_ranks(20).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20]
    """
    nearest = [1]
    while (following := max(nearest[-1] + 1, round(_SPACING * nearest[-1]))) <= n // 2:
        nearest.append(following)
    return np.asarray(np.unique(np.concatenate([nearest, n + 1 - np.array(nearest)])))
