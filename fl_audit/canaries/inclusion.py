"""Which canaries of the pool take part: by a coin each, a fixed half, or one of each pair."""

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.estimators.scores import Inclusion
from fl_audit.seeds import Stream, generator


def draw_included(
    inclusion: Inclusion, seed: int, num_canaries: int, probability: float = 0.5
) -> npt.NDArray[np.bool_]:
    """Draws which canaries take part.

    Args:
      inclusion: How it is decided.
      seed: The seed of the run.
      num_canaries: The size of the pool.
      probability: The probability with which a coin includes a canary.

    Returns:
      Whether each canary is included, bool of shape (num_canaries,).

    Raises:
      InputError: All coins are equal, or the pool has no half.
    """
    if num_canaries == 0:
        return np.zeros(0, np.bool_)
    match inclusion:
        case "coins" | "unequal_coins":
            return flip_coins(seed, num_canaries, probability)
        case "fixed_half":
            return draw_half(seed, num_canaries)
        case "pairs":
            return draw_of_pairs(seed, num_canaries)


def flip_coins(seed: int, num_canaries: int, probability: float = 0.5) -> npt.NDArray[np.bool_]:
    """Flips a coin for each canary (Steinke et al. Algorithm 1, lines 1 to 3).

    The one-run test needs independent coins; the Gaussian fit and the threshold bounds allow them.

    Args:
      seed: The seed of the run.
      num_canaries: The size of the pool.
      probability: The probability with which a canary is included, in (0, 1).

    Returns:
      The coins, bool of shape (num_canaries,), True where the canary is included.

    Raises:
      InputError: All coins are equal, so that there is nothing to compare.
    """
    included = generator(seed, Stream.INCLUSION).random(num_canaries) < probability
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


def draw_of_pairs(seed: int, num_canaries: int) -> npt.NDArray[np.bool_]:
    """Draws one canary of each pair by a fair coin (Steinke et al. appendix A).

    Canaries 0 and 1 are a pair, 2 and 3, and so on.

    Returns:
      Whether each canary is included, bool of shape (num_canaries,).

    Raises:
      InputError: The number of canaries is odd, or there are fewer than two pairs.
    """
    if num_canaries < 4 or num_canaries % 2:
        raise InputError(
            "canaries.inclusion: 'pairs' needs an even number of canaries (canaries.count), at "
            f"least 4, got {num_canaries}"
        )
    takes_first = generator(seed, Stream.INCLUSION).random(num_canaries // 2) < 0.5
    included = np.empty(num_canaries, np.bool_)
    included[::2], included[1::2] = takes_first, ~takes_first
    return included


def pair_names(inclusion: Inclusion, num_canaries: int) -> tuple[str, ...]:
    """The pair of each canary of the pool, by its number; nothing where there are no pairs."""
    if inclusion != "pairs":
        return ()
    return tuple(str(canary // 2) for canary in range(num_canaries))
