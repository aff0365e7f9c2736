"""The models of an attack: random halves to choose members by, then bases with and without them."""

import abc
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.config.attack import AnyAttack
from fl_audit.membership.games import balanced_coins, fair_coins, indistinguishability_game
from fl_audit.membership.lira import ShadowOutputs, WorstPoints, select_worst
from fl_audit.report.attack import AttackedMember, AttackWords, Guaranteed
from fl_audit.seeds import Stream, generator

BoolArray = npt.NDArray[np.bool_]

_MODELS_OF_A_BASE = 1_000_000
"""Models of the first base are numbered from here on, those of the second from twice this on."""

_FIRST_CHALLENGE = _MODELS_OF_A_BASE // 2


@dataclass(frozen=True, eq=False)
class MemberOutputs:
    """What trained models say of the members, which are points or clients.

    Attributes:
      margins: The margin of each member under each model, float64 of shape (models, members).
      losses: Its loss, of the same shape.
      accuracy: The accuracy of each model on what it was not trained on, float64 of shape
        (models,).
    """

    margins: FloatArray
    losses: FloatArray
    accuracy: FloatArray


class Target(abc.ABC):
    """What is attacked: members, and the training of models on some of them.

    Attributes:
      attack: How many models are trained, and how they are judged.
      seed: The seed of the attack.
      delta: The delta of the estimates.
      num_members: The number of members.
      guaranteed: What the training guarantees to a member.
      words: What the report calls things.
    """

    attack: AnyAttack
    seed: int
    delta: float
    num_members: int
    guaranteed: Guaranteed
    words: AttackWords

    @abc.abstractmethod
    def train(self, training: BoolArray, first: int) -> MemberOutputs:
        """Trains models, or reads those that are trained.

        Args:
          training: The members that each model is trained on, bool of shape (models, members).
          first: The number of the first model.
        """

    @abc.abstractmethod
    def base_without(self, member: int, random: np.random.Generator) -> BoolArray:
        """The other members that all models of a base are trained on, bool of shape (members,).

        Args:
          member: The index of the member that the base is without.
          random: The source of what is drawn.
        """

    @abc.abstractmethod
    def member(self, index: int, accuracy: float, separation: float) -> AttackedMember:
        """A member that was chosen, as the report shows it."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """The members that are attacked, and one of the models that they were chosen by.

    Attributes:
      worst: The members.
      training: What that model was trained on, bool of shape (members,).
      margins: Its margins, float64 of shape (members,).
      losses: Its losses, of the same shape.
    """

    worst: WorstPoints
    training: BoolArray
    margins: FloatArray
    losses: FloatArray


@dataclass(frozen=True, eq=False)
class AttackedBase:
    """The outputs of the models on one base, for its member.

    Attributes:
      member: The index of the member.
      shadow: Margins of the member under shadow models, of shape (models, 1).
      challenged: Margins of the member under attacked models, of shape (challenges, 1).
      losses: Losses of the member under attacked models, float64 of shape (challenges,).
      accuracy: The accuracy of the attacked models, of the same shape.
    """

    member: int
    shadow: ShadowOutputs
    challenged: ShadowOutputs
    losses: FloatArray
    accuracy: FloatArray


def choose_members(target: Target) -> Chosen:
    """Trains models on random halves of the members and takes those that are told best.

    Zanella-Béguelin et al. (2022), Algorithm 3. Models come in pairs, of which the second is
    trained on what the first is not, so that every member has as many models with it as without
    (Carlini et al. 2022, section IV).
    """
    training = np.zeros((target.attack.num_shadow, target.num_members), np.bool_)
    for model, mask in enumerate(training):
        random = generator(target.seed, Stream.MODEL_POINTS, 0, model // 2)
        mask[random.permutation(target.num_members)[: target.num_members // 2]] = True
        if model % 2:
            np.logical_not(mask, out=mask)
    outputs = target.train(training, 0)
    worst = select_worst(ShadowOutputs(outputs.margins, training), target.attack.num_members)
    return Chosen(worst, training[0], outputs.margins[0], outputs.losses[0])


def attack_base(target: Target, number: int, member: int) -> AttackedBase:
    """Trains the models of one base with and without a member.

    Shadow models, half of them with the member, and attacked ones, each with it by a fair coin, are
    all independent given the base. Experiment 2 of Zanella-Béguelin et al. (2022).

    Args:
      target: What is attacked.
      number: The number of the base, from 0.
      member: The index of its member.
    """
    random = generator(target.seed, Stream.MODEL_POINTS, 1, number)
    base = target.base_without(member, random)
    first = _MODELS_OF_A_BASE * (number + 1)
    shadow = indistinguishability_game(
        base, member, balanced_coins(target.attack.num_base_shadow, random)
    )
    challenged = indistinguishability_game(
        base, member, fair_coins(target.attack.num_challenges, random)
    )
    of_shadow = target.train(shadow.training, first)
    of_challenged = target.train(challenged.training, first + _FIRST_CHALLENGE)
    return AttackedBase(
        member=member,
        shadow=ShadowOutputs(of_shadow.margins[:, [member]], shadow.member[:, None]),
        challenged=ShadowOutputs(of_challenged.margins[:, [member]], challenged.member[:, None]),
        losses=of_challenged.losses[:, member],
        accuracy=of_challenged.accuracy,
    )
