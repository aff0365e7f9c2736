"""The release of a run, described by those who make it: its schedule and its mechanism."""

import numpy as np

from fl_audit.accounting.release import (
    Denominator,
    FixedRounds,
    Noise,
    OncePerBlock,
    OneGroup,
    Party,
    RandomAllocation,
    Release,
)
from fl_audit.accounting.tree_nodes import Trees, largest_squared_sensitivity, squared_sensitivities
from fl_audit.mechanisms.aggregator import MECHANISMS
from fl_audit.mechanisms.kind import Mechanism
from fl_audit.mechanisms.zeroing import zeroing_kind
from fl_audit.participation.schedule import Attendance, Draw, Schedule


def describe(mechanism: Mechanism, noise: Noise, schedule: Schedule, num_canaries: int) -> Release:
    """What a run releases.

    Args:
      mechanism: The mechanism table of the run's config.
      noise: The noise of a round, as `round_noise` gives it.
      schedule: The schedule of who participates in which rounds.
      num_canaries: The size of the pool. Where it is 0, what is said of a canary is what is said
        of a client.
    """
    kind = MECHANISMS.of(mechanism)
    trees = kind.trees(mechanism, schedule.num_rounds)
    client = _party(schedule.client_attendance, trees)
    return Release(
        rounds=schedule.num_rounds,
        noise=noise,
        denominator=Denominator(kind.divides_by, schedule.expected_cohort),
        client=client,
        canary=_party(schedule.canary_attendance, trees) if num_canaries else client,
        zeroing=zeroing_kind(mechanism.zeroing),
    )


def _party(attendance: Attendance, trees: Trees | None) -> Party:
    return Party(
        attendance.sampling, None if trees is None else squared_sensitivity(attendance, trees)
    )


def squared_sensitivity(attendance: Attendance, trees: Trees) -> int | None:
    """The squared sensitivity of trees to the worst rounds of one member, in squared clip norms.

    Args:
      attendance: The rounds of the real clients, or of the canaries.
      trees: The trees over all rounds of the run.

    Returns:
      The largest of `squared_sensitivities`; None where a member's rounds are sampled, so that it
        may be in any.
    """
    match attendance.sampling:
        case OncePerBlock(length=length):
            return largest_squared_sensitivity(length, trees)
        case OneGroup(separation=separation):
            return _of_groups(separation, trees)
        case FixedRounds() | RandomAllocation():
            return _of_drawn(attendance.of, trees)
        case _:
            return None


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
