"""What every attacker does while a system trains."""

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
    """What there is to see of one round; an attacker looks at what its threat model allows.

    Attributes:
      index: The round, counted from 0.
      before: The model when the round began, float32 of shape (dim,).
      aggregate: The round's noised aggregate, float32 of shape (dim,), as the model moves.
      after: The model when the round ended, float32 of shape (dim,).
      clip_norm: The norm that updates were clipped to; infinite where nothing clips.
    """

    index: int
    before: Float32Array
    aggregate: Float32Array
    after: Float32Array
    clip_norm: float


class Attacker(abc.ABC):
    """Scores canaries by what it sees; its scores are the larger, the more like a member.

    Attributes:
      statistics: The statistics that it fills, all of which need the same things.
    """

    statistics: ClassVar[tuple[Statistic, ...]]

    @classmethod
    @abc.abstractmethod
    def of(cls, context: AttackContext) -> Self:
        """The attacker of a run or a log.

        Args:
          context: What is attacked.

        Raises:
          InputError: What the attacker should have remembered is missing or damaged.
        """

    @abc.abstractmethod
    def see_round(self, seen: SeenRound) -> None:
        """Looks at a round; after a crash it is shown the rounds since the last checkpoint anew."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what it remembers to the disk; called right before each checkpoint is saved.

        A crash in between leaves the checkpoint before: what that one needs has to stay.
        """

    @abc.abstractmethod
    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """Scores by statistic, each of shape (num_canaries,), after the last round.

        Args:
          final: The trained model, float32 of shape (dim,); None for a log without one, which asks
            for no statistic that needs it.
        """

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """What is known of the vectors behind its scores, by statistic, after the last round.

        A statistic that is left out has no null law in closed form but for what its `law` says.

        Args:
          final: As for `scores`, which has been asked before.
        """
        del final
        return {}


class ModelAttacker(Attacker):
    """Sees no round, and scores by the final model."""

    def see_round(self, seen: SeenRound) -> None:
        """Does not look."""

    def flush(self) -> None:
        """Has nothing to remember."""

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
        """Scores by statistic, each of shape (num_canaries,).

        Args:
          final: The trained model, float32 of shape (dim,).
        """
