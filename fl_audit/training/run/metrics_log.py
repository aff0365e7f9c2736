"""A row per round, in metrics.csv and in TensorBoard."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.csv_file import read_csv
from fl_audit.formats.run_folder import RunFolder


@dataclass(frozen=True)
class RoundMetrics:
    """What is known of one round.

    Attributes:
      round: counted from 1.
      num_clients: real clients that took part.
      num_canaries: canaries that took part.
      clip_norm: that updates were clipped to.
      noise_stddev: of the noise on each coordinate of the sum of updates.
      train_loss: mean over the cohort's examples, in nats.
      accuracy: on held-out data after the round; None where it was not evaluated.
      seconds_training: wall time of the TFF round.
      seconds_scoring: wall time of the canaries' cosines.
    """

    round: int
    num_clients: int
    num_canaries: int
    clip_norm: float
    noise_stddev: float
    train_loss: float
    accuracy: float | None
    seconds_training: float
    seconds_scoring: float


_COLUMNS = [field.name for field in dataclasses.fields(RoundMetrics)]


def _row(metrics: RoundMetrics) -> str:
    values = (getattr(metrics, name) for name in _COLUMNS)
    return ",".join("" if value is None else f"{value:.9g}" for value in values) + "\n"


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a metrics file, as strings by column.

    Raises:
      InputError: the file cannot be read, lacks a column or has a torn row.
    """
    return read_csv(path, _COLUMNS)


def _truncate(path: Path, completed_rounds: int) -> None:
    """Drops rows of rounds that the checkpoint does not count, and the line that a kill tore."""
    header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if header.rstrip("\n") != ",".join(_COLUMNS):
        raise InputError(f"{path}: columns must be {','.join(_COLUMNS)}")
    write_text(path, "".join([header, *lines[:completed_rounds]]))


class MetricsLog:
    """Appends rounds to metrics.csv, which can be followed while a run goes on."""

    def __init__(self, folder: RunFolder, completed_rounds: int) -> None:
        """Starts the files, or goes on after the last checkpoint.

        Args:
          folder: of the run.
          completed_rounds: rounds that the checkpoint counts; 0 for a new run.
        """
        if folder.metrics.exists():
            _truncate(folder.metrics, completed_rounds)
        else:
            write_text(folder.metrics, ",".join(_COLUMNS) + "\n")
        self._path = folder.metrics
        self._events = tf.summary.create_file_writer(str(folder.tensorboard))

    def write(self, metrics: RoundMetrics) -> None:
        """Appends one round."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_row(metrics))
        with self._events.as_default(step=metrics.round):
            for name in _COLUMNS[1:]:
                value = getattr(metrics, name)
                if value is not None:
                    tf.summary.scalar(name, value)
        self._events.flush()

    def close(self) -> None:
        """Closes the TensorBoard file."""
        self._events.close()
