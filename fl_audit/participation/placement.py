"""Placements of canaries in rounds of their own (Andrew et al. sections 4 and 5.3)."""

from collections.abc import Sequence
from typing import Annotated, Literal, assert_never

import numpy as np
from msgspec import Meta

from fl_audit.array_types import IndexArray
from fl_audit.config_tables.table import NumRounds, PositiveInt, Table
from fl_audit.errors import InputError
from fl_audit.number_words import count
from fl_audit.participation.schedule import (
    CanaryAttendance,
    Participation,
    ParticipationTable,
    Roster,
)
from fl_audit.seeds import Stream, generator


class DrawnParticipation(Table, Participation, frozen=True, kw_only=True):
    """The keys shared by patterns whose canaries may take part otherwise than real clients.

    Attributes:
      rounds: Number of training rounds.
      clients_per_round: Size of the real cohort.
      canary_repeats: Rounds of a canary under `repeats`.
      canary_first_rounds: First rounds, in which `repeats` places canaries; by default all.
      canary_last_rounds: Last rounds under `last_rounds`.
      canary_mean_repeats: Mean rounds of a canary under `last_rounds`; by default a client's mean.
    """

    rounds: NumRounds
    clients_per_round: PositiveInt
    canary_repeats: PositiveInt = 1
    canary_first_rounds: PositiveInt | None = None
    canary_last_rounds: PositiveInt | None = None
    canary_mean_repeats: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None


_MOST_PARTICIPATIONS = 100_000_000
"""The participations that are drawn at most, two of whose numbers take 1.6 GB."""


def check_placement(config: DrawnParticipation, placement: str) -> None:
    """Raises an `InputError` where keys about canaries contradict each other.

    Args:
      config: The participation table.
      placement: The value of its `canaries` key.
    """
    if placement != "repeats":
        for key, default in (("canary_repeats", 1), ("canary_first_rounds", None)):
            if getattr(config, key) != default:
                raise InputError(_belongs_to(key, "repeats", placement))
    if placement != "last_rounds":
        for key in ("canary_last_rounds", "canary_mean_repeats"):
            if getattr(config, key) is not None:
                raise InputError(_belongs_to(key, "last_rounds", placement))
    elif config.canary_last_rounds is None:
        raise InputError(
            "participation.canary_last_rounds: is missing; `canaries = 'last_rounds'` needs it"
        )
    elif config.canary_last_rounds > config.rounds:
        raise InputError(
            f"participation.canary_last_rounds: the last {config.canary_last_rounds} of "
            f"{config.rounds} rounds; must be at most {config.rounds}"
        )
    first = config.canary_first_rounds
    if first is not None and first > config.rounds:
        raise InputError(
            f"participation.canary_first_rounds: the first {first} of {config.rounds} rounds; must "
            f"be at most {config.rounds}"
        )
    rounds = first or config.rounds
    if config.canary_repeats > rounds:
        raise InputError(
            f"participation.canary_repeats: {config.canary_repeats} rounds per canary "
            f"do not fit into {rounds} rounds; must be at most {rounds}"
        )


def _belongs_to(key: str, needed: str, placement: str) -> str:
    return (
        f"participation.{key}: goes with `canaries = {needed!r}`, not {placement!r}; leave it out, "
        f"or set participation.canaries to {needed!r}"
    )


def place(
    config: DrawnParticipation,
    placement: Literal["repeats", "last_rounds"],
    seed: int,
    roster: Roster,
    expected_clients: float,
) -> CanaryAttendance:
    """Draws the canaries' rounds by one of the placements that suit any pattern.

    Args:
      config: A participation table that has passed `check_placement`.
      placement: The value of its `canaries` key.
      seed: The seed of the run.
      roster: The clients and canaries.
      expected_clients: The expected number of real clients in a round.

    Raises:
      InputError: No canary would take part in any round, or there are too many participations.
    """
    pool, rounds, included = roster.pool, config.rounds, roster.included
    if placement == "repeats":
        _check_participations("canary_repeats", len(pool), config.canary_repeats)
        repeats, first = config.canary_repeats, config.canary_first_rounds
        return spread(pool, seed, rounds, repeats, first).of_canaries(included)
    mean = config.canary_mean_repeats or expected_clients * rounds / roster.num_clients
    last = config.canary_last_rounds or 0
    _check_participations("canary_mean_repeats", len(pool), min(mean, last))
    attendance = in_last_rounds(pool, seed, rounds, last, mean).of_canaries(included)
    if attendance.expected == 0:
        raise InputError(
            f"participation.canary_mean_repeats: with mean {mean:g} none of {included.sum()} "
            "included canaries takes part in any round; must be larger"
        )
    return attendance


