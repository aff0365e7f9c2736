"""Observers of a run: their base class, metrics.csv, progress, warnings, and the list of tries.

No observer imports TensorFlow; docs/observers.md explains how to write one.
"""

import dataclasses
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.measured_canary_check import RoundLengths, canary_check_in_rounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.canaries.canary_tables import family_of
from fl_audit.checks import CanaryCheck
from fl_audit.checks.canary_watch import CanaryWatch
from fl_audit.checks.training_faults import TrainingCurves, training_faults
from fl_audit.config import Config
from fl_audit.config.commitment import tries_of
from fl_audit.config.file import Scalar, flat_scalars
from fl_audit.config.tries import list_try
from fl_audit.errors import InputError
from fl_audit.estimators.anytime import LARGEST_TESTED
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import (
    COLUMNS,
    RoundMetrics,
    metrics_text,
    read_metrics,
    row_text,
)
from fl_audit.formats.round_logs import CosineLog
from fl_audit.formats.text_files import append_whole, reading, write_text
from fl_audit.mechanisms import client_lengths
from fl_audit.number_words import lower_bound_text
from fl_audit.progress import Progress, warn

if TYPE_CHECKING:
    from fl_audit.engines.prepare import PreparedRun


@dataclass(frozen=True)
class StartedRun:
    """A run at its start or when it is resumed.

    `completed_rounds` is above 0 if the run continues after a checkpoint.
    """

    folder: RunFolder
    config: Config
    num_rounds: int
    completed_rounds: int

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def parameters(self) -> dict[str, Scalar]:
        """The values of the config by `section.key`, without keys that are not set."""
        return flat_scalars(msgspec.to_builtins(self.config))


_RELEASED = ("clip_norm", "noise_stddev", "aggregate_norm", "accuracy")
"""The metrics that follow from models, aggregates and config."""


@dataclass(frozen=True, eq=False)
class CanaryCosines:
    """The cosines of canaries with the noised aggregate of one round.

    Attributes:
      in_round: Cosines of canaries that participated in the round, float64 of shape (k,).
      excluded: Cosines of excluded canaries, float64 of shape (l,).
    """

    in_round: FloatArray
    excluded: FloatArray

    def means(self) -> dict[str, float]:
        """The mean of each kind of cosines by name, omitting empty kinds."""
        named = {"cosine_in_round": self.in_round, "cosine_excluded": self.excluded}
        return {name: float(cosines.mean()) for name, cosines in named.items() if cosines.size}


@dataclass(frozen=True, eq=False)
class FinishedRound:
    """A finished round.

    Attributes:
      metrics: The metrics of the round.
      cosines: The cosines of canaries with the round's aggregate; None if no attacker computes
        them, or if participation is secret.
      contradicted_at: The lower bound that contradicts the claim and stops the run; 0 if no bound
        does.
      is_secret: Whether participation in the round is secret.
    """

    metrics: RoundMetrics
    cosines: CanaryCosines | None = None
    contradicted_at: float = 0.0
    is_secret: bool = False

    def numbers(self) -> dict[str, float]:
        """The round's numbers by name, for an experiment tracker.

        Secret rounds give only numbers that follow from the release: participants' losses without
        noise, their number and the times could reveal who participated.
        """
        named = dataclasses.asdict(self.metrics)
        known = {
            name: float(value)
            for name, value in named.items()
            if value is not None and name != "round" and (name in _RELEASED or not self.is_secret)
        }
        return known if self.cosines is None else known | self.cosines.means()


class RoundObserver:
    """Receives every round of a run, such as a progress bar or a log.

    A subclass overrides the methods it needs. An error in such a method ends the run, which can be
    resumed.
    """

    def run_started(self, run: StartedRun) -> None:
        """Called before the first round, and again when a run is resumed."""

    def round_finished(self, finished: FinishedRound) -> None:
        """Called after every round; after a crash, again for rounds since the last checkpoint."""

    def run_ended(self, *, finished: bool) -> None:
        """Called once after `run_started`, on any end of the run.

        Args:
          finished: Whether training is complete; else it was interrupted, or an error ended it.
        """


# metrics.csv.


def flush_rows(folder: RunFolder) -> None:
    """Waits until the rows of metrics.csv have reached the disk."""
    with folder.metrics.open("rb") as file:
        os.fsync(file.fileno())


class MetricsCsv(RoundObserver):
    """Appends rounds to metrics.csv, which can be read during the run."""

    def run_started(self, run: StartedRun) -> None:
        """Starts the file, or continues it after the last checkpoint."""
        self._path = run.folder.metrics
        if run.completed_rounds:
            _truncate(self._path, run.completed_rounds)
        else:
            write_text(self._path, metrics_text([]))

    def round_finished(self, finished: FinishedRound) -> None:
        append_whole(self._path, row_text(finished.metrics).encode())


def _truncate(path: Path, completed_rounds: int) -> None:
    """Drops the rows of rounds after the checkpoint, and an incomplete last line."""
    with reading(path):
        header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
    if header.rstrip("\n") != ",".join(COLUMNS):
        raise InputError(f"{path}: columns must be {','.join(COLUMNS)}")
    if len(lines) < completed_rounds:
        raise InputError(
            f"{path}: has {len(lines)} rows, must have one for each of the {completed_rounds} "
            "rounds that the checkpoint counts"
        )
    write_text(path, "".join([header, *lines[:completed_rounds]]))


# Standard error while a run trains.


