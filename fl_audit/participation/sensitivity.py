"""How far one member of a schedule moves the nodes of tree aggregation's trees."""

from typing import assert_never

import numpy as np

from fl_audit.accounting.tree_nodes import Trees, largest_squared_sensitivity, squared_sensitivities
from fl_audit.participation.possible_rounds import DrawnRounds, OncePerBlock, OneGroup, Sampled
from fl_audit.participation.schedule import Attendance, Draw


def squared_sensitivity(attendance: Attendance, trees: Trees) -> int | None:
    """Of the worst rounds that one member may be in, in squared clip norms.

    Args:
      attendance: The rounds of the real clients, or of the canaries.
      trees: Those of the run, over all of its rounds.

    Returns:
      What `squared_sensitivities` says of that member; None where any rounds may come.
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
    """Of the worst group, all of whose rounds a member may be in."""
    rounds = np.arange(trees.num_rounds)
    return int(squared_sensitivities(rounds % separation, rounds, trees).max())


def _of_drawn(draw: Draw, trees: Trees) -> int:
    """Of whoever's rounds are the worst of those that are drawn."""
    cohorts = [draw(index) for index in range(trees.num_rounds)]
    rounds = np.repeat(np.arange(trees.num_rounds), [len(cohort) for cohort in cohorts])
    members = np.concatenate(cohorts).astype(np.int64)
    return int(squared_sensitivities(members, rounds, trees).max(initial=0))
