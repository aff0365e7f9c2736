"""The membership games: the training points of each challenged model.

Zanella-Béguelin et al. (2022), Experiments 1 and 2.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import BoolArray, IndexArray
from fl_audit.errors import InputError


@dataclass(frozen=True, eq=False)
class Challenges:
    """The challenges of a game, each a model to train and a point whose membership is guessed.

    Attributes:
      training: The points on which each model is trained, bool of shape (challenges, population).
      point: Index of the adversary's point, int64 of shape (challenges,).
      member: Whether the model is trained on this point, bool of shape (challenges,).
    """

    training: BoolArray
    point: IndexArray
    member: BoolArray


def fair_coins(num: int, rng: np.random.Generator) -> BoolArray:
    """Independent fair coins, the bits b of the games."""
    return rng.random(num) < 0.5


def balanced_coins(num: int, rng: np.random.Generator) -> BoolArray:
    """`num` coins in random order, half of them true (rounded down).

    The coins are not independent; each is fair if num is even.
    """
    return np.asarray(rng.permutation(np.arange(num) < num // 2))


def membership_game(
    population: int, n: int, bits: npt.ArrayLike, rng: np.random.Generator
) -> Challenges:
    """Experiment 1 (MIA): a model is trained on n - 1 random points and z_0 or z_1, also random.

    The bit b picks z_b. The adversary's point is z_0, a member if b is 0. All n + 1 points are
    drawn from the population without replacement.

    Args:
      population: Number of points to draw from, at least n + 1.
      n: Number of training points, at least 1.
      bits: The bit b of each challenge, of shape (challenges,).
      rng: Source of the points.

    Raises:
      InputError: n is out of range.
    """
    second = np.asarray(bits, dtype=np.bool_)
    if not 1 <= n < population:
        raise InputError(f"n must be from 1 to {population - 1}, got {n}")
    points = np.stack([rng.permutation(population)[: n + 1] for _ in second]).astype(np.int64)
    training = np.zeros((len(second), population), np.bool_)
    rows = np.arange(len(second))
    training[rows[:, None], points[:, 2:]] = True
    training[rows, np.where(second, points[:, 1], points[:, 0])] = True
    return Challenges(training, points[:, 0], ~second)


def indistinguishability_game(base: npt.ArrayLike, point: int, bits: npt.ArrayLike) -> Challenges:
    """Experiment 2 (IND-MIA): the adversary's `base`, with `point` added where the bit is 1."""
    chosen = np.asarray(base, dtype=np.bool_)
    added = np.asarray(bits, dtype=np.bool_)
    if not 0 <= point < len(chosen):
        raise InputError(f"point must be from 0 to {len(chosen) - 1}, got {point}")
    if chosen[point]:
        raise InputError(f"point {point} lies in the base; it must not")
    training = np.tile(chosen, (len(added), 1))
    training[:, point] = added
    return Challenges(training, np.full(len(added), point), added)
