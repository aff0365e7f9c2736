"""The attackers who see noised aggregates: of every round, or of a window of rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_audit.attacks.over_rounds import over_logged_rounds
from fl_audit.attacks.statistics import MAX, SUM, WINDOW_MAX, WINDOW_SUM, Statistic
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.training.attackers.attacker import Attacker, FloatArray, SeenRound, Weights
from fl_audit.training.run.prepare import PreparedRun


@dataclass(frozen=True)
class SeenRounds:
    """Rounds that an attacker sees, and what it makes of their cosines.

    Attributes:
      rounds: from 0.
      maximum: the statistic that is the largest cosine (Andrew et al. Algorithm 2).
      total: the statistic that is the sum of the cosines.
    """

    rounds: range
    maximum: Statistic
    total: Statistic


class AggregateAttacker(Attacker):
    """Sees the noised aggregates of some rounds, or several such attackers with one log."""

    def __init__(self, run: PreparedRun, log: CosineLog, views: Sequence[SeenRounds]) -> None:
        """Attacks a run's canaries.

        Args:
          run: of `prepare`.
          log: of canaries' cosines with aggregates, a row per round of the run.
          views: what the attackers see.
        """
        self._run = run
        self._log = log
        self._views = views

    def see_round(self, seen: SeenRound) -> None:
        """Logs each canary's cosine with the aggregate, where any attacker sees the round."""
        if any(seen.index in view.rounds for view in self._views):
            self._log.write_round(seen.index, self._run.family.cosines(seen.aggregate))

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._log.flush()

    def scores(self, final: Weights) -> Mapping[str, FloatArray]:
        """Maximum and sum over the rounds that each attacker sees."""
        del final
        scores: dict[str, FloatArray] = {}
        for view in self._views:
            seen = over_logged_rounds(self._log, slice(view.rounds.start, view.rounds.stop))
            scores |= {view.maximum.name: seen.maximum, view.total.name: seen.total}
        return scores


def views_of(run: PreparedRun) -> list[SeenRounds]:
    """What the run's threat models let attackers see of its aggregates."""
    audit, num_rounds = run.config.audit, run.schedule.num_rounds
    views = []
    if "all_iterates" in audit.threat_models:
        views.append(SeenRounds(range(num_rounds), MAX, SUM))
    if audit.window_first_round is not None and audit.window_last_round is not None:
        rounds = range(audit.window_first_round - 1, audit.window_last_round)
        views.append(SeenRounds(rounds, WINDOW_MAX, WINDOW_SUM))
    return views
