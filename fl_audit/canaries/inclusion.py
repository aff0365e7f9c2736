"""Which canaries of the pool take part: by a fair coin each, or a fixed half of them."""

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.estimators.scores import Inclusion
from fl_audit.seeds import Stream, generator


def draw_included(inclusion: Inclusion, seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Draws which canaries take part.

    Args:
      inclusion: How it is decided.
      seed: The seed of the run.
      num_canaries: The size of the pool.

    Returns:
      Whether each canary is included, bool of shape (num_canaries,).

    Raises:
      InputError: All coins are equal, or the pool has no half.
    """
    if num_canaries == 0:
        return np.zeros(0, np.bool_)
    return {"coins": flip_coins, "fixed_half": draw_half}[inclusion](seed, num_canaries)


def flip_coins(seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Flips a fair coin for each canary (Steinke et al. Algorithm 1, lines 1 to 3).

    The one-run test needs independent coins; the Gaussian fit and the threshold bounds allow them.

    Returns:
      The coins, bool of shape (num_canaries,), True where the canary is included.

    Raises:
      InputError: All coins are equal, so that there is nothing to compare.
    """
    included = generator(seed, Stream.INCLUSION).random(num_canaries) < 0.5
    if included.all() or not included.any():
        side = "included" if included.all() else "excluded"
        raise InputError(
            f"seed {seed}: the coins of all {num_canaries} canaries fell on {side}; "
            "use more canaries (canaries.count) or another seed"
        )
    return included


def draw_half(seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Draws half of the canaries, every half as likely as any other (Andrew et al. section 5).

    Who knows all but one canary's inclusion knows the last one's too, so that the one-run test,
    whose coins are independent, does not hold.

    Returns:
      Whether each canary is included, bool of shape (num_canaries,).

    Raises:
      InputError: The number of canaries is odd or 0.
    """
    if num_canaries < 2 or num_canaries % 2:
        raise InputError(
            "canaries.inclusion: 'fixed_half' needs an even number of canaries (canaries.count), "
            f"got {num_canaries}"
        )
    in_order = np.arange(num_canaries) < num_canaries // 2
    return generator(seed, Stream.INCLUSION).permutation(in_order)
