"""Attackers: what each sees of a run while it trains, and the scores that it gives canaries."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.run_folder import RunFolder
from fl_audit.training.cosine_log import CosineLog
from fl_audit.training.prepare import PreparedRun
from fl_audit.training.round import flatten_weights

FloatArray = npt.NDArray[np.float64]
Weights = Sequence[npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class SeenRound:
    """What there is to see of one round; an attacker looks at what its threat model allows.

    Attributes:
      index: of the round, from 0.
      before: the model's weights when the round began.
      aggregate: the round's noised aggregate, float32 of shape (dim,), as the model moves.
      after: the model's weights when it ended.
    """

    index: int
    before: Weights
    aggregate: npt.NDArray[np.float32]
    after: Weights


class Attacker(abc.ABC):
    """Scores canaries by what it sees; its scores are the larger, the more like a member."""

    @abc.abstractmethod
    def see_round(self, seen: SeenRound) -> None:
        """Looks at a round; after a crash it is shown the rounds since the last checkpoint anew."""

    @abc.abstractmethod
    def flush(self) -> None:
        """Writes what it remembers to the disk; called before each checkpoint."""

    @abc.abstractmethod
    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Scores by statistic, each of shape (num_canaries,), after the last round.

        Args:
          final: the trained model's weights.
        """


class ModelAttacker(Attacker):
    """Sees the final model, and maybe knows the initial one."""

    def __init__(self, run: PreparedRun) -> None:
        """Attacks a run's canaries."""
        self._run = run

    def see_round(self, seen: SeenRound) -> None:
        """Does not look."""

    def flush(self) -> None:
        """Has nothing to remember."""

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Cosines with the final model, and with the final minus the initial one."""
        last = flatten_weights(final)
        initial = flatten_weights(self._run.task.classifier.initial_weights)
        cosines = self._run.family.cosines
        return {"final": cosines(last), "final_minus_initial": cosines(last - initial)}


class AggregateAttacker(Attacker):
    """Sees every round's noised aggregate (Andrew et al. Algorithm 2)."""

    def __init__(self, run: PreparedRun, cosine_log: CosineLog) -> None:
        """Attacks a run's canaries and writes their cosines to a log."""
        self._run = run
        self._log = cosine_log

    def see_round(self, seen: SeenRound) -> None:
        """Logs each canary's cosine with the aggregate."""
        self._log.write_round(seen.index, self._run.family.cosines(seen.aggregate))

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._log.flush()

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Maximum and sum over rounds."""
        del final
        return {"max": self._log.maxima(), "sum": self._log.sums()}


def make_attackers(run: PreparedRun, folder: RunFolder, completed: int) -> tuple[Attacker, ...]:
    """The attackers whose statistics a run logs.

    Args:
      run: of `prepare`.
      folder: that holds this run's identity.
      completed: rounds that are done; their logs are opened where it is not 0.

    Raises:
      InputError: a log that should be there is not.
    """
    log = CosineLog.open if completed else CosineLog.create
    num_canaries = run.config.canaries.count
    cosine_log = log(folder.round_cosines, run.schedule.num_rounds, num_canaries)
    return ModelAttacker(run), AggregateAttacker(run, cosine_log)
