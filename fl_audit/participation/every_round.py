"""Full participation: all clients and included canaries take part in every round."""

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.formats.folders import RunRecord
from fl_audit.kinds.table import NumRounds, Table
from fl_audit.participation.pattern import Participation, ParticipationPattern
from fl_audit.participation.possible_rounds import DrawnRounds
from fl_audit.participation.schedule import Attendance, CanaryAttendance, Draw, Roster, Schedule


class EveryRound(Table, Participation, frozen=True, tag_field="kind", tag="every_round"):
    """Full participation of real clients and included canaries.

    Attributes:
      rounds: The number of rounds of training.
    """

    rounds: NumRounds


def every_round_schedule(config: EveryRound, seed: int, roster: Roster) -> Schedule:
    """Schedules each real client and each included canary in every round."""
    del seed  # nothing is drawn
    always = DrawnRounds(config.rounds)
    canaries = np.flatnonzero(roster.included)
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=Attendance(
            _always(np.arange(roster.num_clients)), roster.num_clients, always
        ),
        canary_attendance=CanaryAttendance(
            _always(canaries), len(canaries), always, dealt=_always(roster.pool)
        ),
    )


def _always(members: IndexArray) -> Draw:
    return lambda _: members


def _client_rounds(record: RunRecord, config: EveryRound) -> str:
    del record, config  # the sentence is always the same
    return "Every client takes part in every round."


def _canary_rounds(config: EveryRound) -> str:
    del config
    return "all of them"


EVERY_ROUND = ParticipationPattern(
    table=EveryRound,
    schedule=every_round_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=False,
)
