"""Strict reading of the CSV files of a run folder."""

import csv
from collections.abc import Sequence
from pathlib import Path

from fl_audit.errors import InputError, nearest, refuse_misspelt


def read_csv(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> list[dict[str, str]]:
    """The rows of a CSV with at least these columns, each row complete.

    Args:
      path: The file.
      columns: The columns that it must have.
      optional: The columns that it may have; all others are let through.

    Raises:
      InputError: The file cannot be read, lacks a column or has it twice, has a misspelt optional
        one, or has a row with too few or too many fields.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            header = list(reader.fieldnames or ())
            rows = list(reader)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not CSV: {error}") from error
    refuse_misspelt(f"{path}: column", header, optional)
    for name in columns:
        if name not in header:
            hint = f": {nearest(name, header)}" if header else ""
            raise InputError(f"{path}: has no column {name!r}{hint}")
    for name in (*columns, *optional):
        if header.count(name) > 1:
            raise InputError(f"{path}: must have one column {name!r}, got {header.count(name)}")
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise InputError(f"{path}, row {number}: must have {len(header)} fields")
    return rows
