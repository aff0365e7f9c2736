"""What attackers are made from: the canaries, and what there is of the run or the log."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.compared_vectors import depends_on_vectors
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import RoundCosines, RoundLog
from fl_audit.formats.concentration_log import ConcentrationLog
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.run_folder import RunFolder

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit


class ScoredCanaries(Protocol):
    """Canaries that are vectors, such as a `CanaryFamily` or a `CanaryPool`."""

    def cosines(self, target: npt.NDArray[np.float32], /) -> npt.NDArray[np.float64]:
        """Cosine of every canary with a float32 vector of shape (dim,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackContext:
    """One run or log, as far as attackers need it.

    Attributes:
      canaries: The canaries that are vectors; none where they hold examples.
      num_canaries: Size of the pool, included and excluded together.
      num_rounds: Rounds of the run, or that the log shows.
      audit: The table [audit] of the config.
      initial: The model before the first round, float32 of shape (dim,); None where nobody says it.
      folder: The run's folder, where attackers keep what they remember; None for a log.
      completed: Rounds that are done, whose memories the folder holds.
      given_cosines: The cosines of a log; None for a run, which logs its own.
      family: The canaries' family, as in `canaries.family`; None where they are no vectors of one,
        so that nothing is known of their null law.
      canary_rounds: The rounds of every canary; None where nobody says them.
    """

    canaries: ScoredCanaries
    num_canaries: int
    num_rounds: int
    audit: "Audit"
    initial: npt.NDArray[np.float32] | None
    folder: RunFolder | None = None
    completed: int = 0
    given_cosines: RoundCosines | None = None
    family: str | None = None
    canary_rounds: OwnRounds | None = None

    @property
    def own_rounds(self) -> OwnRounds:
        """The rounds of every canary.

        Raises:
          ValueError: Nobody says them.
        """
        if self.canary_rounds is None:
            raise ValueError("the canaries' rounds are not known")
        return self.canary_rounds

    @functools.cached_property
    def round_cosines(self) -> RoundCosines:
        """Every canary's cosine with every round's aggregate, one log for all attackers.

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

    def concentration_log(self, path: Path, num_vectors: int) -> ConcentrationLog | None:
        """The log of a run's vectors; None where the canaries' null law does not depend on them.

        Args:
          path: Of the log.
          num_vectors: Rows that it has.

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
          ValueError: This is a log, into which nothing is written.
        """
        if self.folder is None:
            raise ValueError("an attacker of a log has no folder to keep anything in")
        return self.folder

    @property
    def initial_model(self) -> npt.NDArray[np.float32]:
        """The model before the first round, float32 of shape (dim,).

        Raises:
          ValueError: There is none.
        """
        if self.initial is None:
            raise ValueError("there is no initial model to attack")
        return self.initial
