"""canaries.csv: the pool of a run or a log, who was included, and in which rounds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError
from fl_audit.formats.csv_file import read_csv, read_flag

_MOST_DIGITS = 10
"""Digits that the number of a round may have: it stays far within 64 bits."""


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


@dataclass(frozen=True, eq=False)
class CanaryRow:
    """A row of the file.

    Attributes:
      included: Whether the canary took part in training.
      rounds: The rounds of the canary from 0, int64 of shape (n,); None where the file has no
        column `rounds`.
    """

    included: bool
    rounds: IndexArray | None


def read_canaries(path: Path) -> dict[str, CanaryRow]:
    """The rows of the file by canary.

    Raises:
      InputError: The file cannot be read, lacks a column or has it twice, lists a canary twice, or
        holds a value that is not valid; the message names the file and the row or canary.
    """
    found: dict[str, CanaryRow] = {}
    rows = read_csv(path, ("canary_id", "included"), optional=("rounds",))
    for number, row in enumerate(rows, start=1):
        name = row["canary_id"]
        if name in found:
            raise InputError(f"{path}, row {number}: canary_id {name!r} is there twice")
        if (included := read_flag(row["included"])) is None:
            raise InputError(
                f"{path}, row {number}: included must be 0 or 1, got {row['included']!r}"
            )
        rounds = _rounds(path, name, row["rounds"]) if "rounds" in row else None
        found[name] = CanaryRow(included, rounds)
    return found


def check_scored(path: Path, flags: Mapping[str, bool], listed: Mapping[str, CanaryRow]) -> None:
    """Refuses a score file of other canaries than those that are listed.

    Args:
      path: The score file.
      flags: Whether each canary in it was included.
      listed: The rows of canaries.csv.

    Raises:
      InputError: The canaries, or who of them was included, differ.
    """
    if flags != {name: canary.included for name, canary in listed.items()}:
        raise InputError(f"{path}: must score exactly the canaries of canaries.csv, same inclusion")


def _rounds(path: Path, canary: str, text: str) -> IndexArray:
    """Reads a canary's rounds, which count from 1 in the file, as rounds from 0."""
    numbers = text.split()
    if not all(map(_is_round, numbers)):
        raise InputError(
            f"{path}, canary_id {canary!r}: rounds must be whole numbers from 1 on, separated by "
            f"blanks, got {text[:60]!r}"
        )
    return np.array([int(number) - 1 for number in numbers], dtype=np.int64)


def _is_round(number: str) -> bool:
    is_short = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    return is_short and int(number) > 0
