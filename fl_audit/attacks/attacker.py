"""Attackers: what each of them sees of every round, and how it scores canaries at the end."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.statistic import Statistic


@dataclass(frozen=True, eq=False)
class SeenRound:
    """All that there is to see of one round; an attacker uses what its threat model allows.

    Attributes:
      index: The round, counted from 0.
      before: The model when the round began, float32 of shape (dim,).
      aggregate: The round's noised aggregate, float32 of shape (dim,), with the sign of the model's
        movement.
      after: The model when the round ended, float32 of shape (dim,).
      clip_norm: The norm that updates were clipped to; infinite where nothing clips.
    """

    index: int
    before: Float32Array
    aggregate: Float32Array
    after: Float32Array
    clip_norm: float


class Attacker(abc.ABC):
    """An attacker who scores canaries by what it sees; larger scores speak for inclusion.

    Attributes:
      statistics: The statistics that the attacker computes, all of which have the same `needs`.
    """

    statistics: ClassVar[tuple[Statistic, ...]]

    @classmethod
    @abc.abstractmethod
    def of(cls, context: AttackContext) -> Self:
        """The attacker of a run or a log.

        Args:
          context: The run or log that is attacked.

        Raises:
          InputError: A file that the attacker should have written is missing or damaged.
        """

    @abc.abstractmethod
    def see_round(self, seen: SeenRound) -> None:
        """Takes in a round; after a crash the rounds since the last checkpoint are shown again."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes the attacker's state to the disk; called right before each checkpoint is saved.

        A crash in between leaves the previous checkpoint, so what that one needs must be kept.
        """

    @abc.abstractmethod
    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The scores by statistic, each float64 of shape (num_canaries,), after the last round.

        Args:
          final: The trained model, float32 of shape (dim,); None for a log without one, which asks
            for no statistic that needs it.
        """

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """What is known of the vectors behind the scores, by statistic, after the last round.

        A statistic that is left out has a null law in closed form only if its `law` says so.

        Args:
          final: The trained model as for `scores`, which must have been called before.
        """
        del final
        return {}


class ModelAttacker(Attacker):
    """An attacker who sees no round, and scores by the final model."""

    def see_round(self, seen: SeenRound) -> None:
        """Ignores the round."""

    def flush(self) -> None:
        """Does nothing, as there is no state to write."""

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """See `Attacker.scores`.

        Raises:
          ValueError: There is no final model.
        """
        if final is None:
            raise ValueError(f"{type(self).__name__} needs the final model")
        return self.scores_of_model(final)

    @abc.abstractmethod
    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """The scores by statistic, each float64 of shape (num_canaries,).

        Args:
          final: The trained model, float32 of shape (dim,).
        """
