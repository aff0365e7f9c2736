"""All inputs of a report, read from a run folder and checked."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import upload_shift
from fl_audit.accounting.noise_distributions import noise_on_sum
from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, read_compared_vectors
from fl_audit.attacks.statistics import RunFacts, Statistic
from fl_audit.attacks.threat_models import STATISTICS, statistics_of
from fl_audit.canaries.canary_tables import family_of
from fl_audit.checks import AggregateLog, RunAggregates, configured, why_not_checked
from fl_audit.config import Config
from fl_audit.config.file import load_recorded
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import read_metrics
from fl_audit.formats.participation_files import CanaryRow, check_scored, read_canaries
from fl_audit.formats.run_record import RunRecord, read_record
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.mechanisms import MECHANISMS, Mechanism
from fl_audit.secret_digits import rounded_down
from fl_audit.verdict import ScoredStatistic, scored_statistic


@dataclass(frozen=True, eq=False)
class Rounds:
    """The curves of a run, each a value by round, float64 of shape (rounds,)."""

    train_loss: FloatArray  # mean loss over the cohort's examples in nats; NaN if not logged
    accuracy: FloatArray  # on held-out data; NaN in rounds without evaluation
    clip_norm: FloatArray
    participants: FloatArray  # number of clients and canaries together
    aggregate_norm: FloatArray


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run whose training has finished.

    Attributes:
      canary_rounds: Rounds in which each included canary participated, from 0; possibly fewer than
        assigned if the run was stopped.
      scores: Scores of all canaries by statistic.
      aggregates: Inputs of the mechanism checks; None if the mechanism is not checked.
      compared: What is recorded of the vectors compared with canaries, by statistic.
      included: Whether each canary was included, bool of shape (num_canaries,).
      rounds_of_canaries: Rounds, from 0, assigned to each canary, included or excluded.
      arms: The arm of every canary; empty without arms.
    """

    folder: RunFolder
    config: Config
    record: RunRecord
    rounds: Rounds
    canary_rounds: tuple[npt.NDArray[np.int64], ...]
    scores: Mapping[str, ScoreFile]
    aggregates: RunAggregates | None
    compared: Mapping[str, ComparedVectors] = field(default_factory=dict)
    included: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    rounds_of_canaries: tuple[npt.NDArray[np.int64], ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that the run logged."""
        return statistics_of(self.config.canaries, self.config.audit)

    @property
    def facts(self) -> RunFacts:
        """The facts of the run on which null distributions of statistics depend."""
        family = family_of(self.config.canaries)
        release = self.record.release
        shift = upload_shift(release.noise, release.canary.sampling.most_drawn)
        return RunFacts(self.config.audit, self.record.dim, family, self.compared, shift)

    def scored(self, statistic: Statistic) -> ScoredStatistic:
        """The scores of one of the run's statistics, with their null distribution."""
        return scored_statistic(statistic, self.scores[statistic.name].canary_scores(), self.facts)

    def included_in(self, seen: range) -> int:
        """Number of included canaries that participated in any of the rounds `seen`, from 0."""
        return sum(
            bool(((seen.start <= rounds) & (rounds < seen.stop)).any())
            for rounds in self.canary_rounds
        )


def check_together(folder: RunFolder, record: RunRecord) -> None:
    """Raises InputError if the folder's files changed or come from different runs."""
    chain = folder.checked_chain()
    if chain is None:
        return
    if chain.scored_rounds != record.rounds_done:
        raise InputError(
            f"{folder.record}: is of {record.rounds_done} rounds, but {folder.chain.name} of "
            f"{chain.scored_rounds}; both files must be of one run"
        )
    for name in chain.changed(folder.path):
        raise InputError(
            f"{folder.path / name}: has changed since the run wrote it, so that it may not match "
            "the run's other files; restore the original"
        )


def read_finished_run(folder: RunFolder) -> FinishedRun:
    """Reads a run folder."""
    record = read_record(folder)
    check_together(folder, record)
    pool = read_canaries(folder.canaries)
    if len(pool) != record.num_canaries:
        raise InputError(
            f"{folder.canaries}: must list the {record.num_canaries} canaries of "
            f"{folder.record.name}, got {len(pool)}"
        )
    config = load_recorded(folder.config)
    scores = {
        s.name: read_scores_of(folder.scores(s.name), pool)
        for s in statistics_of(config.canaries, config.audit)
    }
    return assembled_run(
        folder,
        config=config,
        record=record,
        pool=pool,
        scores=scores,
        compared=read_compared_vectors(folder.compared_vectors),
    )


def assembled_run(
    folder: RunFolder,
    *,
    config: Config,
    record: RunRecord,
    pool: Mapping[str, CanaryRow],
    scores: Mapping[str, ScoreFile],
    compared: Mapping[str, ComparedVectors],
) -> FinishedRun:
    """A run from its parts, and from the curves and the measured aggregates in its folder.

    `pool` has the canaries with their rounds; the other arguments are attributes of `FinishedRun`.
    """
    known = tuple(canary.rounds for canary in pool.values() if canary.rounds is not None)
    if len(known) != len(pool):
        raise InputError(f"{folder.canaries}: has no column 'rounds'")
    rounds = _read_rounds(folder.metrics, record.rounds_done)
    return FinishedRun(
        folder=folder,
        config=config,
        record=record,
        rounds=rounds,
        canary_rounds=tuple(
            own[own < record.rounds_done]
            for canary, own in zip(pool.values(), known, strict=True)
            if canary.included
        ),
        scores=scores if record.schedule_secret is None else without_rounds(scores),
        aggregates=(
            _read_aggregates(folder, config.mechanism, record, rounds)
            if why_not_checked(config.mechanism) is None
            else None
        ),
        compared=compared,
        included=np.array([canary.included for canary in pool.values()], dtype=np.bool_),
        rounds_of_canaries=known,
        arms=tuple(canary.arm for canary in pool.values() if canary.arm),
    )


def without_rounds(scores: Mapping[str, ScoreFile]) -> dict[str, ScoreFile]:
    """The scores of a run with secret rounds; scores that may reveal rounds are rounded to a grid.

    The digits of a score, or of a bound derived from it, reveal rounds (`secret_digits`). Rounding
    down increases no bound. The grid's step follows from the standard error of the scores' mean.
    """
    rounded = dict(scores)
    for name, file in scores.items():
        statistic = STATISTICS.get(name)
        error = float(file.score.std()) / math.sqrt(len(file.score))
        if statistic is None or statistic.tells_rounds:
            rounded[name] = dataclasses.replace(file, score=rounded_down(file.score, error))
    return rounded


def _read_rounds(path: Path, num_rounds: int) -> Rounds:
    rows = read_metrics(path)
    if [row.round for row in rows] != list(range(1, num_rounds + 1)):
        raise InputError(f"{path}: must hold rounds 1 to {num_rounds} in order, a row each")
    return Rounds(
        train_loss=np.array([row.train_loss for row in rows]),
        accuracy=np.array([row.accuracy for row in rows], np.float64),  # NaN for None
        clip_norm=np.array([row.clip_norm for row in rows]),
        participants=np.array([row.num_clients + row.num_canaries for row in rows], np.float64),
        aggregate_norm=np.array([row.aggregate_norm for row in rows]),
    )


def _read_aggregates(
    folder: RunFolder, mechanism: Mechanism, record: RunRecord, rounds: Rounds
) -> RunAggregates:
    """A run's measured aggregates, with the expected noise and norm of each round."""
    try:
        sum_noise = noise_on_sum(record.release.noise, rounds.participants)
    except ValueError as error:  # a noise distribution that is not registered
        raise InputError(f"{folder.record}: {error}") from error
    expected = configured(
        rounds.clip_norm,
        rounds.participants,
        sum_noise_multiplier=sum_noise,
        denominator=record.release.denominator.expected,
    )
    log = AggregateLog.opened("r", folder, record.rounds, record.variable_sizes)
    stated = np.column_stack([expected.stddev, expected.norm_bound])
    done = np.arange(record.rounds_done)
    return log.aggregates(
        stated,
        done,
        record.variable_sizes,
        record.release.correlation,
        stream=MECHANISMS.kind_of(mechanism).noise_stream(mechanism, record.rounds),
    )


def read_scores_of(path: Path, pool: Mapping[str, CanaryRow]) -> ScoreFile:
    """Reads a score file; raises InputError if it is not about the pool's canaries."""
    scores = read_score_file(path)
    check_scored(path, scores.flags, pool)
    return scores
