"""Score files: one row per canary, with whether it was included and its score.

The format is CSV or Parquet with the columns `canary_id` (unique), `included` (0 or 1) and `score`
(finite; a LARGER score looks MORE like a member). A column `inclusion` says how it was decided who
takes part, the same in every row; without it fair coins are taken for granted. With `unequal_coins`
a column `inclusion_probability` has the coins' probability, and with `pairs` a column `pair` names
the pair of each canary. Other columns are ignored.
"""

import csv
import io
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest, refuse_misspelt
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.inclusion_columns import (
    INCLUSION,
    INCLUSION_COLUMNS,
    PAIR,
    PROBABILITY,
    BadRow,
    ReadInclusion,
    bad_pair,
    read_inclusion,
)

COLUMNS = ("canary_id", "included", "score")


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """The columns of a score file, with one row per canary.

    Attributes:
      canary_id: The unique names of the canaries, k of them.
      included: Whether each canary took part in training, bool of shape (k,).
      score: The scores, finite float64 of shape (k,); larger means more like a member.
      inclusion: How it was decided which canaries take part.
      inclusion_probability: The probability with which a canary was included.
      pair: The name of each canary's pair, where there are pairs; else empty.

    Raises:
      ValueError: The lengths differ, there is no row, an id repeats or is empty, a score is not
        finite, or a pair is not one included and one excluded canary.
    """

    canary_id: tuple[str, ...]
    included: npt.NDArray[np.bool_]
    score: npt.NDArray[np.float64]
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5
    pair: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Checks the fields, so that no later step has to."""
        if not len(self.canary_id) == len(self.included) == len(self.score):
            lengths = len(self.canary_id), len(self.included), len(self.score)
            raise ValueError(f"columns must have one length, got {lengths}")
        if len(self.pair) != (len(self.score) if self.inclusion == "pairs" else 0):
            raise ValueError("pair must name a pair for each canary with 'pairs', and none without")
        problem = (
            _id_problem(self.canary_id)
            or _score_problem(self.score)
            or bad_pair(self.pair, self.included)
        )
        if problem:
            raise ValueError(f"row {problem.row + 1}: {problem.text}")
        if len(self.score) == 0:
            raise ValueError("a score file must hold at least one canary, got none")

    @property
    def flags(self) -> dict[str, bool]:
        """Whether each canary took part in training, by its name."""
        return dict(zip(self.canary_id, self.included.tolist(), strict=True))

    def canary_scores(self) -> CanaryScores:
        """The scores, split into included and excluded canaries, pairs in one order."""
        included, excluded = np.flatnonzero(self.included), np.flatnonzero(~self.included)
        if self.pair:
            names = np.array(self.pair)
            included, excluded = (rows[np.argsort(names[rows])] for rows in (included, excluded))
        return CanaryScores(
            self.score[included], self.score[excluded], self.inclusion, self.inclusion_probability
        )


@dataclass(frozen=True)
class _Table:
    """The columns as text (CSV) or values (Parquet), and how to name a row to its author."""

    columns: Mapping[str, Sequence[object]]
    name_row: Callable[[int], str]


def read_score_file(path: str | os.PathLike[str]) -> ScoreFile:
    """Reads and checks a score file, CSV or (by its suffix) Parquet.

    Raises:
      InputError: The file cannot be read, a column is missing, or a row is not valid; the message
        names the file and the row (of a CSV: the line).
    """
    path = Path(path)
    table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    ids = tuple(map(_text, table.columns["canary_id"]))
    included, included_problem = _parse_included(table.columns["included"])
    score, score_problem = _parse_scores(table.columns["score"])
    told = {name: list(map(_text, table.columns[name])) for name in _told(table.columns)}
    decided = ReadInclusion()
    if not included_problem:
        decided = read_inclusion(told, included, table.name_row)
    found = (
        _id_problem(ids),
        included_problem,
        score_problem or _score_problem(score),
        decided.problem,
    )
    problem = min(filter(None, found), key=lambda problem: problem.row, default=None)
    if problem:
        raise InputError(f"{path}, {table.name_row(problem.row)}: {problem.text}")
    if not ids:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    return ScoreFile(ids, included, score, decided.inclusion, decided.probability, decided.pair)


def write_score_file(path: str | os.PathLike[str], scores: ScoreFile) -> None:
    """Writes a score file, CSV or (by its suffix) Parquet, whole or not at all.

    Scores are written with all their digits, so that reading gives back the same numbers.

    Raises:
      OSError: The folder cannot be written to.
    """
    path = Path(path)
    with atomic_writer(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(file, scores)
        else:
            _write_csv(file, scores)


def _write_csv(file: IO[bytes], scores: ScoreFile) -> None:
    columns: dict[str, Sequence[object]] = {
        "canary_id": scores.canary_id,
        "included": scores.included.astype(int).tolist(),
        "score": list(map(repr, scores.score.tolist())),
        **_inclusion_columns(scores),
    }
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    text.detach()


def _write_parquet(file: IO[bytes], scores: ScoreFile) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "canary_id": pa.array(scores.canary_id, pa.string()),
        "included": pa.array(scores.included.astype(np.int8)),
        "score": pa.array(scores.score),
        **_inclusion_columns(scores),
    }
    pq.write_table(pa.table(columns), file)


def _inclusion_columns(scores: ScoreFile) -> dict[str, list[str]]:
    """The columns that say how it was decided who takes part; none where each had a fair coin."""
    k = len(scores.score)
    columns: dict[str, list[str]] = {}
    if scores.inclusion != "coins":
        columns[INCLUSION] = [scores.inclusion] * k
    if scores.inclusion == "unequal_coins":
        columns[PROBABILITY] = [repr(scores.inclusion_probability)] * k
    return columns | ({PAIR: list(scores.pair)} if scores.pair else {})


def _read_csv(path: Path) -> _Table:
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            positions = _positions(path, header)
            for row in reader:
                if row:
                    rows.append(row)
                    lines.append(reader.line_num)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: must be UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from error
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise InputError(f"{path}, line {line}: must have {len(header)} fields, got {len(row)}")
    columns = {name: [row[at] for row in rows] for name, at in positions.items()}
    return _Table(columns, lambda row: f"line {lines[row]}")


def _read_parquet(path: Path) -> _Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read as Parquet: {reason}") from error
    positions = _positions(path, table.column_names)
    try:
        columns = {name: table.column(at).to_pylist() for name, at in positions.items()}
    except ValueError as error:
        raise InputError(f"{path}: cannot be read as Parquet: {error}") from error
    return _Table(columns, lambda row: f"row {row + 1}")


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


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value).strip()


def _parse_included(values: Sequence[object]) -> tuple[npt.NDArray[np.bool_], BadRow | None]:
    flags = [_text(value) for value in values]
    for row, flag in enumerate(flags):
        if flag not in ("0", "1"):
            return np.empty(0, bool), BadRow(row, f"included must be 0 or 1, got {flag!r}")
    return np.array([flag == "1" for flag in flags], dtype=bool), None


def _parse_scores(values: Sequence[object]) -> tuple[npt.NDArray[np.float64], BadRow | None]:
    numbers: list[float] = []
    for row, value in enumerate(values):
        try:
            if isinstance(value, str) and "_" in value:  # Python reads 1_5 as 15
                raise ValueError
            numbers.append(float(value))  # type: ignore[arg-type]  # anything: that is the check
        except (TypeError, ValueError):
            text = f"score must be a finite number, got {_text(value)!r}"
            return np.empty(0), BadRow(row, text)
    return np.array(numbers, dtype=np.float64), None


def _score_problem(score: npt.NDArray[np.float64]) -> BadRow | None:
    bad = np.flatnonzero(~np.isfinite(score))
    if len(bad) == 0:
        return None
    value = float(score[bad[0]])
    shown = "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return BadRow(int(bad[0]), f"score must be a finite number, got {shown}")


def _id_problem(ids: Sequence[str]) -> BadRow | None:
    first: dict[str, int] = {}
    for row, canary_id in enumerate(ids):
        if not canary_id:
            return BadRow(row, "canary_id must not be empty")
        if first.setdefault(canary_id, row) != row:
            return BadRow(row, f"canary_id must be unique, got {canary_id!r} again")
    return None
