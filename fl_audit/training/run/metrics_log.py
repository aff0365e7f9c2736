"""The metrics of each round, in metrics.csv and in TensorBoard."""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.csv_file import read_csv
from fl_audit.formats.run_folder import RunFolder


@dataclass(frozen=True)
class RoundMetrics:
    """The metrics of one round.

    Attributes:
      round: Number of the round, from 1.
      num_clients: Number of real clients that took part.
      num_canaries: Number of canaries that took part.
      clip_norm: Norm that updates were clipped to.
      noise_stddev: Standard deviation of the noise on each coordinate of the sum of updates.
      aggregate_norm: Length of the noised aggregate.
      train_loss: Mean loss over the cohort's examples, in nats.
      accuracy: Accuracy on held-out data after the round; None where it was not evaluated.
      seconds_training: Wall time of the TFF round, in seconds.
      seconds_scoring: Wall time of scoring the canaries, in seconds.
      epsilon_proven: Lower bound on epsilon by own-round scores so far, valid at all rounds
        together at the audit's confidence; None where there is none.
    """

    round: int
    num_clients: int
    num_canaries: int
    clip_norm: float
    noise_stddev: float
    aggregate_norm: float
    train_loss: float
    accuracy: float | None
    seconds_training: float
    seconds_scoring: float
    epsilon_proven: float | None = None


_COLUMNS = [field.name for field in dataclasses.fields(RoundMetrics)]


def _row(metrics: RoundMetrics) -> str:
    values = (getattr(metrics, name) for name in _COLUMNS)
    return ",".join("" if value is None else f"{value:.9g}" for value in values) + "\n"


def read_rows(path: Path) -> list[dict[str, str]]:
    """Reads the rows of a metrics file, as strings by column.

    Raises:
      InputError: The file cannot be read, lacks a column or has an incomplete row.
    """
    return read_csv(path, _COLUMNS)


def _truncate(path: Path, completed_rounds: int) -> None:
    """Drops the rows of rounds after the checkpoint, and a last line that is incomplete."""
    try:
        header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if header.rstrip("\n") != ",".join(_COLUMNS):
        raise InputError(f"{path}: columns must be {','.join(_COLUMNS)}")
    if len(lines) < completed_rounds:
        raise InputError(
            f"{path}: has {len(lines)} rows, must have one for each of the {completed_rounds} "
            "rounds that the checkpoint counts"
        )
    write_text(path, "".join([header, *lines[:completed_rounds]]))


class MetricsLog:
    """Appends rounds to metrics.csv, which can be read while the run goes on."""

    def __init__(self, folder: RunFolder, completed_rounds: int) -> None:
        """Starts the files, or continues them after the last checkpoint.

        Args:
          folder: The folder of the run.
          completed_rounds: Number of rounds completed at the checkpoint; 0 for a new run.

        Raises:
          InputError: The file of an earlier session is damaged, has other columns or too few rows;
            or the event files cannot be written.
        """
        if completed_rounds:
            _truncate(folder.metrics, completed_rounds)
        else:
            write_text(folder.metrics, ",".join(_COLUMNS) + "\n")
        self._path = folder.metrics
        self._tensorboard = folder.tensorboard
        with self._written():
            self._events = tf.summary.create_file_writer(str(folder.tensorboard))

    def write(self, metrics: RoundMetrics) -> None:
        """Appends the metrics of one round."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_row(metrics))
        with self._written(), self._events.as_default(step=metrics.round):
            for name in _COLUMNS[1:]:
                value = getattr(metrics, name)
                if value is not None:
                    tf.summary.scalar(name, value)
            self._events.flush()

    def flush(self) -> None:
        """Waits until the rows have reached the disk."""
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        """Closes the TensorBoard file."""
        with self._written():
            self._events.close()

    @contextlib.contextmanager
    def _written(self) -> Iterator[None]:
        """Turns TensorFlow's errors about the event files into an `InputError`."""
        try:
            yield
        except tf.errors.OpError as error:
            reason = error.message.splitlines()[0]
            raise InputError(f"{self._tensorboard}: cannot be written: {reason}") from error
