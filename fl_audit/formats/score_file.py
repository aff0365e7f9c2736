"""Score files, one row per canary, and count files, one row per challenge base.

A score file is CSV or Parquet with the columns `canary_id` (unique), `included` (0 or 1) and
`score` (finite; a LARGER score looks MORE like a member). A column `inclusion`, the same in every
row, states how included canaries were chosen; without that column, they were chosen by fair coins.
With `unequal_coins` a column `inclusion_probability` has the coins' probability, and with `pairs` a
column `pair` names the pair of each canary. Other columns are ignored.

A count file is CSV with the columns `fp` (false positives), `n0` (challenges without the point),
`fn` (false negatives) and `n1` (challenges with the point), all whole numbers, and no other
columns.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "scores.csv"
...     write_score_file(path, ScoreFile(("a", "b"), np.array([True, False]), np.array([0.3, 0.1])))
...     print(path.read_text(), end="")
canary_id,included,score
a,1,0.3
b,0,0.1
"""

import csv
import io
import itertools
import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts
from fl_audit.estimators.scores import CanaryScores, Inclusion
from fl_audit.formats import text_files
from fl_audit.progress import warned_if_read


class _BadRowError(Exception):
    """The fault of a column's first bad row, counted from 0."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """The columns of a score file, with one row per canary.

    Attributes:
      canary_id: The unique names of the k canaries.
      included: Whether each canary was included in training, bool of shape (k,).
      score: The scores, finite float64 of shape (k,); larger means more like a member.
      inclusion: How included canaries were chosen.
      inclusion_probability: The probability of each canary's coin.
      pair: The name of each canary's pair; empty without pairs.
    """

    canary_id: tuple[str, ...]
    included: npt.NDArray[np.bool_]
    score: npt.NDArray[np.float64]
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5
    pair: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.canary_id) == len(self.included) == len(self.score):
            lengths = len(self.canary_id), len(self.included), len(self.score)
            raise ValueError(f"columns must have one length, got {lengths}")
        if len(self.pair) != (len(self.score) if self.inclusion == "pairs" else 0):
            raise ValueError("pair must name a pair for each canary with 'pairs', and none without")
        try:
            _check_ids(self.canary_id)
            _check_scores(self.score)
            _check_pairs(self.pair, self.included)
        except _BadRowError as error:
            raise ValueError(f"row {error.row + 1}: {error}") from None
        if len(self.score) == 0:
            raise ValueError("a score file must hold at least one canary, got none")

    @property
    def flags(self) -> dict[str, bool]:
        """Whether each canary was included in training, by its name."""
        return dict(zip(self.canary_id, self.included.tolist(), strict=True))

    def canary_scores(self) -> CanaryScores:
        """The scores of included and of excluded canaries; a pair's scores have the same index."""
        included, excluded = np.flatnonzero(self.included), np.flatnonzero(~self.included)
        if self.pair:
            names = np.array(self.pair)
            included, excluded = (rows[np.argsort(names[rows])] for rows in (included, excluded))
        return CanaryScores(
            self.score[included], self.score[excluded], self.inclusion, self.inclusion_probability
        )

    def only(self, chosen: npt.NDArray[np.bool_]) -> "ScoreFile":
        """The file with only some of the canaries; not for pairs."""
        ids = tuple(itertools.compress(self.canary_id, chosen))
        return ScoreFile(
            ids,
            self.included[chosen],
            self.score[chosen],
            self.inclusion,
            self.inclusion_probability,
        )


def read_score_file(path: str | os.PathLike[str]) -> ScoreFile:
    """Reads and checks a score file, CSV or (by its suffix) Parquet.

    `included` may also be False and True, as written by data frames.

    Raises:
      InputError: The file cannot be read, a column is missing, or a row is not valid; the message
        names the file and the row (of a CSV: the line).
    """
    path = Path(path)
    linked = text_files.linked_unquoted(path, "a score file")
    with text_files.reading(path), warned_if_read(), linked:
        return _scores(path, read_table(path))


