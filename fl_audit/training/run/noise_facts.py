"""What accounting has to know of a mechanism beside its noise multipliers."""

from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.tree_nodes import Trees, largest_squared_sensitivity, squared_sensitivities
from fl_audit.config import MinSeparation, Participation, Shuffle
from fl_audit.formats.run_folder import ZeroingKind
from fl_audit.mechanisms import MECHANISMS, Mechanism, zeroing_kind
from fl_audit.participation import Schedule
from fl_audit.participation.schedule import Draw


@dataclass(frozen=True)
class NoiseFacts:
    """Fields of the `RunRecord`, which says what they are."""

    noise_law: str
    zeroing: ZeroingKind
    client_squared_sensitivity: int | None
    canary_squared_sensitivity: int | None


def noise_facts(
    mechanism: Mechanism, participation: Participation, schedule: Schedule, num_clients: int
) -> NoiseFacts:
    """The facts of a run.

    Args:
      mechanism: the table of its config.
      participation: the table of its config.
      schedule: that is made of it.
      num_clients: real clients in the population.
    """
    kind = MECHANISMS.of(mechanism)
    trees = kind.trees(mechanism, schedule.num_rounds)
    client = canary = None
    if trees is not None:
        client = _of_clients(participation, schedule, num_clients, trees)
        canary = _of_canaries(participation, schedule, trees)
    return NoiseFacts(kind.noise_law.name, zeroing_kind(mechanism.zeroing), client, canary)


def _of_clients(
    participation: Participation, schedule: Schedule, num_clients: int, trees: Trees
) -> int | None:
    """Of the worst rounds that the pattern gives a client; None where any may come."""
    if schedule.client_participations is None:
        return None
    match participation:
        case Shuffle(clients_per_round=size):
            return largest_squared_sensitivity(-(-num_clients // size), trees)
        case MinSeparation(separation=separation):
            return _of_groups(separation, trees)
        case _:
            return _of_known(schedule.clients, trees)


def _of_canaries(participation: Participation, schedule: Schedule, trees: Trees) -> int | None:
    """Of the worst rounds of an included canary; None where any may come."""
    if schedule.canary_participations is None:
        return None
    match participation:
        case MinSeparation(separation=separation, canaries="like_clients"):
            return _of_groups(separation, trees)
        case _:
            return _of_known(schedule.canaries, trees)


def _of_groups(separation: int, trees: Trees) -> int:
    """Of the worst group, all of whose rounds a client may be in."""
    rounds = np.arange(trees.num_rounds)
    return int(squared_sensitivities(rounds % separation, rounds, trees).max())


def _of_known(draw: Draw, trees: Trees) -> int:
    """Of whoever's rounds are the worst of those that are drawn."""
    cohorts = [draw(index) for index in range(trees.num_rounds)]
    rounds = np.repeat(np.arange(trees.num_rounds), [len(cohort) for cohort in cohorts])
    members = np.concatenate(cohorts).astype(np.int64)
    return int(squared_sensitivities(members, rounds, trees).max(initial=0))
