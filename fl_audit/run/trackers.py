"""Observers that log to TensorBoard, MLflow or Weights & Biases.

Every run writes files for TensorBoard, without TensorFlow.
"""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tensorboard.compat.proto import event_pb2
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from fl_audit.errors import InputError
from fl_audit.extras import import_extra
from fl_audit.run.observers import FinishedRound, RoundObserver, StartedRun


class TensorBoard(RoundObserver):
    """Writes event files: the numbers of metrics.csv, histograms of cosines, config as hparams."""

    def run_started(self, run: StartedRun) -> None:
        """Raises InputError if the file cannot be written."""
        self._folder = run.folder.tensorboard
        with _refusing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = _new_event_file(self._folder)
            self._write(event_pb2.Event(file_version="brain.Event:2"))
            self._write(_event(hparams_pb(run.parameters, trial_id=run.name)))

    def round_finished(self, finished: FinishedRound) -> None:
        step = finished.metrics.round
        with _refusing(self._folder):
            for name, value in finished.numbers().items():
                self._write(_event(scalar_pb(name, value), step))
            if finished.cosines is not None:
                for name, cosines in (
                    ("cosines_in_round", finished.cosines.in_round),
                    ("cosines_excluded", finished.cosines.excluded),
                ):
                    self._write(_event(histogram_pb(name, cosines), step))
            self._file.flush()

    def run_ended(self, *, finished: bool) -> None:
        with _refusing(self._folder):
            self._file.close()

    def _write(self, event: Any) -> None:
        RecordWriter(self._file).write(event.SerializeToString())


def _new_event_file(folder: Path) -> IO[bytes]:
    """A new file with a name that TensorBoard finds; names sort by time."""
    now = time.time()
    name = f"events.out.tfevents.{int(now)}.{socket.gethostname()}.{os.getpid()}"
    for number in itertools.count():
        with contextlib.suppress(FileExistsError):
            return (folder / f"{name}.{number}.v2").open("xb")
    raise AssertionError  # the count has no end


def _event(summary: Any, step: int = 0) -> Any:
    return event_pb2.Event(wall_time=time.time(), step=step, summary=summary)


@contextlib.contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    """Turns an OSError about the event files into an `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


class MlflowObserver(RoundObserver):
    """Logs to the active MLflow run, or to a new one that it starts and ends."""

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
    """Logs to the active W&B run, or to a new one that it starts and ends."""

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
