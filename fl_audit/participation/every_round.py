"""Everybody in every round."""

import numpy as np

from fl_audit.config import EveryRound
from fl_audit.participation.schedule import IndexArray, Roster, Schedule, Turns


def every_round_schedule(config: EveryRound, roster: Roster) -> Schedule:
    """Each real client and each included canary in every round."""
    clients = np.arange(roster.num_clients)
    return Schedule(
        num_rounds=config.rounds,
        client_turns=_always(clients, config.rounds),
        canary_turns=_always(roster.canaries, config.rounds),
    )


def _always(members: IndexArray, rounds: int) -> Turns:
    return Turns(lambda _: members, len(members), rounds)
