"""Observers that log to TensorBoard, MLflow or Weights & Biases.

Every run writes files for TensorBoard, without TensorFlow.
"""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from fl_audit.extras import import_extra
from fl_audit.run.observers import FinishedRound, RoundObserver, StartedRun


class TensorBoard(RoundObserver):
    """Writes event files: the numbers of metrics.csv, histograms of cosines, config as hparams."""

    def run_started(self, run: StartedRun) -> None:
        """Starts a new event file; raises OSError if it cannot be written."""
        run.folder.tensorboard.mkdir(parents=True, exist_ok=True)
        self._path = _new_event_file(run.folder.tensorboard)
        version = event_pb2.Event(file_version="brain.Event:2")
        self._append([version, _event(hparams_pb(run.parameters, trial_id=run.name))])

    def round_finished(self, finished: FinishedRound) -> None:
        step = finished.metrics.round
        events = [
            _event(scalar_pb(name, value), step) for name, value in finished.numbers().items()
        ]
        if finished.cosines is not None:
            for name, cosines in (
                ("cosines_in_round", finished.cosines.in_round),
                ("cosines_excluded", finished.cosines.excluded),
            ):
                events.append(_event(histogram_pb(name, cosines), step))
        self._append(events)

    def _append(self, events: Sequence[Any]) -> None:
        """Writes events without a buffer, whose flush at exit could fail again."""
        with self._path.open("ab") as file:
            for event in events:
                RecordWriter(file).write(event.SerializeToString())


def _new_event_file(folder: Path) -> Path:
    """A new file with a name that TensorBoard finds; names sort by time."""
    now = time.time()
    name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
    for number in itertools.count():
        path = folder / f"{name}.{number}.v2"
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
    raise AssertionError  # an endless counter


def _event(summary: Any, step: int = 0) -> Any:
    return event_pb2.Event(wall_time=time.time(), step=step, summary=summary)


class MlflowObserver(RoundObserver):
    """Logs to the active MLflow run, or to a new run that the observer starts and ends."""

    def __init__(self) -> None:
        """Raises InputError if MLflow is not installed."""
        self._mlflow = import_extra("mlflow")

    def run_started(self, run: StartedRun) -> None:
        self._is_own = self._mlflow.active_run() is None
        if self._is_own:
            self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_params(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        self._mlflow.log_metrics(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        if self._is_own:
            self._mlflow.end_run("FINISHED" if finished else "KILLED")


class WandbObserver(RoundObserver):
    """Logs to the active W&B run, or to a new run that the observer starts and ends."""

    def __init__(self) -> None:
        """Raises InputError if the client of Weights & Biases is not installed."""
        self._wandb = import_extra("wandb")

    def run_started(self, run: StartedRun) -> None:
        self._is_own = self._wandb.run is None
        self._run = self._wandb.init(name=run.name) if self._is_own else self._wandb.run
        self._run.config.update(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        self._run.log(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        if self._is_own:
            self._run.finish(exit_code=0 if finished else 1)
