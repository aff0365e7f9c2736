"""Strict reading of the CSV files of a run folder."""

import csv
from collections.abc import Sequence
from pathlib import Path

from fl_audit.errors import InputError


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV with at least these columns, each row complete.

    Raises:
      InputError: The file cannot be read, lacks a column, or has a row with too few or too many
        fields.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            rows = list(reader)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not CSV: {error}") from error
    if missing:
        raise InputError(f"{path}: has no column {missing[0]!r}")
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise InputError(
                f"{path}, row {number}: must have {len(reader.fieldnames or ())} fields"
            )
    return rows
