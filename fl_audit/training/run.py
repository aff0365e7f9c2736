"""One run, from a config to a folder of scores.

`prepare` checks everything that can be checked before a file is written; `train` fills a claimed
folder. What `train` has done survives kill -9 up to the last checkpoint.
"""

import dataclasses
import importlib.metadata
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from fl_audit.canaries.families import FAMILIES, CanaryFamily
from fl_audit.canaries.inclusion import flip_coins
from fl_audit.config import Config
from fl_audit.errors import Interrupted
from fl_audit.participation import Schedule, make_schedule
from fl_audit.run_folder import STATISTICS, RunFolder, RunRecord, write_record
from fl_audit.score_file import ScoreFile, write_score_file
from fl_audit.tasks import load_task
from fl_audit.tasks.classifier import LearningTask
from fl_audit.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from fl_audit.training.cohort_data import CohortData
from fl_audit.training.cosine_log import CosineLog
from fl_audit.training.evaluation import Evaluator
from fl_audit.training.interruption import StopRequest, stop_request
from fl_audit.training.mechanism import RoundNoise, round_noise
from fl_audit.training.metrics_log import MetricsLog, RoundMetrics, read_rows
from fl_audit.training.native_runtime import native_runtime
from fl_audit.training.process import (
    RoundResult,
    build_process,
    flatten_weights,
    model_weights,
    run_round,
)

_PACKAGES = (
    "fl-audit",
    "numpy",
    "tensorflow",
    "tensorflow-federated",
    "tensorflow-privacy",
    "dp-accounting",
)


@dataclass(frozen=True)
class PreparedRun:
    """Everything that a run is made of, checked.

    Attributes:
      config: of the run.
      task: model and data.
      included: bool of shape (num_canaries,), the coins.
      family: the canaries' vectors.
      schedule: who takes part when.
      noise: of one round.
    """

    config: Config
    task: LearningTask
    included: npt.NDArray[np.bool_]
    family: CanaryFamily
    schedule: Schedule
    noise: RoundNoise

    @property
    def expected_cohort(self) -> float:
        """Expected number of clients and canaries in a round."""
        return self.schedule.expected_clients + self.schedule.expected_canaries

    @property
    def delta(self) -> float:
        """Delta of the audit: the config's, else N^-1.1 for N clients (Andrew et al. section 5)."""
        num_clients = len(self.task.population.client_ids)
        return self.config.audit.delta or float(num_clients) ** -1.1


def prepare(config: Config) -> PreparedRun:
    """Loads the data, flips the coins and draws the schedule; writes nothing.

    Raises:
      InputError: the data cannot be used, or the parts of the config do not fit together.
    """
    included = flip_coins(config.seed, config.canaries.count)
    task = load_task(config.task, config.seed)
    num_clients = len(task.population.client_ids)
    schedule = make_schedule(
        config.participation, config.canaries, config.seed, num_clients, included
    )
    expected_cohort = schedule.expected_clients + schedule.expected_canaries
    family = FAMILIES[config.canaries.family]
    return PreparedRun(
        config=config,
        task=task,
        included=included,
        family=family(config.seed, config.canaries.count, task.classifier.dim),
        schedule=schedule,
        noise=round_noise(config.mechanism, expected_cohort),
    )


def canaries_csv(run: PreparedRun) -> str:
    """The pool as `canary_id,included,rounds`; rounds count from 1, separated by spaces."""
    rounds: list[list[str]] = [[] for _ in run.included]
    for round_index in range(run.schedule.num_rounds):
        for canary in run.schedule.cohort(round_index).canaries:
            rounds[canary].append(str(round_index + 1))
    lines = [
        f"{canary},{int(included)},{' '.join(rounds[canary])}"
        for canary, included in enumerate(run.included)
    ]
    return "\n".join(["canary_id,included,rounds", *lines]) + "\n"


def train(run: PreparedRun, folder: RunFolder) -> None:
    """Trains, scores and fills a claimed folder; goes on where a checkpoint stands.

    Args:
      run: of `prepare`.
      folder: that holds this run's identity.

    Raises:
      Interrupted: SIGTERM or SIGINT came; the state is saved.
      InputError: the folder's checkpoint does not belong to this run.
    """
    process = build_process(run.task.classifier, run.config, run.expected_cohort)
    num_workers = os.cpu_count() or 1
    with stop_request() as stop, native_runtime(folder.worker_log, num_workers):
        checkpoint = _starting_point(folder, process.initialize())
        loop = _Loop(run, folder, process, checkpoint.completed_rounds, stop)
        state = loop.run_from(checkpoint)
    _write_results(run, folder, state, loop.cosine_log)


