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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.formats.atomic import atomic_writer
from fl_audit.formats.csv_file import read_flag
from fl_audit.formats.foreign_file import linked_unquoted
from fl_audit.formats.inclusion_columns import (
    INCLUSION,
    PAIR,
    PROBABILITY,
    BadRow,
    ReadInclusion,
    bad_pair,
    read_inclusion,
)
from fl_audit.formats.score_table import COLUMNS, ScoreTable, read_table


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


def read_score_file(path: str | os.PathLike[str]) -> ScoreFile:
    """Reads and checks a score file, CSV or (by its suffix) Parquet.

    Beside 0 and 1, `included` may be False and True, as data frames write it.

    Raises:
      InputError: The file cannot be read, a column is missing, or a row is not valid; the message
        names the file and the row (of a CSV: the line).
    """
    path = Path(path)
    try:
        with linked_unquoted(path, "a score file"):
            return _scores(path, read_table(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _scores(path: Path, table: ScoreTable) -> ScoreFile:
    ids = tuple(map(_text, table.columns["canary_id"]))
    if not ids:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    included, included_problem = _parse_included(table.columns["included"])
    score, score_problem = _parse_scores(table.columns["score"])
    told = {
        name: list(map(_text, values))
        for name, values in table.columns.items()
        if name not in COLUMNS
    }
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


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value).strip()


def _parse_included(values: Sequence[object]) -> tuple[npt.NDArray[np.bool_], BadRow | None]:
    flags = [_text(value) for value in values]
    included = [read_flag(flag) for flag in flags]
    if None in included:
        row = included.index(None)
        return np.empty(0, bool), BadRow(row, f"included must be 0 or 1, got {flags[row]!r}")
    return np.array(included, dtype=bool), None


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
