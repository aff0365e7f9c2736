"""Count files: one row per challenge base, with the errors of the attack on it.

The format is CSV with the columns `fp` (false positives), `n0` (challenges without the point), `fn`
(false negatives) and `n1` (challenges with it), all whole numbers, and no other columns.
"""

import os
from pathlib import Path

import numpy as np

from fl_audit.errors import InputError, nearest
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.formats.csv_file import read_csv

COLUMNS = ("fp", "n0", "fn", "n1")
_ERRORS_OF = {"fp": "n0", "fn": "n1"}
_MOST_DIGITS = 10
_LARGEST = 10**9
"""Beyond this the posterior is narrower than what its integrals resolve."""


def read_counts_file(path: str | os.PathLike[str]) -> ChallengeCounts:
    """Reads and checks a count file.

    Raises:
      InputError: The file cannot be read, a column is missing or unknown, or a count is not valid;
        the message names the file, row and column.
    """
    path = Path(path)
    rows = read_csv(path, COLUMNS)
    if not rows:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    for name in rows[0]:
        if name not in COLUMNS:
            raise InputError(f"{path}: unknown column {name!r}: {nearest(name, COLUMNS)}")
    columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for number, row in enumerate(rows, start=1):
        for name in COLUMNS:
            columns[name].append(_count(f"{path}, row {number}, column {name}", row[name]))
        for errors, trials in _ERRORS_OF.items():
            if columns[errors][-1] > columns[trials][-1]:
                raise InputError(
                    f"{path}, row {number}, column {errors}: must be at most {trials}, which is "
                    f"{columns[trials][-1]}, got {columns[errors][-1]}"
                )
    fp, n0, fn, n1 = (np.array(columns[name], dtype=np.int64) for name in COLUMNS)
    return ChallengeCounts(fp, n0, fn, n1)


def _count(where: str, text: str) -> int:
    digits = text.strip()
    is_short = digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) <= _MOST_DIGITS
    if not (is_short and int(digits) < _LARGEST):
        raise InputError(f"{where}: must be a whole number from 0 to {_LARGEST - 1}, got {text!r}")
    return int(digits)
