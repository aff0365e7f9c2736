"""The metrics of each round in metrics.csv."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_csv, write_text
from fl_audit.training.observers.observer import (
    FinishedRound,
    RoundMetrics,
    RoundObserver,
    StartedRun,
)

_COLUMNS = [field.name for field in dataclasses.fields(RoundMetrics)]


def read_rows(path: Path) -> list[dict[str, str]]:
    """Reads the rows of a metrics file, as strings by column.

    Raises:
      InputError: The file cannot be read, lacks a column or has an incomplete row.
    """
    return read_csv(path, _COLUMNS)


def read_metrics(path: Path) -> list[RoundMetrics]:
    """Reads the rounds of a metrics file.

    Raises:
      InputError: The file cannot be read, lacks a column or has a value that is no number.
    """
    try:
        return [
            RoundMetrics(**{name: _value(name, row[name]) for name in _COLUMNS})
            for row in read_rows(path)
        ]
    except ValueError as error:
        raise InputError(f"{path}: holds what is no number: {error}") from error


def _value(name: str, text: str) -> Any:
    if text == "":
        return None
    return int(text) if name in ("round", "num_clients", "num_canaries") else float(text)


def flush_rows(folder: RunFolder) -> None:
    """Waits until the rows have reached the disk."""
    with folder.metrics.open("rb") as file:
        os.fsync(file.fileno())


class MetricsCsv(RoundObserver):
    """Appends rounds to metrics.csv, which can be read while the run goes on."""

    def run_started(self, run: StartedRun) -> None:
        """Starts the file, or continues it after the last checkpoint.

        Raises:
          InputError: The file of an earlier session is damaged, has other columns or too few rows.
        """
        self._path = run.folder.metrics
        if run.completed_rounds:
            _truncate(self._path, run.completed_rounds)
        else:
            write_text(self._path, ",".join(_COLUMNS) + "\n")

    def round_finished(self, finished: FinishedRound) -> None:
        """Appends the metrics of one round."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_row(finished.metrics))


def _row(metrics: RoundMetrics) -> str:
    values = (getattr(metrics, name) for name in _COLUMNS)
    return ",".join("" if value is None else f"{value:.9g}" for value in values) + "\n"


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
