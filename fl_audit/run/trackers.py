"""Observers that log to TensorBoard, MLflow or Weights & Biases.

TensorBoard gets scalars, histograms of cosines and the config as hparams, in every run.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorboard.plugins.hparams import api

from fl_audit.errors import InputError
from fl_audit.extras import import_extra
from fl_audit.run.observers import FinishedRound, RoundObserver, StartedRun


class TensorBoard(RoundObserver):
    """Writes event files: what is in metrics.csv, the canaries' cosines, and the config."""

    def run_started(self, run: StartedRun) -> None:
        """Opens an event file and writes the config.

        Raises:
          InputError: The file cannot be written.
        """
        self._folder = run.folder.tensorboard
        with _refusing(self._folder):
            self._events = tf.summary.create_file_writer(str(self._folder))
            with self._events.as_default():
                api.hparams(run.parameters, trial_id=run.name)
            self._events.flush()

    def round_finished(self, finished: FinishedRound) -> None:
        """Writes the numbers of a round, and its cosines as histograms."""
        with _refusing(self._folder), self._events.as_default(step=finished.metrics.round):
            for name, value in finished.numbers().items():
                tf.summary.scalar(name, value)
            if finished.cosines is not None:
                tf.summary.histogram("cosines_in_round", finished.cosines.in_round)
                tf.summary.histogram("cosines_excluded", finished.cosines.excluded)
            self._events.flush()

    def run_ended(self, *, finished: bool) -> None:
        """Closes the event file."""
        del finished
        with _refusing(self._folder):
            self._events.close()


@contextlib.contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    """Turns TensorFlow's errors about the event files into an `InputError`."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.splitlines()[0]
        raise InputError(f"{folder}: cannot be written: {reason}") from error


class MlflowObserver(RoundObserver):
    """Logs to the MLflow run that is active, or to one of its own, which it starts and ends."""

    def __init__(self) -> None:
        """Imports MLflow.

        Raises:
          InputError: MLflow is not installed.
        """
        self._mlflow = import_extra("mlflow")

    def run_started(self, run: StartedRun) -> None:
        """Logs the config."""
        self._is_own = self._mlflow.active_run() is None
        if self._is_own:
            self._mlflow.start_run(run_name=run.name)
        self._mlflow.log_params(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        """Logs the numbers of a round."""
        self._mlflow.log_metrics(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        """Ends the MLflow run if it is an own one."""
        if self._is_own:
            self._mlflow.end_run("FINISHED" if finished else "KILLED")


class WandbObserver(RoundObserver):
    """Logs to the W&B run that is active, or to one of its own, which it starts and ends."""

    def __init__(self) -> None:
        """Imports the client of Weights & Biases.

        Raises:
          InputError: It is not installed.
        """
        self._wandb = import_extra("wandb")

    def run_started(self, run: StartedRun) -> None:
        """Logs the config."""
        self._is_own = self._wandb.run is None
        self._run = self._wandb.init(name=run.name) if self._is_own else self._wandb.run
        self._run.config.update(run.parameters)

    def round_finished(self, finished: FinishedRound) -> None:
        """Logs the numbers of a round."""
        self._run.log(finished.numbers(), step=finished.metrics.round)

    def run_ended(self, *, finished: bool) -> None:
        """Ends the W&B run if it is an own one."""
        if self._is_own:
            self._run.finish(exit_code=0 if finished else 1)
