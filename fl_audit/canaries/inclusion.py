"""The coins that decide which canaries of the pool take part."""

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.seeds import Stream, generator


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
