"""Replay of a production log, with canaries in the rounds of clients that it names."""

from pathlib import Path

import numpy as np

from fl_audit.config import Replay
from fl_audit.errors import InputError
from fl_audit.participation.presentations import Presentations
from fl_audit.participation.replay_log import ReplayLog, read_replay_log
from fl_audit.participation.schedule import IndexArray, Roster, Schedule
from fl_audit.seeds import Stream, generator


def replay_schedule(config: Replay, seed: int, roster: Roster) -> Schedule:
    """Real clients in the rounds of the log, each canary in those of one of them.

    Raises:
      InputError: the log cannot be used, or has fewer rounds than asked for.
    """
    log = read_replay_log(Path(config.path), roster.client_ids)
    if config.rounds is not None:
        log = _first_rounds(log, config.rounds)
    return Schedule(
        num_rounds=log.num_rounds,
        client_turns=Presentations(log.clients, log.rounds, log.num_rounds).turns,
        canary_turns=_like(_models(config, seed, roster, log), log, roster.canaries).turns,
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
    """For each included canary the real client whose rounds it takes."""
    counts = np.bincount(log.clients)
    is_eligible = counts == counts.max() if config.canaries == "most_frequent" else counts > 0
    random = generator(seed, Stream.CANARY_ROUNDS)
    return random.choice(np.flatnonzero(is_eligible), len(roster.canaries))


def _like(models: IndexArray, log: ReplayLog, canaries: IndexArray) -> Presentations:
    by_client = np.argsort(log.clients, kind="stable")
    starts = np.searchsorted(log.clients, models, side="left", sorter=by_client)
    ends = np.searchsorted(log.clients, models, side="right", sorter=by_client)
    rows = [by_client[start:end] for start, end in zip(starts, ends, strict=True)]
    members = np.repeat(canaries, ends - starts)
    return Presentations(members, log.rounds[np.concatenate(rows)], log.num_rounds)