class ProgressDisplay(RoundObserver):
    """Shows the rounds, the latest evaluation and the lower bound so far."""

    def __init__(self, first_round: str = "") -> None:
        """`first_round` is why the first round takes longer; empty if it does not."""
        self._first_round = first_round

    def run_started(self, run: StartedRun) -> None:
        self._evaluated: dict[str, str] = {}
        self._progress = Progress(
            run.name, run.num_rounds, "round", run.completed_rounds, self._first_round
        )

    def round_finished(self, finished: FinishedRound) -> None:
        metrics = finished.metrics
        if metrics.accuracy is not None:
            self._evaluated = {
                "loss": f"{metrics.train_loss:.3f}",
                "accuracy": f"{metrics.accuracy:.3f}",
            }
        bound = {}
        if lower_bound := metrics.epsilon_lower_bound:
            most = " (the largest value tested)" if lower_bound >= LARGEST_TESTED else ""
            bound = {"lower bound for a canary": f"ε ≥ {lower_bound_text(lower_bound)}{most}"}
        self._progress.advance(facts=self._evaluated | bound)

    def run_ended(self, *, finished: bool) -> None:
        self._progress.close()


class VerdictLine(RoundObserver):
    """Warns that a run stops because the rounds so far contradict its claim."""

    def run_started(self, run: StartedRun) -> None:
        self._audit = run.config.audit

    def round_finished(self, finished: FinishedRound) -> None:
        if finished.contradicted_at == 0:
            return
        claimed, lower_bound = self._audit.claimed_epsilon, ""
        if claimed is not None:
            lower_bound = f" (lower bound {lower_bound_text(finished.contradicted_at)})"
        claim = "the claimed curve" if claimed is None else f"the claim of epsilon {claimed:g}"
        warn(f"round {finished.metrics.round}: {claim} is contradicted{lower_bound}; the run stops")


_FIRST_LOOK = 10
"""The number of rounds before the first check."""


class FaultLines(RoundObserver):
    """Checks the rounds' metrics and warns once of each fault; again after a resume."""

    def __init__(self, run: "PreparedRun") -> None:
        self._rows: list[RoundMetrics] = []
        self._next_look = _FIRST_LOOK
        self._reported: set[str] = set()
        outputs = run.task.classifier.num_classes if run.task.labels == "classes" else 1
        self._num_classes = outputs if outputs > 1 else None
        self._denominator = run.release.denominator

    def run_started(self, run: StartedRun) -> None:
        """Reads the rounds of earlier sessions from metrics.csv."""
        self._rows = read_metrics(run.folder.metrics)

    def round_finished(self, finished: FinishedRound) -> None:
        """Checks the rounds so far whenever their number has grown by 1 %."""
        self._rows.append(finished.metrics)
        if len(self._rows) < self._next_look:
            return
        self._next_look = len(self._rows) + max(1, len(self._rows) // 100)
        of_rows = (
            [row.clip_norm for row in self._rows],
            [row.train_loss for row in self._rows],
            [np.nan if row.accuracy is None else row.accuracy for row in self._rows],
            [row.num_clients for row in self._rows],
            [row.num_canaries for row in self._rows],
        )
        curves = TrainingCurves(*(np.array(values, np.float64) for values in of_rows))
        for fault in training_faults(curves, self._num_classes, self._denominator):
            if fault.name not in self._reported:
                self._reported.add(fault.name)
                warn(f"round {finished.metrics.round}: {fault.name}: {fault.words}")


class CanaryLines(RoundObserver):
    """Repeats the canary check of vector canaries; lost canaries end the run or cause a warning."""

    def __init__(self, run: "PreparedRun") -> None:
        self._run = run

    def run_started(self, run: StartedRun) -> None:
        """Reads the rounds of earlier sessions from metrics.csv."""
        self._folder = run.folder
        self._rows = read_metrics(run.folder.metrics)
        self._watch = CanaryWatch(
            run.num_rounds,
            choice=run.config.audit.lost_canaries,
            warn=warn,
            key="audit.lost_canaries",
            scored=len(self._rows),
        )

    def round_finished(self, finished: FinishedRound) -> None:
        """Raises CanariesLostError if canaries are lost, unless the config wants a warning."""
        self._rows.append(finished.metrics)
        self._watch.see(len(self._rows), finished.metrics.round, self._canary_check)

    def _canary_check(self, false_alarm: float) -> CanaryCheck | None:
        """The canary check of the rounds so far; None without a log of vectors' cosines."""
        family, path = family_of(self._run.config.canaries), self._folder.round_cosines
        if family is None or not path.exists():
            return None
        log, completed = CosineLog.read(path, len(self._run.included)), len(self._rows)
        return canary_check_in_rounds(
            itertools.takewhile(lambda row: row[0] < completed, numbered_rows(log)),
            self._run.own_rounds,
            self._run.included,
            self._lengths,
            dim=self._run.task.classifier.dim,
            family=family,
            are_secret=self._run.secret is not None,
            false_alarm=false_alarm,
        )

    def _lengths(self) -> RoundLengths:
        clip_norms = np.array([row.clip_norm for row in self._rows], np.float64)
        participants = np.array([row.num_clients + row.num_canaries for row in self._rows])
        return RoundLengths(
            np.array([row.aggregate_norm for row in self._rows], np.float64),
            client_lengths(
                self._run.config.mechanism, self._run.release.denominator, clip_norms, participants
            ),
        )


class TryLister(RoundObserver):
    """Adds a run to the list of runs under its commitment, and warns if it is not the first.

    The run is listed once its chain of rounds has begun.
    """

    def __init__(self, commitment: Path) -> None:
        self._commitment = commitment

    def run_started(self, run: StartedRun) -> None:
        """Lists the run; a resumed run is listed already."""
        number = list_try(self._commitment, run.folder)
        if number > 1:
            warn(
                f"this is run {number} under {self._commitment.name} (the list is in "
                f"{tries_of(self._commitment).name}): `fl-audit verify` will report the other runs"
            )
