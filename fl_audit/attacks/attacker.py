"""Attackers: what they see of each round, and how they score canaries after the last."""

import abc
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation, Release
from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.compared_vectors import ComparedVectors, depends_on_vectors
from fl_audit.attacks.directions import RoundDirections
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import RoundCosines, RoundLog
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads, ScoredCanaries
from fl_audit.config_tables.audit import Audit
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog, Mode, mode_after


@dataclass(frozen=True, eq=False)
class SeenRound:
    """Everything visible in one round; an attacker uses the part that its threat model allows.

    Attributes:
      index: The round, counted from 0.
      before: The model when the round began, float32 of shape (dim,).
      aggregate: The round's noised aggregate, float32 of shape (dim,), with the sign of the model's
        movement.
      after: The model when the round ended, float32 of shape (dim,).
      clip_norm: The norm that updates were clipped to; infinite without clipping.
      uploads: The noised uploads of the round's canaries, by canary, each float32 of shape (dim,)
        with the sign of the model's movement; for an excluded canary, what its client sends
        instead, if anything. Empty if uploads are not seen.
    """

    index: int
    before: Float32Array
    aggregate: Float32Array
    after: Float32Array
    clip_norm: float
    uploads: Mapping[int, Float32Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackContext:
    """The run or log under attack.

    Attributes:
      canaries: The canaries, if they are vectors; empty if they hold examples.
      num_canaries: The size of the pool, included and excluded together.
      num_rounds: The number of rounds of the run or of the log.
      audit: The table [audit] of the config.
      initial: The model before the first round, float32 of shape (dim,); None if this model is not
        known.
      folder: The folder of a run in training, for the attackers' state; otherwise None.
      completed: The number of rounds that the state in the folder includes.
      given_cosines: Logged cosines; None for a run in training, which logs cosines itself.
      family: The canaries' family, as in `canaries.family`; None if canaries are of no family, so
        that their null distribution is unknown.
      canary_rounds: The rounds of every canary; None if these rounds are not known.
      seed: The seed of the run or of the pool.
      correlation: The correlation of the noise over rounds; None if rounds have independent noise,
        or if the correlation is not known.
      aggregate_lengths: A function from rounds (from 0) to the norms of their aggregates, NaN where
        not known; called after all rounds were read, and needed if there is a `correlation` but no
        `folder`.
      given_uploads: Logged uploads, if any; None for a run in training, which logs uploads itself.
      release: The release of the run or log; None if the release is not known.
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
    aggregate_lengths: Callable[[IntArray], FloatArray] | None = None
    given_uploads: CanaryUploads | None = None
    release: Release | None = None

    @property
    def own_rounds(self) -> OwnRounds:
        """The rounds of every canary; raises ValueError if they are not known."""
        if self.canary_rounds is None:
            raise ValueError("the canaries' rounds are not known")
        return self.canary_rounds

    @functools.cached_property
    def round_cosines(self) -> RoundCosines:
        """The cosines of every canary with every aggregate, one log shared by all attackers."""
        if self.given_cosines is not None:
            return self.given_cosines
        folder = self.run_folder
        return self.round_log(folder.round_cosines, folder.round_concentrations, self.num_rounds)

    @functools.cached_property
    def cosines_and_directions(self) -> RoundCosines:
        """As `round_cosines`, for which a run in training also logs the aggregates' directions."""
        cosines = self.round_cosines
        if isinstance(cosines, RoundLog) and self.family is not None:
            path, kept = self.run_folder.round_directions, self.run_folder.kept_directions
            dim = len(self.initial_model)
            cosines.keep_directions(
                RoundDirections.opened(self._mode, path, self.num_rounds, self.seed, dim, kept=kept)
            )
        return cosines

    @functools.cached_property
    def uploads(self) -> CanaryUploads:
        """The log of canaries' own uploads."""
        if self.given_uploads is not None:
            return self.given_uploads
        dim = len(self.initial_model)
        pool = PoolOfUploads(self.canaries, self.family, self.seed, dim, self.own_rounds)
        return CanaryUploads.opened(
            self._mode, self.run_folder, pool, self.num_rounds, self.num_canaries
        )

    def round_log(self, cosines: Path, concentrations: Path, num_vectors: int) -> RoundLog:
        """The log of canaries' cosines with a run's vectors, and of the vectors' concentrations."""
        log = CosineLog.opened(self._mode, cosines, num_vectors, self.num_canaries)
        needed = None
        if depends_on_vectors(self.family):
            needed = ConcentrationLog.opened(self._mode, concentrations, num_vectors)
        return RoundLog(self.canaries.cosines, log, needed)

    @property
    def _mode(self) -> Mode:
        return mode_after(self.completed)

    @property
    def run_folder(self) -> RunFolder:
        """The folder of a run; raises ValueError for a log, which has no folder to write to."""
        if self.folder is None:
            raise ValueError("an attacker of a log has no folder to keep anything in")
        return self.folder

    @property
    def initial_model(self) -> npt.NDArray[np.float32]:
        """The model before the first round, of shape (dim,); raises ValueError if not known."""
        if self.initial is None:
            raise ValueError("there is no initial model to attack")
        return self.initial


class Attacker(abc.ABC):
    """An attacker who scores canaries; larger scores are evidence for inclusion.

    Attributes:
      statistics: The statistics that the attacker computes, all with the same `needs`.
    """

    statistics: ClassVar[tuple[Statistic, ...]]

    @classmethod
    @abc.abstractmethod
    def from_context(cls, context: AttackContext) -> Self:
        """Makes the attacker of a run or a log, with the state after the completed rounds."""

    def see_round(self, seen: SeenRound) -> None:  # noqa: B027 - some attackers see no round
        """Processes a round; after a crash the rounds since the last checkpoint come again."""

    def flush(self) -> None:  # noqa: B027 - some have no state
        """Writes the attacker's state to the disk, right before each checkpoint is saved.

        After a crash in between, the run continues from the previous checkpoint, so the state at
        that checkpoint must be kept too.
        """

    @abc.abstractmethod
    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """Scores by statistic, each float64 of shape (num_canaries,), after the last round.

        Args:
          final: The trained model, float32 of shape (dim,); None for a log without one, for
            which only statistics that need no model are computed.
        """

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """The vectors compared with canaries, by statistic, for computing null distributions.

        Called after `scores`, with the same `final`. A statistic that is left out here has a
        closed-form null only if its `null_of` returns one.
        """
        return {}


class ModelAttacker(Attacker):
    """An attacker who sees no round, and scores by the final model."""

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        if final is None:
            raise ValueError(f"{type(self).__name__} needs the final model")
        return self.scores_of_model(final)

    @abc.abstractmethod
    def scores_of_model(self, final: Float32Array) -> Mapping[str, FloatArray]:
        """Scores by statistic, each of shape (num_canaries,), from a model of shape (dim,)."""