def _starting_point(folder: RunFolder, initial_state: Any) -> Checkpoint:
    if folder.checkpoint.exists():
        return load_checkpoint(folder.checkpoint, initial_state)
    return Checkpoint(0, initial_state)


class _Loop:
    """The round loop: train, score, log, now and then evaluate and checkpoint."""

    def __init__(
        self, run: PreparedRun, folder: RunFolder, process: Any, completed: int, stop: StopRequest
    ) -> None:
        self._run = run
        self._folder = folder
        self._process = process
        self._stop = stop
        self._cohort_data = CohortData(run.task, run.config.client, run.family, run.config.seed)
        self._evaluator = Evaluator(run.task.classifier, run.task.held_out)
        self._metrics = MetricsLog(folder, completed)
        log = CosineLog.open if completed else CosineLog.create
        shape = (run.schedule.num_rounds, run.config.canaries.count)
        self.cosine_log = log(folder.round_cosines, *shape)

    def run_from(self, checkpoint: Checkpoint) -> Any:
        """Runs the remaining rounds and returns the last state."""
        state, last = checkpoint.state, self._run.schedule.num_rounds
        rounds = range(checkpoint.completed_rounds, last)
        bar = tqdm(
            rounds, "rounds", last, initial=rounds.start, unit="round", disable=None, leave=False
        )
        for round_index in bar:
            state = self._round(state, round_index, bar)
            completed = round_index + 1
            is_due = completed % self._run.config.log.checkpoint_every == 0
            if is_due or completed == last or self._stop.signal_number:
                self._save(Checkpoint(completed, state))
            if self._stop.signal_number and completed < last:
                raise Interrupted(completed, self._stop.signal_number)
        self._metrics.close()
        return state

    def _save(self, checkpoint: Checkpoint) -> None:
        self.cosine_log.flush()
        save_checkpoint(self._folder.checkpoint, checkpoint)

    def _round(self, state: Any, round_index: int, bar: "tqdm[int]") -> Any:
        cohort = self._run.schedule.cohort(round_index)
        started = time.perf_counter()
        result = run_round(self._process, state, self._cohort_data.of(cohort, round_index))
        trained = time.perf_counter()
        self.cosine_log.write_round(round_index, self._run.family.cosines(result.aggregate))
        scored = time.perf_counter()
        metrics = RoundMetrics(
            round=round_index + 1,
            num_clients=len(cohort.clients),
            num_canaries=len(cohort.canaries),
            clip_norm=result.clip_norm,
            noise_stddev=result.noise_stddev,
            train_loss=result.train_loss,
            accuracy=self._accuracy(result, round_index + 1),
            seconds_training=trained - started,
            seconds_scoring=scored - trained,
        )
        self._metrics.write(metrics)
        if metrics.accuracy is not None:
            bar.set_postfix(loss=f"{result.train_loss:.3f}", accuracy=f"{metrics.accuracy:.3f}")
        return result.state

    def _accuracy(self, result: RoundResult, completed: int) -> float | None:
        is_due = completed % self._run.config.log.evaluate_every == 0
        if is_due or completed == self._run.schedule.num_rounds:
            return self._evaluator.accuracy(model_weights(result.state))
        return None


def _write_results(run: PreparedRun, folder: RunFolder, state: Any, cosine_log: CosineLog) -> None:
    """Writes the score files, then the record."""
    final = flatten_weights(model_weights(state))
    initial = flatten_weights(run.task.classifier.initial_weights)
    scores = {
        "final": run.family.cosines(final),
        "final_minus_initial": run.family.cosines(final - initial),
        "max": cosine_log.maxima(),
        "sum": cosine_log.sums(),
    }
    ids = tuple(str(canary) for canary in range(run.config.canaries.count))
    for statistic in STATISTICS:
        scored = ScoreFile(ids, run.included, scores[statistic])
        write_score_file(folder.scores(statistic), scored)
    write_record(folder, _record(run, folder))


def _record(run: PreparedRun, folder: RunFolder) -> RunRecord:
    rows = read_rows(folder.metrics)
    return RunRecord(
        task=run.task.name,
        runtime="native",
        dim=run.task.classifier.dim,
        num_clients=len(run.task.population.client_ids),
        num_canaries=len(run.included),
        num_included=int(run.included.sum()),
        rounds=run.schedule.num_rounds,
        delta=run.delta,
        client_participations=run.schedule.client_participations,
        canary_participations=run.schedule.canary_participations,
        sampling_probability=run.schedule.sampling_probability,
        **dataclasses.asdict(run.noise),
        denominator=run.expected_cohort,
        accuracy=float(rows[-1]["accuracy"]),
        accuracy_description=run.task.classifier.accuracy_description,
        training_seconds=sum(float(row["seconds_training"]) for row in rows),
        scoring_seconds=sum(float(row["seconds_scoring"]) for row in rows),
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )
