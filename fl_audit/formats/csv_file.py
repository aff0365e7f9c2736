"""Strict reading of the CSV files of a run folder."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from fl_audit.errors import InputError, nearest, refuse_misspelt
from fl_audit.formats.foreign_file import linked_unquoted, text_lines


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
        with linked_unquoted(path, f"a CSV file with {', '.join(columns)}"):
            reader = csv.DictReader(text_lines(path))
            _check_header(path, list(reader.fieldnames or ()), columns, optional)
            return list(_complete_rows(path, reader))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not CSV: {error}") from error


def read_flag(text: str) -> bool | None:
    """The flag that a CSV writes as 0 or 1, or as False or True in any case; None for others.

    >>> [read_flag(text) for text in ("1", "0", "True", "FALSE", "yes")]
    [True, False, True, False, None]
    """
    return {"0": False, "1": True, "false": False, "true": True}.get(text.casefold())


def _check_header(
    path: Path, header: list[str], columns: Sequence[str], optional: Sequence[str]
) -> None:
    refuse_misspelt(f"{path}: column", header, optional)
    for name in columns:
        if name not in header:
            hint = f": {nearest(name, header)}" if header else ""
            raise InputError(f"{path}: has no column {name!r}{hint}")
    for name in (*columns, *optional):
        if header.count(name) > 1:
            raise InputError(f"{path}: must have one column {name!r}, got {header.count(name)}")


def _complete_rows(path: Path, reader: "csv.DictReader[str]") -> Iterator[dict[str, str]]:
    for number, row in enumerate(reader, start=1):
        if None in row or None in row.values():
            fields = len(reader.fieldnames or ())
            raise InputError(f"{path}, row {number}: must have {fields} fields")
        yield row
