"""Everything that a report is made from, read from a run folder and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.attacker_bounds import upload_shift
from fl_audit.accounting.noise_distributions import GAUSSIAN, noise_on_sum
from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import ComparedVectors, read_compared_vectors
from fl_audit.attacks.statistics import RunFacts, Statistic
from fl_audit.attacks.threat_models import statistics_of
from fl_audit.canaries.tables import family_of
from fl_audit.checks import (
    RunAggregates,
    configured,
    read_aggregate_log,
    read_autocorrelation,
    why_not_checked,
)
from fl_audit.checks.measured_rounds import expected_of_log
from fl_audit.config import Config
from fl_audit.config.file import load_recorded
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.participation_files import CanaryRow, check_scored, read_canaries
from fl_audit.formats.run_record import RunRecord, read_record
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.formats.text_files import read_csv
from fl_audit.verdict import ScoredStatistic, scored_statistic


@dataclass(frozen=True, eq=False)
class Rounds:
    """The curves of a run, a value per round.

    Attributes:
      train_loss: Mean loss over the cohort's examples in nats, float64 of shape (rounds,); NaN
        where there is none.
      accuracy: Accuracy on held-out data, float64 of shape (rounds,); NaN in rounds without
        evaluation.
      clip_norm: Norm that updates were clipped to, float64 of shape (rounds,).
      participants: Number of clients and canaries together, float64 of shape (rounds,).
      aggregate_norm: Length of the noised aggregate, float64 of shape (rounds,); NaN in runs of
        versions that did not log it.
    """

    train_loss: FloatArray
    accuracy: FloatArray
    clip_norm: FloatArray
    participants: FloatArray
    aggregate_norm: FloatArray


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that training has completed.

    Attributes:
      folder: The run's folder.
      config: The config that the run was started with.
      record: What the run did.
      rounds: The curves of the run.
      canary_rounds: The rounds that each included canary took part in, from 0; fewer than it was
        dealt where the run was stopped.
      scores: The scores of all canaries by statistic.
      aggregates: What the checks of the mechanism need; None where it is not checked.
      compared: What is known of the vectors that canaries were compared with, by statistic; nothing
        in older runs.
      included: Whether each canary was included, bool of shape (num_canaries,).
      rounds_of_canaries: The rounds of every canary from 0; those that an excluded one would have
        had among them.
      arms: The arm of every canary; nothing where the pool was not dealt to arms.
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
    def participations(self) -> npt.NDArray[np.int64]:
        """Number of rounds of each included canary, int64 of shape (num_included,)."""
        return np.array([len(rounds) for rounds in self.canary_rounds], dtype=np.int64)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that the run logged."""
        return statistics_of(self.config.canaries, self.config.audit)

    @property
    def facts(self) -> RunFacts:
        """What the null distributions of the statistics depend on."""
        family = family_of(self.config.canaries)
        release = self.record.release
        shift = upload_shift(release.noise, release.canary.sampling.most_drawn)
        return RunFacts(self.config.audit, self.record.dim, family, self.compared, shift)

    def scored(self, statistic: Statistic) -> ScoredStatistic:
        """The scores of one of the run's statistics, with their null distribution."""
        return scored_statistic(statistic, self.scores[statistic.name].canary_scores(), self.facts)

    def included_in(self, seen: range) -> int:
        """Number of included canaries that took part in any of some consecutive rounds, from 0."""
        return sum(
            bool(((seen.start <= rounds) & (rounds < seen.stop)).any())
            for rounds in self.canary_rounds
        )


