"""The rounds of a run in TensorBoard: scalars, histograms of cosines, and the config as hparams."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorboard.plugins.hparams import api

from fl_audit.errors import InputError
from fl_audit.training.observers.observer import FinishedRound, RoundObserver, StartedRun


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
