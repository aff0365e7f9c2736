"""The columns of a score file as their author wrote them, CSV or Parquet."""

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_audit.errors import InputError, nearest, refuse_misspelt
from fl_audit.formats.foreign_file import read_foreign, text_lines
from fl_audit.formats.inclusion_columns import INCLUSION, INCLUSION_COLUMNS, PROBABILITY

COLUMNS = ("canary_id", "included", "score")

_MOST_ROWS = 10**7
"""The rows of the largest pool; a compressed file of few bytes may claim more."""


@dataclass(frozen=True)
class ScoreTable:
    """The columns as text (CSV) or values (Parquet), and how to name a row to its author."""

    columns: Mapping[str, Sequence[object]]
    name_row: Callable[[int], str]


def read_table(path: Path) -> ScoreTable:
    """Reads the columns, CSV or (by the file's suffix) Parquet.

    Raises:
      InputError: The file cannot be read, a column is missing, or a line has too few or too many
        fields.
    """
    return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)


def _read_csv(path: Path) -> ScoreTable:
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        reader = csv.reader(text_lines(path))
        header = [name.strip() for name in next(reader, [])]
        positions = _positions(path, header)
        for row in filter(None, reader):
            if len(row) != len(header):
                fields = f"must have {len(header)} fields, got {len(row)}"
                raise InputError(f"{path}, line {reader.line_num}: {fields}")
            rows.append([row[at] for at in positions.values()])
            lines.append(reader.line_num)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from error
    columns = {name: [row[at] for row in rows] for at, name in enumerate(positions)}
    return ScoreTable(columns, lambda row: f"line {lines[row]}")


def _read_parquet(path: Path) -> ScoreTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pa.BufferReader(read_foreign(path))
    try:
        num_rows = pq.read_metadata(content).num_rows
        table = pq.read_table(content) if num_rows <= _MOST_ROWS else None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as Parquet: {reason}") from error
    if table is None:
        raise InputError(f"{path}: holds {num_rows:,} rows, must be at most {_MOST_ROWS:,}")
    positions = _positions(path, table.column_names)
    try:
        columns = {name: table.column(at).to_pylist() for name, at in positions.items()}
    except ValueError as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from error
    return ScoreTable(columns, lambda row: f"row {row + 1}")


def _positions(path: Path, header: list[str]) -> dict[str, int]:
    """The position of each needed column, and of those on inclusion that there are."""
    if not header:
        raise InputError(f"{path}: must start with a header naming {', '.join(COLUMNS)}")
    refuse_misspelt(f"{path}: column", header, INCLUSION_COLUMNS[:2])
    told = _told(header)
    for name in (*COLUMNS, *told):
        if name not in header:
            raise InputError(f"{path}: has no column {name!r}: {nearest(name, header)}")
        if header.count(name) > 1:
            raise InputError(f"{path}: must have one column {name!r}, got {header.count(name)}")
    return {name: header.index(name) for name in (*COLUMNS, *told)}


def _told(columns: Collection[str]) -> tuple[str, ...]:
    """The columns on inclusion that there are; `pair` is the user's own where nothing needs it."""
    found = INCLUSION_COLUMNS if INCLUSION in columns else (PROBABILITY,)
    return tuple(name for name in found if name in columns)
