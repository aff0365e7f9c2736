"""Replay of a production log, with canaries in the rounds of clients of the log."""

from pathlib import Path
from typing import ClassVar, Literal, assert_never

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunRecord
from fl_audit.kinds.table import NumRounds, Table
from fl_audit.participation.pattern import Participation, ParticipationPattern
from fl_audit.participation.presentations import Presentations
from fl_audit.participation.replay_log import ReplayLog, read_replay_log
from fl_audit.participation.schedule import Roster, Schedule
from fl_audit.participation.words import most_rounds_of_a_client
from fl_audit.seeds import Stream, generator


class Replay(Table, Participation, frozen=True, tag_field="kind", tag="replay"):
    """Participation of real clients as a production log lists it.

    Attributes:
      path: The path of a CSV file with the columns `round`, contiguous from 0 or 1, and
        `client_id`, as the task names its clients; a relative path starts at the config file's
        folder.
      rounds: The number of the log's first rounds to use; by default all.
      canaries: How canaries take part: `like_clients`, each in the rounds of a client drawn at
        random from those of the log; `most_frequent`, in the rounds of the client that takes part
        most often, drawn at random where several do.
    """

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    rounds: NumRounds | None = None
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"


def replay_schedule(config: Replay, seed: int, roster: Roster) -> Schedule:
    """Schedules real clients in their rounds of the log, each canary in those of one client.

    Raises:
      InputError: The log cannot be used, or has fewer rounds than asked for.
    """
    log = read_replay_log(Path(config.path), roster.client_ids)
    if config.rounds is not None:
        log = _first_rounds(log, config.rounds)
    models = _models(config, seed, roster, log)
    return Schedule(
        num_rounds=log.num_rounds,
        client_attendance=Presentations(log.clients, log.rounds, log.num_rounds).attendance,
        canary_attendance=_like(models, log, roster.pool).of_canaries(roster.included),
    )


def _first_rounds(log: ReplayLog, rounds: int) -> ReplayLog:
    if rounds > log.num_rounds:
        raise InputError(
            f"participation.rounds: {rounds} rounds of a log that has {log.num_rounds}; must be "
            f"at most {log.num_rounds}"
        )
    is_kept = log.rounds < rounds
    return ReplayLog(log.clients[is_kept], log.rounds[is_kept], rounds)


def _models(config: Replay, seed: int, roster: Roster, log: ReplayLog) -> IndexArray:
    """Draws for each canary of the pool the real client whose rounds it takes."""
    counts = np.bincount(log.clients)
    is_eligible = counts == counts.max() if config.canaries == "most_frequent" else counts > 0
    random = generator(seed, Stream.CANARY_ROUNDS)
    return random.choice(np.flatnonzero(is_eligible), len(roster.pool))


def _like(models: IndexArray, log: ReplayLog, canaries: IndexArray) -> Presentations:
    by_client = np.argsort(log.clients, kind="stable")
    starts = np.searchsorted(log.clients, models, side="left", sorter=by_client)
    ends = np.searchsorted(log.clients, models, side="right", sorter=by_client)
    rows = [by_client[start:end] for start, end in zip(starts, ends, strict=True)]
    members = np.repeat(canaries, ends - starts)
    return Presentations(members, log.rounds[np.concatenate(rows)], log.num_rounds)


def _client_rounds(record: RunRecord, config: Replay) -> str:
    del config  # the record has the facts
    return f"Clients take part as a production log says, {most_rounds_of_a_client(record)}."


def _canary_rounds(config: Replay) -> str:
    match config.canaries:
        case "like_clients":
            return "those of a client of the log, drawn at random for each canary"
        case "most_frequent":
            return "those of the client that takes part most often"
        case unknown:
            assert_never(unknown)


REPLAY = ParticipationPattern(
    table=Replay,
    schedule=replay_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=True,
)
