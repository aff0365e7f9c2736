"""Logs what the checks of the mechanism need of every round's aggregate."""

import numpy as np
import numpy.typing as npt

from fl_audit.formats.atomic import write_text
from fl_audit.formats.run_folder import RunFolder
from fl_audit.mechanism_checks import (
    AggregateLog,
    autocorrelation_to_json,
    configured,
    measure,
    strongest_autocorrelation,
    why_not_checked,
)
from fl_audit.training.attackers import SeenRound
from fl_audit.training.run.prepare import PreparedRun

Vector = npt.NDArray[np.float32]


class AggregateWatch:
    """Sees every round; does nothing where the mechanism is not checked."""

    def __init__(self, run: PreparedRun, folder: RunFolder, completed: int) -> None:
        """Starts a folder's log, or goes on with it.

        Args:
          run: of `prepare`.
          folder: that holds this run's identity.
          completed: rounds that are done.

        Raises:
          InputError: rounds are done, and the log is missing or damaged.
        """
        self._run = run
        self._folder = folder
        self._sizes = run.task.classifier.variable_sizes
        # After an interruption the last aggregate is gone: one round is not compared with it.
        self._last: Vector | None = None
        self._log: AggregateLog | None = None
        if why_not_checked(run.config.mechanism) is None:
            rounds = run.schedule.num_rounds
            self._log = AggregateLog.at_round(
                completed, folder.aggregates, rounds, len(self._sizes)
            )

    def see_round(self, seen: SeenRound, participants: int) -> None:
        """Logs a round.

        Args:
          seen: the round.
          participants: clients and canaries in it.
        """
        if self._log is None:
            return
        self._log.write_round(seen.index, measure(seen.aggregate, self._last, self._sizes))
        self._last = seen.aggregate
        if seen.index == 0:
            self._look_for_autocorrelation(seen, participants)

    def flush(self) -> None:
        """Writes the log to the disk."""
        if self._log is not None:
            self._log.flush()

    def _look_for_autocorrelation(self, seen: SeenRound, participants: int) -> None:
        asked = configured(
            seen.clip_norm,
            float(participants),
            sum_noise_multiplier=self._run.noise.sum_noise_multiplier,
            denominator=self._run.schedule.expected_cohort,
        )
        found = None
        if asked.stddev > 0:
            found = strongest_autocorrelation(seen.aggregate, asked.stddev, asked.norm_bound)
        write_text(self._folder.autocorrelation, autocorrelation_to_json(found))