def _scores(path: Path, table: "ScoreTable") -> ScoreFile:
    """Parses the columns of a table; an error names the first bad row of any column."""
    ids = tuple(map(_text, table.columns["canary_id"]))
    if not ids:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    texts = {
        name: list(map(_text, values))
        for name, values in table.columns.items()
        if name not in COLUMNS
    }
    bad: list[_BadRowError] = []

    def read(column: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return column(*arguments)
        except _BadRowError as error:
            bad.append(error)
            return None

    read(_check_ids, ids)
    included, inclusion = read(_read_included, table.columns["included"]), ()
    score = read(_read_scores, table.columns["score"])
    if included is not None:
        inclusion = read(_read_inclusion, texts, included, table.name_row)
    if bad:
        first = min(bad, key=lambda error: error.row)
        raise InputError(f"{path}, {table.name_row(first.row)}: {first}")
    return ScoreFile(ids, included, score, *inclusion)


def write_score_file(path: str | os.PathLike[str], scores: ScoreFile, mode: int = 0o666) -> None:
    """Writes a score file atomically, CSV or (by its suffix) Parquet.

    Scores are written with all their digits, so that reading returns the same numbers.
    """
    path = Path(path)
    with text_files.atomic_writer(path, mode) as file:
        if path.suffix == ".parquet":
            _write_parquet(file, scores)
        else:
            file.write(score_text(scores).encode())


def score_text(scores: ScoreFile) -> str:
    """The text of a score file, CSV."""
    columns: dict[str, Sequence[object]] = {
        "canary_id": scores.canary_id,
        "included": scores.included.astype(int).tolist(),
        "score": list(map(repr, scores.score.tolist())),
        **_inclusion_columns(scores),
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


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
    """The columns on how included canaries were chosen; empty for fair coins."""
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


def _read_included(values: Sequence[object]) -> npt.NDArray[np.bool_]:
    flags = [_text(value) for value in values]
    included = [text_files.read_flag(flag) for flag in flags]
    if None in included:
        row = included.index(None)
        raise _BadRowError(row, f"included must be 0 or 1, got {flags[row]!r}")
    return np.array(included, dtype=bool)


def _read_scores(values: Sequence[object]) -> npt.NDArray[np.float64]:
    numbers: list[float] = []
    for row, value in enumerate(values):
        try:
            if isinstance(value, str) and "_" in value:  # Python reads 1_5 as 15
                raise ValueError
            numbers.append(float(value))  # type: ignore[arg-type]  # anything: that is the check
        except (TypeError, ValueError):
            text = f"score must be a finite number, got {_text(value)!r}"
            raise _BadRowError(row, text) from None
    score = np.array(numbers, dtype=np.float64)
    _check_scores(score)
    return score


def _check_scores(score: npt.NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~np.isfinite(score))
    if len(bad):
        raise _BadRowError(int(bad[0]), f"score must be a finite number, got {score[bad[0]]}")


def _check_ids(ids: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for row, canary_id in enumerate(ids):
        if not canary_id:
            raise _BadRowError(row, "canary_id must not be empty")
        if first.setdefault(canary_id, row) != row:
            raise _BadRowError(row, f"canary_id must be unique, got {canary_id!r} again")


# The columns of a score file before they are parsed.


COLUMNS = ("canary_id", "included", "score")

_MOST_ROWS = 10**7
"""The most rows of a file; a compressed file of few bytes may claim more."""


@dataclass(frozen=True)
class ScoreTable:
    """The columns as text (CSV) or values (Parquet), and a function that names rows in messages."""

    columns: Mapping[str, Sequence[object]]
    name_row: Callable[[int], str]


def read_table(path: Path) -> ScoreTable:
    """Reads the columns, CSV or (by the file's suffix) Parquet."""
    return _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)


def _read_csv(path: Path) -> ScoreTable:
    table = text_files.read_csv_table(path, COLUMNS, INCLUSION_COLUMNS[:2])
    at = {name: table.header.index(name) for name in _used_columns(path, table.header)}
    columns = {name: [row[position] for row in table.rows] for name, position in at.items()}
    return ScoreTable(columns, lambda row: f"line {table.lines[row]}")


def _read_parquet(path: Path) -> ScoreTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pa.BufferReader(text_files.read_foreign(path))
    try:
        num_rows = pq.read_metadata(content).num_rows
        table = pq.read_table(content) if num_rows <= _MOST_ROWS else None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: is no Parquet file, or a damaged one") from error
    if table is None:
        raise InputError(f"{path}: holds {num_rows:,} rows, must be at most {_MOST_ROWS:,}")
    names = _used_columns(path, table.column_names)
    try:
        columns = {name: table.column(name).to_pylist() for name in names}
    except ValueError as error:
        raise InputError(f"{path}: has a text that is not UTF-8") from error
    return ScoreTable(columns, lambda row: f"row {row + 1}")


def _used_columns(path: Path, header: Sequence[str]) -> tuple[str, ...]:
    """The required columns, and existing inclusion columns; refuses duplicates."""
    # A column `pair` is ignored if the file has no column `inclusion`.
    names = INCLUSION_COLUMNS if INCLUSION in header else (PROBABILITY,)
    columns = (*COLUMNS, *(name for name in names if name in header))
    text_files.check_header(path, header, columns, INCLUSION_COLUMNS[:2])
    return columns


# The columns on how included canaries were chosen.


INCLUSION, PROBABILITY, PAIR = "inclusion", "inclusion_probability", "pair"
INCLUSION_COLUMNS = (INCLUSION, PROBABILITY, PAIR)

_KINDS: Mapping[str, Inclusion] = {kind: kind for kind in get_args(Inclusion)}
_NEEDED: Mapping[Inclusion, str] = {"unequal_coins": PROBABILITY, "pairs": PAIR}
"""The column that a kind of inclusion needs."""


def _read_inclusion(
    columns: Mapping[str, Sequence[str]],
    included: npt.NDArray[np.bool_],
    name_row: Callable[[int], str],
) -> tuple[Inclusion, float, tuple[str, ...]]:
    """Parses the columns on inclusion: the kind, the coins' probability, and pairs."""
    words = columns.get(INCLUSION, ())
    _check_same(INCLUSION, words, name_row, _KINDS)
    kind = _KINDS[words[0]] if words else "coins"
    if PROBABILITY in columns and kind != "unequal_coins":
        text = f"{PROBABILITY} is only for {INCLUSION} 'unequal_coins', not for {kind!r}"
        raise _BadRowError(0, text)
    needed = _NEEDED.get(kind)
    if needed is not None and needed not in columns:
        raise _BadRowError(0, f"inclusion {kind!r} needs a column {needed!r}")
    if kind == "unequal_coins":
        _check_same(PROBABILITY, columns[PROBABILITY], name_row)
        return kind, _probability(columns[PROBABILITY][0]), ()
    pair = tuple(columns[PAIR]) if kind == "pairs" else ()
    _check_pairs(pair, included)
    return kind, 0.5, pair


def _check_same(
    column: str,
    texts: Sequence[str],
    name_row: Callable[[int], str],
    known: Collection[str] | None = None,
) -> None:
    for row, text in enumerate(texts):
        if known is not None and text not in known:
            hint = nearest(text, known)
            raise _BadRowError(row, f"{column} must be a known word, got {text!r}: {hint}")
        if text != texts[0]:
            wrong = f"{column} must be the same in every row, got {text!r}; {name_row(0)} has"
            raise _BadRowError(row, f"{wrong} {texts[0]!r}")


def _check_pairs(pair: Sequence[str], included: npt.NDArray[np.bool_]) -> None:
    """Refuses a pair that is not one included and one excluded canary."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(pair):
        rows.setdefault(name, []).append(row)
    for name, members in rows.items():
        if len(members) != 2 or int(included[members].sum()) != 1:
            text = f"pair {name!r} must be two canaries, one of them included, got {len(members)}"
            raise _BadRowError(
                members[0], f"{text}, {int(included[members].sum())} of them included"
            )


def _probability(text: str) -> float:
    try:
        probability = float(text) if "_" not in text else math.nan
    except ValueError:
        probability = math.nan
    if not 0 < probability < 1 or probability == 0.5:
        wrong = f"{PROBABILITY} must be a number in (0, 1) other than 0.5, got {text!r}"
        raise _BadRowError(0, wrong)
    return probability


# Count files


COUNT_COLUMNS = ("fp", "n0", "fn", "n1")
_ERRORS_OF = {"fp": "n0", "fn": "n1"}
_LARGEST = 10**9 - 1
"""The largest count; the posterior of larger ones is too narrow for its integrals."""


def read_counts_file(path: str | os.PathLike[str]) -> ChallengeCounts:
    """Reads and checks a count file; an error message names the file, row and column."""
    with warned_if_read():
        return _counts(Path(path))


def _counts(path: Path) -> ChallengeCounts:
    rows = text_files.read_csv(path, COUNT_COLUMNS)
    if not rows:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    for name in rows[0]:
        if name not in COUNT_COLUMNS:
            raise InputError(f"{path}: unknown column {name!r}: {nearest(name, COUNT_COLUMNS)}")
    columns: dict[str, list[int]] = {name: [] for name in COUNT_COLUMNS}
    for number, row in enumerate(rows, start=1):
        for name in COUNT_COLUMNS:
            columns[name].append(_count(f"{path}, row {number}, column {name}", row[name]))
        for errors, trials in _ERRORS_OF.items():
            if columns[errors][-1] > columns[trials][-1]:
                raise InputError(
                    f"{path}, row {number}, column {errors}: must be at most {trials}, which is "
                    f"{columns[trials][-1]}, got {columns[errors][-1]}"
                )
    fp, n0, fn, n1 = (np.array(columns[name], dtype=np.int64) for name in COUNT_COLUMNS)
    return ChallengeCounts(fp, n0, fn, n1)


def _count(where: str, text: str) -> int:
    digits = re.sub(r"\.0+$", "", text.strip())  # as written by data frames
    number = text_files.read_integer(digits, _LARGEST)
    if number is None:
        raise InputError(f"{where}: must be a whole number from 0 to {_LARGEST}, got {text!r}")
    return number
