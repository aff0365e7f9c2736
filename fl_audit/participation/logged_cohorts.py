"""Replay of a production log; each canary copies the rounds of a logged client.

A log is a CSV file with one row per participation, `round,client_id`, in any order. A round without
clients is one row without a client, as `17,`.
"""

import difflib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, assert_never

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IntArray
from fl_audit.config_tables.kinds import NumRounds, Table
from fl_audit.errors import InputError
from fl_audit.formats.text_files import csv_rows, read_integer, reading, text_lines
from fl_audit.participation.schedule import (
    Participation,
    ParticipationPattern,
    ParticipationTable,
    Roster,
    Schedule,
    most_rounds_of_a_client,
)
from fl_audit.progress import warned_if_read
from fl_audit.seeds import Stream, generator

COLUMNS = ("round", "client_id")

_LARGEST_ROUND = 2**31 - 1

_NO_CLIENT = -1


@dataclass(frozen=True, eq=False)
class ReplayLog:
    """The participations of a production log, as arrays.

    Attributes:
      clients: The positions in the task's client ids, int32 of shape (participations,).
      rounds: The rounds, counted from 0, int32 of shape (participations,).
      num_rounds: The number of rounds, some of which may have no client.
    """

    clients: npt.NDArray[np.int32]
    rounds: npt.NDArray[np.int32]
    num_rounds: int


def read_replay_log(path: Path, client_ids: Sequence[str]) -> ReplayLog:
    """Reads and checks a log; takes 8 bytes of memory per participation, besides clients' names.

    Refuses a client that the task lacks or that is twice in a round, and a round without a row.
    """
    position = {client_id: index for index, client_id in enumerate(client_ids)}
    rounds, clients = array("i"), array("i")
    with reading(path):
        rows = csv_rows(path, text_lines(path), COLUMNS)
        for number, (_, (round_text, client_id)) in enumerate(rows, start=1):
            rounds.append(_round(path, number, round_text))
            name = client_id.strip()
            if name and name not in position:
                raise InputError(
                    f"{path}, row {number}, column client_id: {name!r} is no client of "
                    f"the task; {_hint(name, client_ids)}"
                )
            clients.append(position[name] if name else _NO_CLIENT)
    of_rows, in_rounds = np.array(clients, np.int32), np.array(rounds, np.int32)
    came = np.flatnonzero(of_rows != _NO_CLIENT)
    if not len(came):
        raise InputError(f"{path}: must hold at least one row with a client, got none")
    first, last = _contiguous(path, in_rounds)
    log = ReplayLog(of_rows[came], in_rounds[came] - np.int32(first), last - first + 1)
    _check_once_a_round(path, log, came + 1, first, client_ids)
    both = np.intersect1d(log.rounds + first, np.delete(in_rounds, came))
    if len(both):
        raise InputError(
            f"{path}: round {both[0]} has rows with clients and a row without a client"
        )
    return log


def logged_clients(path: Path) -> set[str]:
    """The names of the clients in a log."""
    with reading(path):
        rows = csv_rows(path, text_lines(path), COLUMNS)
        return {name for _, (_, client_id) in rows if (name := client_id.strip())}


def _round(path: Path, row: int, text: str) -> int:
    number = read_integer(text, _LARGEST_ROUND)
    if number is None:
        raise InputError(
            f"{path}, row {row}, column round: must be a whole number from 0 to {_LARGEST_ROUND}, "
            f"got {text!r}"
        )
    return number


