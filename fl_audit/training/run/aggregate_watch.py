"""The log of what the checks of the mechanism need to know about every round's aggregate."""

from fl_audit.attacks.attacker import SeenRound
from fl_audit.checks import (
    AggregateLog,
    MechanismWatch,
    autocorrelation_to_json,
    configured,
    why_not_checked,
)
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.training.run.prepare import PreparedRun


class AggregateWatch:
    """Shows every round to a `MechanismWatch`, or does nothing if the mechanism is not checked."""

    def __init__(self, run: PreparedRun, folder: RunFolder, completed: int) -> None:
        """Starts the log in a folder, or continues one.

        Args:
          run: The prepared run.
          folder: The folder with this run's config and canaries.
          completed: Number of completed rounds; above 0 the log is continued.

        Raises:
          InputError: The log is to be continued, but is missing or damaged.
        """
        self._run = run
        self._folder = folder
        self._log: AggregateLog | None = None
        if why_not_checked(run.config.mechanism) is None:
            sizes, rounds = run.task.classifier.variable_sizes, run.schedule.num_rounds
            self._log = AggregateLog.at_round(completed, folder.aggregates, rounds, len(sizes))
            self._watch = MechanismWatch(sizes, self._log, completed)

    def see_round(self, seen: SeenRound, participants: int) -> None:
        """Logs a round.

        Args:
          seen: The round as attackers see it.
          participants: Number of clients and canaries in the round.
        """
        if self._log is None:
            return
        asked = configured(
            seen.clip_norm,
            float(participants),
            sum_noise_multiplier=self._run.noise.sum_noise_multiplier,
            denominator=self._run.schedule.expected_cohort,
        )
        self._watch.measure_round(
            seen.aggregate, noise_stddev=asked.stddev, norm_bound=asked.norm_bound
        )
        if seen.index == 0:
            write_text(
                self._folder.autocorrelation, autocorrelation_to_json(self._watch.autocorrelation)
            )

    def flush(self) -> None:
        """Writes the log to the disk."""
        if self._log is not None:
            self._log.flush()
