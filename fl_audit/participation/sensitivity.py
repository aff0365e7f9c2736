"""The sensitivity of tree aggregation to one member of a schedule."""

from typing import assert_never

import numpy as np

from fl_audit.accounting.tree_nodes import Trees, largest_squared_sensitivity, squared_sensitivities
from fl_audit.participation.possible_rounds import DrawnRounds, OncePerBlock, OneGroup, Sampled
from fl_audit.participation.schedule import Attendance, Draw


def squared_sensitivity(attendance: Attendance, trees: Trees) -> int | None:
    """The squared sensitivity of trees to the worst rounds of one member, in squared clip norms.

    Args:
      attendance: The rounds of the real clients, or of the canaries.
      trees: The trees over all rounds of the run.

    Returns:
      The largest of `squared_sensitivities`; None where a member may be in any rounds.
    """
    match attendance.possible_rounds:
        case DrawnRounds():
            return _of_drawn(attendance.of, trees)
        case OncePerBlock(length=length):
            return largest_squared_sensitivity(length, trees)
        case OneGroup(separation=separation):
            return _of_groups(separation, trees)
        case Sampled():
            return None
        case unknown:
            assert_never(unknown)


def _of_groups(separation: int, trees: Trees) -> int:
    """The squared sensitivity to a member who is in all rounds of the worst group."""
    rounds = np.arange(trees.num_rounds)
    return int(squared_sensitivities(rounds % separation, rounds, trees).max())


def _of_drawn(draw: Draw, trees: Trees) -> int:
    """The largest squared sensitivity to any member, by the rounds that are drawn."""
    cohorts = [draw(index) for index in range(trees.num_rounds)]
    rounds = np.repeat(np.arange(trees.num_rounds), [len(cohort) for cohort in cohorts])
    members = np.concatenate(cohorts).astype(np.int64)
    return int(squared_sensitivities(members, rounds, trees).max(initial=0))