def _hint(client_id: str, client_ids: Sequence[str]) -> str:
    """Words that suggest the most similar name, else an example."""
    close = difflib.get_close_matches(client_id, client_ids, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"the task has {len(client_ids)}, such as {client_ids[0]!r}"


def _contiguous(path: Path, rounds: npt.NDArray[np.int32]) -> tuple[int, int]:
    """The first and the last round; refuses a log with a gap between them."""
    present = np.unique(rounds)
    first, last = int(present[0]), int(present[-1])
    if first > 1:
        raise InputError(f"{path}: the first round is {first}; must be 0 or 1")
    if len(present) != last - first + 1:
        missing = int(present[np.flatnonzero(np.diff(present) > 1)[0]]) + 1
        raise InputError(
            f"{path}: round {missing} is missing; each round up to {last} must have a row, "
            f"`{missing},` if no client came"
        )
    return first, last


def _check_once_a_round(
    path: Path, log: ReplayLog, rows: IntArray, first: int, client_ids: Sequence[str]
) -> None:
    """Refuses a client twice in a round.

    `rows` has each participation's row in the file, from 1.
    """
    order = np.lexsort((log.clients, log.rounds))
    is_repeated = (np.diff(log.clients[order]) == 0) & (np.diff(log.rounds[order]) == 0)
    if not is_repeated.any():
        return
    # Sorting is stable: the earlier row comes first.
    at = int(np.argmax(is_repeated))
    earlier, later = int(order[at]), int(order[at + 1])
    raise InputError(
        f"{path}, row {rows[later]}: client {client_ids[log.clients[later]]!r} is in round "
        f"{log.rounds[later] + first} already (row {rows[earlier]}); must be there at most once"
    )


class Replay(Table, Participation, frozen=True, tag_field="kind", tag="replay"):
    """Real clients participate as in a production log.

    Attributes:
      path: CSV with the columns `round` and `client_id`.
      rounds: Number of rounds to use, from the log's first; default all.
      canaries: Rounds of canaries (docs/participation.md).
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    rounds: NumRounds | None = None
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"


def replay_schedule(config: Replay, seed: int, roster: Roster) -> Schedule:
    """Schedules real clients in their logged rounds, and each canary in the rounds of a client."""
    with warned_if_read():
        log = read_replay_log(Path(config.path), roster.client_ids)
    if config.rounds is not None:
        log = _first_rounds(log, config.rounds)
    copied = _copied_clients(config, seed, roster, log)
    return Schedule(
        num_rounds=log.num_rounds,
        client_attendance=ParticipationTable(log.clients, log.rounds, log.num_rounds).attendance,
        canary_attendance=_in_their_rounds(copied, log, roster.pool).of_canaries(roster.included),
    )


def _first_rounds(log: ReplayLog, rounds: int) -> ReplayLog:
    if rounds > log.num_rounds:
        raise InputError(
            f"participation.rounds: is {rounds}, must be at most the number of rounds in the log, "
            f"{log.num_rounds}"
        )
    is_kept = log.rounds < rounds
    if not is_kept.any():
        first = log.rounds.min() + 1
        raise InputError(
            f"participation.rounds: is {rounds}, must be at least {first}, the log's first round "
            "with a client"
        )
    return ReplayLog(log.clients[is_kept], log.rounds[is_kept], rounds)


def _copied_clients(config: Replay, seed: int, roster: Roster, log: ReplayLog) -> IntArray:
    """The real client whose rounds a canary copies, drawn for each canary of the pool."""
    counts = np.bincount(log.clients)
    is_eligible = counts == counts.max() if config.canaries == "most_frequent" else counts > 0
    random = generator(seed, Stream.CANARY_ROUNDS)
    return random.choice(np.flatnonzero(is_eligible), len(roster.pool))


def _in_their_rounds(copied: IntArray, log: ReplayLog, canaries: IntArray) -> ParticipationTable:
    by_client = np.argsort(log.clients, kind="stable")
    starts = np.searchsorted(log.clients, copied, side="left", sorter=by_client)
    ends = np.searchsorted(log.clients, copied, side="right", sorter=by_client)
    rounds = [log.rounds[by_client[start:end]] for start, end in zip(starts, ends, strict=True)]
    return ParticipationTable.of_members(canaries, rounds, log.num_rounds)


def _canary_rounds(config: Replay) -> str:
    match config.canaries:
        case "like_clients":
            return "those of a client of the log, sampled for each canary"
        case "most_frequent":
            return "those of the client that participates most often"
        case unknown:
            assert_never(unknown)


REPLAY = ParticipationPattern(
    table=Replay,
    schedule=replay_schedule,
    client_rounds=lambda record, config: (
        f"Clients participate as a production log says, {most_rounds_of_a_client(record)}."
    ),
    canary_rounds=_canary_rounds,
    names_clients=True,
)
