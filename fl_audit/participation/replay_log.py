"""Production logs: one row per participation, `round,client_id`, in any order."""

import csv
import difflib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.errors import InputError, nearest
from fl_audit.formats.text_files import text_lines

COLUMNS = ("round", "client_id")

_LARGEST_ROUND = 2**31 - 1


@dataclass(frozen=True, eq=False)
class ReplayLog:
    """The participations of a production log, one array position each.

    Attributes:
      clients: The positions in the task's client ids, int32 of shape (participations,).
      rounds: The rounds, counted from 0, int32 of shape (participations,).
      num_rounds: The number of rounds, each of which has a client.
    """

    clients: npt.NDArray[np.int32]
    rounds: npt.NDArray[np.int32]
    num_rounds: int


def read_replay_log(path: Path, client_ids: Sequence[str]) -> ReplayLog:
    """Reads and checks a log, in 8 bytes of memory per participation beside the clients' names.

    Args:
      path: The path of a CSV file with the columns `round` and `client_id`; others are ignored.
      client_ids: The names of the task's clients.

    Raises:
      InputError: The file cannot be read, lacks a column, names a client that the task does not
        have or one twice in a round, or leaves out a round; the message names the file and row.
    """
    position = {client_id: index for index, client_id in enumerate(client_ids)}
    rounds, clients = array("i"), array("i")
    try:
        for number, (round_text, client_id) in enumerate(_rows(path, text_lines(path)), start=1):
            rounds.append(_round(path, number, round_text))
            if client_id not in position:
                hint = _hint(client_id, client_ids)
                raise InputError(
                    f"{path}, row {number}, column client_id: {client_id!r} is no client of "
                    f"the task; {hint}"
                )
            clients.append(position[client_id])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is not CSV: {error}") from error
    if not rounds:
        raise InputError(f"{path}: must hold at least one row below the header, got none")
    first, last = _contiguous(path, np.frombuffer(rounds, np.int32))
    log = ReplayLog(
        clients=np.frombuffer(clients, np.int32),
        rounds=np.frombuffer(rounds, np.int32) - np.int32(first),
        num_rounds=last - first + 1,
    )
    _check_once_a_round(path, log, first, client_ids)
    return log


def _rows(path: Path, file: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yields the two columns, row by row."""
    reader = csv.reader(file)
    header = next(reader, [])
    for name in COLUMNS:
        if name not in header:
            hint = f"; {nearest(name, header)}" if header else ""
            raise InputError(f"{path}: has no column {name!r}{hint}")
    round_column, client_column = (header.index(name) for name in COLUMNS)
    for number, row in enumerate(filter(None, reader), start=1):
        if len(row) != len(header):
            raise InputError(
                f"{path}, row {number}: must have {len(header)} fields, got {len(row)}"
            )
        yield row[round_column], row[client_column]


def _round(path: Path, row: int, text: str) -> int:
    digits = text.strip()
    is_short = digits.isascii() and digits.isdigit() and len(digits) <= 10
    if not (is_short and int(digits) <= _LARGEST_ROUND):
        raise InputError(
            f"{path}, row {row}, column round: must be a whole number from 0 to {_LARGEST_ROUND}, "
            f"got {text!r}"
        )
    return int(digits)


def _hint(client_id: str, client_ids: Sequence[str]) -> str:
    """Words that suggest the name closest to an unknown one, else give an example."""
    close = difflib.get_close_matches(client_id, client_ids, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it has {len(client_ids)}, such as {client_ids[0]!r}"


def _contiguous(path: Path, rounds: npt.NDArray[np.int32]) -> tuple[int, int]:
    """Checks that no round is missing, and returns the first and the last one."""
    present = np.unique(rounds)
    first, last = int(present[0]), int(present[-1])
    if first > 1:
        raise InputError(f"{path}: the first round is {first}; must be 0 or 1")
    if len(present) != last - first + 1:
        missing = int(present[np.flatnonzero(np.diff(present) > 1)[0]]) + 1
        raise InputError(f"{path}: round {missing} is missing; each up to {last} must have a row")
    return first, last


def _check_once_a_round(path: Path, log: ReplayLog, first: int, client_ids: Sequence[str]) -> None:
    order = np.lexsort((log.clients, log.rounds))
    is_repeated = (np.diff(log.clients[order]) == 0) & (np.diff(log.rounds[order]) == 0)
    if not is_repeated.any():
        return
    # Sorting is stable: the earlier row comes first.
    at = int(np.argmax(is_repeated))
    earlier, later = int(order[at]), int(order[at + 1])
    raise InputError(
        f"{path}, row {later + 1}: client {client_ids[log.clients[later]]!r} is in round "
        f"{log.rounds[later] + first} already (row {earlier + 1}); must be there at most once"
    )
