"""Everybody in every round."""

import attendance
import numpy as np
from attendance import INCLUDED, schedule_of

from fl_audit.accounting import FixedRounds
from fl_audit.config import EveryRound


def test_everybody_but_the_excluded_always():
    schedule = schedule_of(EveryRound(rounds=7), 20)
    table = attendance.attendance(schedule, 20)
    assert (table.clients == 1).all()
    assert (table.canaries == INCLUDED).all()
    assert schedule.num_rounds == schedule.client_participations == 7
    assert schedule.canary_participations == 7
    assert schedule.expected_cohort == 20 + INCLUDED.sum()
    assert schedule.client_attendance.sampling == FixedRounds(schedule.num_rounds)
    assert schedule.cohort(3).clients.dtype == np.int64
