"""canaries.csv: the pool of a run or a log, who was included, and in which rounds."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.formats.csv_file import read_csv


def canaries_text(included: Iterable[bool], rounds: Iterable[Iterable[int]]) -> str:
    """The file's text, with the columns `canary_id,included,rounds` and a row per canary.

    Args:
      included: Whether each canary took part in training.
      rounds: The rounds of each canary from 0, those that an excluded one would have taken part in
        too. In the file they count from 1 and are separated by blanks.
    """
    lines = [
        f"{canary},{int(is_in)},{' '.join(str(index + 1) for index in own)}"
        for canary, (is_in, own) in enumerate(zip(included, rounds, strict=True))
    ]
    return "\n".join(["canary_id,included,rounds", *lines]) + "\n"


def read_canary_rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of the file, each with 0 or 1 as `included`.

    Args:
      path: The file.
      columns: The columns that it must have, `included` among them.

    Raises:
      InputError: The file cannot be read, lacks a column, or has another value as `included`.
    """
    rows = read_csv(path, columns)
    for number, row in enumerate(rows, start=1):
        if row["included"] not in ("0", "1"):
            raise InputError(
                f"{path}, row {number}: included must be 0 or 1, got {row['included']!r}"
            )
    return rows
