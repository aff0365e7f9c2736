"""The models of an attack: random halves to choose points by, then bases with and without them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.config.attack import AttackConfig
from fl_audit.membership.games import balanced_coins, fair_coins, indistinguishability_game
from fl_audit.membership.select_worst import WorstPoints, select_worst
from fl_audit.membership.shadow_outputs import ShadowOutputs
from fl_audit.seeds import Stream, generator

BoolArray = npt.NDArray[np.bool_]

Trainer = Callable[[BoolArray, int], FloatArray]
"""A function of the points of each model, bool of shape (models, points), and the first model's
number, which gives the models' margins, float64 of that shape."""

_MODELS_OF_A_BASE = 1_000_000
"""Models of the first base are numbered from here on, those of the second from twice this on."""

_FIRST_CHALLENGE = _MODELS_OF_A_BASE // 2


@dataclass(frozen=True, eq=False)
class AttackedBase:
    """The outputs of the models on one base, for its point.

    Attributes:
      point: The index of the point.
      shadow: Margins of the point under shadow models, of shape (models, 1).
      challenged: Margins of the point under attacked models, of shape (challenges, 1).
      training: The points of one attacked model without the point, bool of shape (points,).
      margins: That model's margins at all points, float64 of shape (points,).
    """

    point: int
    shadow: ShadowOutputs
    challenged: ShadowOutputs
    training: BoolArray
    margins: FloatArray


def choose_points(config: AttackConfig, num_points: int, train: Trainer) -> WorstPoints:
    """Trains models on random halves of the points and takes those that are told best.

    Zanella-Béguelin et al. (2022), Algorithm 3. Models come in pairs, of which the second is
    trained on what the first is not, so that every point has as many models with it as without
    (Carlini et al. 2022, section IV).
    """
    training = np.zeros((config.attack.num_shadow, num_points), np.bool_)
    for model, mask in enumerate(training):
        rng = generator(config.seed, Stream.MODEL_POINTS, 0, model // 2)
        mask[rng.permutation(num_points)[: num_points // 2]] = True
        if model % 2:
            np.logical_not(mask, out=mask)
    shadow = ShadowOutputs(train(training, 0), training)
    return select_worst(shadow, config.attack.num_points)


def attack_base(
    config: AttackConfig, number: int, point: int, num_points: int, train: Trainer
) -> AttackedBase:
    """Trains the models of one base, a random half of the other points.

    Shadow models, half of them with the point, and attacked ones, each with it by a fair coin, are
    all independent given the base. Experiment 2 of Zanella-Béguelin et al. (2022).

    Args:
      config: The config of the attack.
      number: The number of the base, from 0.
      point: The index of its point.
      num_points: The number of points of the task.
      train: What trains models.
    """
    rng = generator(config.seed, Stream.MODEL_POINTS, 1, number)
    others = np.delete(np.arange(num_points), point)
    base = np.zeros(num_points, np.bool_)
    base[rng.permutation(others)[: num_points // 2 - 1]] = True
    first = _MODELS_OF_A_BASE * (number + 1)
    shadow = indistinguishability_game(
        base, point, balanced_coins(config.attack.num_base_shadow, rng)
    )
    challenged = indistinguishability_game(
        base, point, fair_coins(config.attack.num_challenges, rng)
    )
    of_shadow = train(shadow.training, first)
    of_challenged = train(challenged.training, first + _FIRST_CHALLENGE)
    without = int(np.flatnonzero(~challenged.member)[0])
    return AttackedBase(
        point=point,
        shadow=ShadowOutputs(of_shadow[:, [point]], shadow.member[:, None]),
        challenged=ShadowOutputs(of_challenged[:, [point]], challenged.member[:, None]),
        training=challenged.training[without],
        margins=of_challenged[without],
    )
