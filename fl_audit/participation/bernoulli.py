"""Poisson sampling: every client takes part in every round by an independent coin."""

from typing import Literal

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.formats.folders import RunRecord
from fl_audit.number_words import count, significant
from fl_audit.participation.pattern import ParticipationPattern
from fl_audit.participation.placement import (
    DrawnParticipation,
    check_placement,
    place,
    placement_words,
)
from fl_audit.participation.possible_rounds import Sampled
from fl_audit.participation.schedule import (
    Attendance,
    CanaryAttendance,
    Draw,
    Roster,
    Schedule,
    check_cohort_size,
    included_among,
)
from fl_audit.seeds import Stream, generator


class Bernoulli(DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="bernoulli"):
    """Poisson sampling: each client takes part in each round by an independent coin.

    Attributes:
      clients_per_round: The expected size of the real cohort; a coin's probability is this over
        the number of real clients.
      canaries: How included canaries take part: `like_clients`, by coins of the same probability;
        `repeats`, each `canary_repeats` times in the run; `last_rounds`, each a Poisson number of
        times at the end.
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


def bernoulli_schedule(config: Bernoulli, seed: int, roster: Roster) -> Schedule:
    """Schedules each real client in every round with the same probability.

    Included canaries take part likewise, or as they are placed. A round may be empty: then only
    noise is released.

    Raises:
      InputError: The cohort exceeds the population, or keys about canaries contradict each other.
    """
    check_placement(config, config.canaries)
    check_cohort_size(config.clients_per_round, roster.num_clients)
    probability = config.clients_per_round / roster.num_clients
    clients = np.arange(roster.num_clients)
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=_sampled(clients, probability, seed, Stream.CLIENT_ROUNDS),
        canary_attendance=(
            _sampled_canaries(roster, probability, seed)
            if config.canaries == "like_clients"
            else place(config, config.canaries, seed, roster, config.clients_per_round)
        ),
        sampling_probability=probability,
    )


def _sampled(members: IndexArray, probability: float, seed: int, stream: Stream) -> Attendance:
    coins = _coins(members, probability, seed, stream)
    return Attendance(coins, probability * len(members), Sampled())


def _sampled_canaries(roster: Roster, probability: float, seed: int) -> CanaryAttendance:
    dealt = _coins(roster.pool, probability, seed, Stream.CANARY_ROUNDS)
    expected = probability * int(roster.included.sum())
    attending = included_among(dealt, roster.included)
    return CanaryAttendance(attending, expected, Sampled(), dealt)


def _coins(members: IndexArray, probability: float, seed: int, stream: Stream) -> Draw:
    def draw(round_index: int) -> IndexArray:
        coins = generator(seed, stream, round_index).random(len(members))
        return members[coins < probability]

    return draw


def _client_rounds(record: RunRecord, config: Bernoulli) -> str:
    probability = significant(record.sampling_probability or 0.0)
    return (
        f"Clients are Poisson-sampled: each joins each round with probability {probability}, "
        f"{count(config.clients_per_round, 'client')} a round on average."
    )


def _canary_rounds(config: Bernoulli) -> str:
    return placement_words(config, config.canaries)


BERNOULLI = ParticipationPattern(
    table=Bernoulli,
    schedule=bernoulli_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=False,
)
