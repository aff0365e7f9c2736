"""Attackers: what each of them sees of every round, and how it scores canaries at the end."""

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.compared_vectors import ComparedVectors, depends_on_vectors
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import RoundCosines, RoundLog
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads, ScoredCanaries
from fl_audit.config_tables.audit import Audit
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog


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
      uploads: The noised uploads of the canaries of the round, by canary, each float32 of shape
        (dim,) in the direction in which the model moves; empty where nobody sees uploads. In the
        place of an excluded canary it is what its client sends instead.
    """

    index: int
    before: Float32Array
    aggregate: Float32Array
    after: Float32Array
    clip_norm: float
    uploads: Mapping[int, Float32Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackContext:
    """What attackers need of one run or log.

    Attributes:
      canaries: The canaries that are vectors; empty where canaries hold examples.
      num_canaries: The size of the pool, included and excluded together.
      num_rounds: The number of rounds of the run, or that the log shows.
      audit: The table [audit] of the config.
      initial: The model before the first round, float32 of shape (dim,); None where it is not
        known.
      folder: The run's folder, where attackers keep their state; None for a log.
      completed: The number of rounds that are done, after which the folder holds the state.
      given_cosines: The cosines of a log; None for a run, which logs its own.
      family: The canaries' family, as in `canaries.family`; None where they belong to none,
        so that nothing is known of their null distribution.
      canary_rounds: The rounds of every canary; None where they are not known.
      seed: The seed of the run or of the pool.
      correlation: What correlates the noise over rounds; None where it is independent or not known.
      aggregate_lengths: A function that gives the lengths of a log's aggregates in some rounds,
        from 0, once all were read, NaN where one is not known; None for a run.
      given_uploads: The uploads of a log; None for a run, which logs its own, and where a log has
        none.
    """

    canaries: ScoredCanaries
    num_canaries: int
    num_rounds: int
    audit: Audit
    initial: npt.NDArray[np.float32] | None
    folder: RunFolder | None = None
    completed: int = 0
    given_cosines: RoundCosines | None = None
    family: str | None = None
    canary_rounds: OwnRounds | None = None
    seed: int = 0
    correlation: Correlation | None = None
    aggregate_lengths: Callable[[IndexArray], FloatArray] | None = None
    given_uploads: CanaryUploads | None = None

    @property
    def own_rounds(self) -> OwnRounds:
        """The rounds of every canary.

        Raises:
          ValueError: The rounds are not known.
        """
        if self.canary_rounds is None:
            raise ValueError("the canaries' rounds are not known")
        return self.canary_rounds

    @functools.cached_property
    def round_cosines(self) -> RoundCosines:
        """The cosines of every canary with every aggregate, one log shared by all attackers.

        Raises:
          InputError: Rounds are done, and the run's log is missing or damaged.
        """
        if self.given_cosines is not None:
            return self.given_cosines
        path, shape = self.run_folder.round_cosines, (self.num_rounds, self.num_canaries)
        log = CosineLog.at_round(self.completed, path, *shape)
        concentrations = self.concentration_log(
            self.run_folder.round_concentrations, self.num_rounds
        )
        return RoundLog(self.canaries.cosines, log, concentrations)

    @functools.cached_property
    def uploads(self) -> CanaryUploads:
        """The log of canaries' own uploads.

        Raises:
          InputError: Rounds are done, and the run's log is missing or damaged.
        """
        if self.given_uploads is not None:
            return self.given_uploads
        dim = len(self.initial_model)
        pool = PoolOfUploads(self.canaries, self.family, self.seed, dim, self.own_rounds)
        return CanaryUploads.at_round(
            self.completed, self.run_folder, pool, self.num_rounds, self.num_canaries
        )

    def concentration_log(self, path: Path, num_vectors: int) -> ConcentrationLog | None:
        """The log of a run's vectors; None where no canary's null distribution depends on them.

        Args:
          path: The path of the log.
          num_vectors: The number of its rows.

        Raises:
          InputError: Rounds are done, and the log is missing or damaged.
        """
        if not depends_on_vectors(self.family):
            return None
        return ConcentrationLog.at_round(self.completed, path, num_vectors)

    @property
    def run_folder(self) -> RunFolder:
        """The folder of a run.

        Raises:
          ValueError: The context is a log, which has no folder to write to.
        """
        if self.folder is None:
            raise ValueError("an attacker of a log has no folder to keep anything in")
        return self.folder

    @property
    def initial_model(self) -> npt.NDArray[np.float32]:
        """The model before the first round, float32 of shape (dim,).

        Raises:
          ValueError: There is no initial model.
        """
        if self.initial is None:
            raise ValueError("there is no initial model to attack")
        return self.initial


class Attacker(abc.ABC):
    """An attacker who scores canaries by what it sees; larger scores speak for inclusion.

    Attributes:
      statistics: The statistics that the attacker computes, all of which have the same `needs`.
    """

    statistics: ClassVar[tuple[Statistic, ...]]

    @classmethod
    @abc.abstractmethod
    def from_context(cls, context: AttackContext) -> Self:
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

        A statistic that is left out has a null distribution in closed form only if its `null_of` says
        so.

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