def check_together(folder: RunFolder, record: RunRecord) -> None:
    """Refuses a folder whose files are of several runs, as far as it says what belongs together.

    Args:
      folder: The folder of the run.
      record: What is in its `run.json`.

    Raises:
      InputError: A file is damaged or has changed, or is of another run.
    """
    known = folder.together()
    if known is None:  # as in the oldest folders
        return
    if known.rounds != record.rounds_done:
        said_by = folder.chain if folder.chain.exists() else folder.sources
        raise InputError(
            f"{folder.record}: is of {record.rounds_done} rounds, and {said_by.name} of "
            f"{known.rounds}; both must be of one run"
        )
    for name in known.changed(folder.path):
        raise InputError(
            f"{folder.path / name}: has changed since the run wrote it, so that it may not fit "
            "together with the rest; put back the file that it was"
        )


def read_finished_run(folder: RunFolder) -> FinishedRun:
    """Reads a run folder.

    Raises:
      InputError: A file is missing or damaged, or two of them contradict each other.
    """
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
    """A run made of its parts, with the curves and the measured aggregates that its folder has.

    Args:
      folder: The run's folder.
      config: The config that the run was started with.
      record: What the run did.
      pool: The canaries of the pool, each with its rounds.
      scores: The scores of all canaries by statistic.
      compared: What is known of the vectors behind them, by statistic.

    Raises:
      InputError: A file is missing or damaged, or two of them contradict each other.
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
        scores=scores,
        aggregates=(
            _read_aggregates(folder, record, rounds)
            if why_not_checked(config.mechanism) is None
            else None
        ),
        compared=compared,
        included=np.array([canary.included for canary in pool.values()], dtype=np.bool_),
        rounds_of_canaries=known,
        arms=tuple(canary.arm for canary in pool.values() if canary.arm),
    )


def _read_rounds(path: Path, num_rounds: int) -> Rounds:
    curves = ("train_loss", "accuracy", "clip_norm")
    present = ("num_clients", "num_canaries")
    rows = read_csv(path, ("round", *curves, *present))
    try:
        numbers = [int(row["round"]) for row in rows]
        columns = {
            name: np.array([float(row[name] or "nan") for row in rows])
            for name in (*curves, *present)
        }
        norms = np.array([float(row.get("aggregate_norm", "nan")) for row in rows])
    except ValueError as error:
        raise InputError(f"{path}: holds something that is no number: {error}") from error
    if numbers != list(range(1, num_rounds + 1)):
        raise InputError(f"{path}: must hold rounds 1 to {num_rounds} in order, a row each")
    participants = columns.pop("num_clients") + columns.pop("num_canaries")
    return Rounds(**columns, participants=participants, aggregate_norm=norms)


def _read_aggregates(folder: RunFolder, record: RunRecord, rounds: Rounds) -> RunAggregates | None:
    """What the checks need; None of a run with correlated noise by a version without its checks."""
    if record.release.noise.distribution != GAUSSIAN.name and not folder.aggregates.exists():
        return None
    try:
        sum_noise = noise_on_sum(record.release.noise, rounds.participants)
    except ValueError as error:  # a noise distribution of another version, or of none
        raise InputError(f"{folder.record}: {error}") from error
    expected = configured(
        rounds.clip_norm,
        rounds.participants,
        sum_noise_multiplier=sum_noise,
        denominator=record.release.denominator.expected,
    )
    logged = read_aggregate_log(folder.aggregates, record.rounds, len(record.variable_sizes))
    measured = logged[: record.rounds_done]
    stddev, norm_bound = expected_of_log(
        record.release.correlation,
        expected.stddev,
        expected.norm_bound,
        measured,
        range(record.rounds_done),
    )
    return RunAggregates(
        sizes=record.variable_sizes,
        stddev=stddev,
        norm_bound=norm_bound,
        measured=measured,
        autocorrelation=read_autocorrelation(folder.autocorrelation),
    )


def read_scores_of(path: Path, pool: Mapping[str, CanaryRow]) -> ScoreFile:
    """Reads the scores of a pool's canaries.

    Raises:
      InputError: The file is missing or damaged, or is of other canaries.
    """
    scores = read_score_file(path)
    check_scored(path, scores.flags, pool)
    return scores
