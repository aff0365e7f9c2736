"""Minimum separation: groups take turns, so that a client rests after each participation."""

from typing import Literal, assert_never

import numpy as np

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunRecord
from fl_audit.kinds.table import NumRounds, PositiveInt, Table
from fl_audit.number_words import count
from fl_audit.participation.pattern import Participation, ParticipationPattern
from fl_audit.participation.possible_rounds import OneGroup
from fl_audit.participation.presentations import Presentations
from fl_audit.participation.schedule import Draw, Roster, Schedule, check_cohort_size
from fl_audit.participation.urn import Urn, sample
from fl_audit.participation.words import most_rounds_of_a_client
from fl_audit.seeds import Stream, generator


class MinSeparation(Table, Participation, frozen=True, tag_field="kind", tag="min_separation"):
    """A client checks in at most every `separation` rounds, as DP-FTRL and banded matrices assume.

    Clients are split at random into `separation` groups, once; the groups take turns, and a round
    draws from its group uniformly without replacement (Choquette-Choo et al. 2023,
    arXiv:2306.08153, algorithm 2, with a cohort of fixed size).

    Attributes:
      rounds: The number of rounds of training.
      clients_per_round: The size of the real cohort; with `like_clients` its expected size, because
        the draw is from real clients and canaries together.
      separation: The least number of rounds from one participation to the next; 1 for no rest.
      canaries: How canaries take part: `like_clients`, drawn from the same groups, where an
        excluded canary that is drawn sends nothing; `most_frequent`, in every round of a group.
    """

    rounds: NumRounds
    clients_per_round: PositiveInt
    separation: PositiveInt
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"


def min_separation_schedule(config: MinSeparation, seed: int, roster: Roster) -> Schedule:
    """Schedules each client only in the rounds of its group, every `separation`-th round.

    Raises:
      InputError: The groups are smaller than the cohort.
    """
    _check_room(config, roster.num_clients)
    is_shared = config.canaries == "like_clients"
    urn = _urn(config, roster if is_shared else roster.without_canaries)
    draw = _drawn_from_groups(urn, config.separation, seed)
    one_group = OneGroup(config.separation)
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=urn.client_attendance(draw, one_group),
        canary_attendance=(
            urn.canary_attendance(draw, one_group)
            if is_shared
            else _every_turn(roster.pool, seed, config).of_canaries(roster.included)
        ),
    )


def _check_room(config: MinSeparation, num_clients: int) -> None:
    check_cohort_size(config.clients_per_round, num_clients)
    largest = num_clients // config.clients_per_round
    if config.separation > largest:
        raise InputError(
            f"participation.separation: {config.separation} groups of {config.clients_per_round} "
            f"clients (participation.clients_per_round) are more than the {num_clients} real "
            f"clients; must be at most {largest}"
        )


def _urn(config: MinSeparation, roster: Roster) -> Urn:
    urn = Urn.of(roster, config.clients_per_round)
    # Where the groups are just large enough, rounding must not ask for one too many.
    return Urn(roster, min(urn.sample_size, urn.size // config.separation))


def _drawn_from_groups(urn: Urn, separation: int, seed: int) -> Draw:
    order = generator(seed, Stream.CLIENT_ROUNDS).permutation(urn.size)
    groups = np.array_split(order, separation)

    def draw(round_index: int) -> IndexArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, groups[round_index % separation], urn.sample_size)

    return draw


def _every_turn(canaries: IndexArray, seed: int, config: MinSeparation) -> Presentations:
    """Places each canary in all rounds of one group, drawn among those whose turn comes."""
    num_groups = min(config.separation, config.rounds)
    groups = generator(seed, Stream.CANARY_ROUNDS).integers(num_groups, size=len(canaries))
    rounds = [np.arange(group, config.rounds, config.separation) for group in groups]
    members = np.repeat(canaries, [len(of_canary) for of_canary in rounds])
    return Presentations(members, np.concatenate(rounds), config.rounds)


def _client_rounds(record: RunRecord, config: MinSeparation) -> str:
    return (
        f"Clients are split into {count(config.separation, 'group')} that take turns, so that a "
        f"client checks in at most every {count(config.separation, 'round')}: "
        f"{count(config.clients_per_round, 'client')} a round, {most_rounds_of_a_client(record)}."
    )


def _canary_rounds(config: MinSeparation) -> str:
    match config.canaries:
        case "like_clients":
            return "drawn like a client’s"
        case "most_frequent":
            return "all those of a group, drawn at random for each canary"
        case unknown:
            assert_never(unknown)


MIN_SEPARATION = ParticipationPattern(
    table=MinSeparation,
    schedule=min_separation_schedule,
    client_rounds=_client_rounds,
    canary_rounds=_canary_rounds,
    names_clients=False,
)
