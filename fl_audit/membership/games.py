"""The game of an attack: the training points of each challenged model.

Zanella-Béguelin et al. (2022), Experiment 2.
"""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import BoolArray
from fl_audit.errors import InputError


def fair_coins(num: int, rng: np.random.Generator) -> BoolArray:
    """Independent fair coins, the bits b of the game."""
    return rng.random(num) < 0.5


def balanced_coins(num: int, rng: np.random.Generator) -> BoolArray:
    """`num` coins in random order, half of them true (rounded down).

    The coins are not independent; each is fair if num is even.
    """
    return np.asarray(rng.permutation(np.arange(num) < num // 2))


def indistinguishability_game(base: npt.ArrayLike, point: int, bits: npt.ArrayLike) -> BoolArray:
    """The training points of each model: `base`, and `point`, an index, where the bit is 1.

    Args:
      base: Whether each point of the population is in the base, bool of shape (population,).
      point: The index of the adversary's point, which must not be in the base.
      bits: The bit of each model, of shape (models,).

    Returns:
      The points on which each model is trained, bool of shape (models, population).

    Raises:
      InputError: The point is out of range or in the base.
    """
    chosen = np.asarray(base, dtype=np.bool_)
    if not 0 <= point < len(chosen):
        raise InputError(f"point must be from 0 to {len(chosen) - 1}, got {point}")
    if chosen[point]:
        raise InputError(f"point {point} must not be in the base")
    training = np.tile(chosen, (len(np.asarray(bits)), 1))
    training[:, point] = bits
    return training