def _check_participations(key: str, num_canaries: int, each: float) -> None:
    if num_canaries * each > _MOST_PARTICIPATIONS:
        raise InputError(
            f"participation.{key}: {num_canaries:,} canaries with {each:,.10g} rounds each are "
            f"too many; together must be at most {_MOST_PARTICIPATIONS:,}"
        )


def placement_words(
    config: DrawnParticipation,
    placement: Literal["like_clients", "once_per_epoch", "repeats", "last_rounds"],
) -> str:
    """Words for the report on the rounds of an included canary.

    Args:
      config: A participation table that has passed `check_placement`.
      placement: The value of its `canaries` key.
    """
    match placement:
        case "like_clients":
            return "sampled like a client’s"
        case "once_per_epoch":
            return "sampled at random, one in each epoch"
        case "last_rounds":
            last = count(config.canary_last_rounds or 0, "round")
            return f"Poisson in number, sampled at random from the last {last}"
        case "repeats":
            first, repeats = config.canary_first_rounds, config.canary_repeats
            rounds = "the run" if first is None else f"the first {count(first, 'round')}"
            if repeats > 1:
                parts = count(repeats, "equal part")
                return f"sampled at random, one in each of {parts} of {rounds}"
            return "sampled at random" if first is None else f"sampled at random from {rounds}"
        case unknown:
            assert_never(unknown)


def spread(
    canaries: IndexArray, seed: int, num_rounds: int, repeats: int, first: int | None = None
) -> ParticipationTable:
    """Draws a round for each canary in each of `repeats` equal parts (Andrew et al. sec. 5.3).

    Args:
      canaries: Indices of the canaries.
      seed: The seed of the run.
      num_rounds: The number of rounds of training.
      repeats: The number of rounds of each canary.
      first: The number of first rounds that the parts make up, at most all; None for all.
    """
    parts = np.array_split(np.arange(num_rounds if first is None else first), repeats)
    return _once_in_each(canaries, seed, num_rounds, parts)


def once_per_epoch(
    canaries: IndexArray, seed: int, num_rounds: int, rounds_per_epoch: int
) -> ParticipationTable:
    """Draws a round for each canary in each epoch, even a short last one (Andrew et al. sec. 4)."""
    starts = np.arange(rounds_per_epoch, num_rounds, rounds_per_epoch)
    return _once_in_each(canaries, seed, num_rounds, np.split(np.arange(num_rounds), starts))


def _once_in_each(
    canaries: IndexArray, seed: int, num_rounds: int, parts: Sequence[IndexArray]
) -> ParticipationTable:
    random = generator(seed, Stream.CANARY_ROUNDS)
    sampled = [random.integers(part[0], part[-1] + 1, len(canaries)) for part in parts]
    blocks = tuple(map(len, parts))
    return ParticipationTable(
        np.tile(canaries, len(parts)), np.concatenate(sampled), num_rounds, blocks
    )


def in_last_rounds(
    canaries: IndexArray, seed: int, num_rounds: int, last: int, mean: float
) -> ParticipationTable:
    """Draws a Poisson number of the last rounds for each canary (Andrew et al. section 4).

    The rounds are drawn uniformly without replacement; a number above `last` counts as `last`.

    Args:
      canaries: Indices of the canaries.
      seed: The seed of the run.
      num_rounds: The number of rounds of training.
      last: The number of last rounds to draw from.
      mean: The mean of the Poisson number.
    """
    random = generator(seed, Stream.CANARY_ROUNDS)
    numbers = np.minimum(random.poisson(mean, len(canaries)), last)
    rounds = [random.choice(last, number, replace=False) for number in numbers]
    sampled = np.concatenate([np.zeros(0, np.int64), *rounds])
    return ParticipationTable(np.repeat(canaries, numbers), num_rounds - last + sampled, num_rounds)


def poisson_sampled(
    canaries: IndexArray, seed: int, num_rounds: int, probability: float
) -> ParticipationTable:
    """Draws each canary into each round with one probability, as Poisson sampling draws clients."""
    random = generator(seed, Stream.CANARY_ROUNDS)
    numbers = random.binomial(num_rounds, probability, len(canaries))
    rounds = [random.choice(num_rounds, number, replace=False) for number in numbers]
    sampled = np.concatenate([np.zeros(0, np.int64), *rounds])
    return ParticipationTable(np.repeat(canaries, numbers), sampled, num_rounds)
