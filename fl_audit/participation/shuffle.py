"""Shuffled epochs: each real client takes part in exactly one round per epoch."""

import functools
from typing import Literal

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.formats.folders import RunRecord
from fl_audit.number_words import count
from fl_audit.participation.pattern import ParticipationPattern
from fl_audit.participation.placement import (
    DrawnParticipation,
    check_placement,
    once_per_epoch,
    place,
    placement_words,
)
from fl_audit.participation.possible_rounds import OncePerBlock
from fl_audit.participation.schedule import Attendance, Draw, Roster, Schedule, check_cohort_size
from fl_audit.participation.words import most_rounds_of_a_client
from fl_audit.seeds import Stream, generator


class Shuffle(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="shuffle"):
    """Shuffled epochs, with each real client in one round of each (Andrew et al. 2023, section 5).

    Attributes:
      clients_per_round: The largest size of the real cohort; an epoch has as few rounds as that
        allows, and their sizes differ by at most one.
      canaries: How included canaries take part: `repeats`, each `canary_repeats` times in the run;
        `once_per_epoch`, once in every epoch of the real clients; `last_rounds`, a Poisson number
        of times at the end.
    """

    canaries: Literal["repeats", "once_per_epoch", "last_rounds"] = "repeats"


def shuffle_schedule(config: Shuffle, seed: int, roster: Roster) -> Schedule:
    """Schedules each epoch by a new permutation of the clients (Andrew et al. section 5).

    The sizes of rounds differ by at most one. The expected cohort is the mean of an epoch.

    Raises:
      InputError: The cohort exceeds the population, or keys about canaries contradict each other.
    """
    check_placement(config, config.canaries)
    num_clients = roster.num_clients
    check_cohort_size(config.clients_per_round, num_clients)
    rounds_per_epoch = -(-num_clients // config.clients_per_round)
    expected_clients = num_clients / rounds_per_epoch
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=Attendance(
            of=_dealt(num_clients, rounds_per_epoch, seed),
            expected=expected_clients,
            possible_rounds=OncePerBlock(rounds_per_epoch),
        ),
        canary_attendance=(
            once_per_epoch(roster.pool, seed, config.rounds, rounds_per_epoch).of_canaries(
                roster.included
            )
            if config.canaries == "once_per_epoch"
            else place(config, config.canaries, seed, roster, expected_clients)
        ),
    )


def _dealt(num_clients: int, rounds_per_epoch: int, seed: int) -> Draw:
    # Rounds are mostly asked for in order, and a large permutation takes 10 ms.
    @functools.lru_cache(maxsize=1)
    def deal(epoch: int) -> list[IndexArray]:
        order = generator(seed, Stream.CLIENT_ROUNDS, epoch).permutation(num_clients)
        return np.array_split(order, rounds_per_epoch)

    def draw(round_index: int) -> IndexArray:
        epoch, part = divmod(round_index, rounds_per_epoch)
        return deal(epoch)[part]

    return draw


def _client_rounds(record: RunRecord, config: Shuffle) -> str:
    size = count(config.clients_per_round, "client")
    return f"Clients are shuffled: {size} a round, {most_rounds_of_a_client(record)}."


def _canary_rounds(config: Shuffle) -> str:
    return placement_words(config, config.canaries)


SHUFFLE = ParticipationPattern(
    table=Shuffle,
    schedule=shuffle_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=False,
)
