"""Placements of canaries independent of clients (Andrew et al. 2023, sections 4 and 5.3)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, assert_never

import numpy as np
from msgspec import Meta

from fl_audit.accounting.sampling import OneRoundPerBlock, Sampling
from fl_audit.array_types import IntArray
from fl_audit.config_tables.kinds import NumRounds, PositiveInt, Table
from fl_audit.errors import InputError
from fl_audit.number_words import count
from fl_audit.participation.schedule import (
    Attendance,
    CanaryAttendance,
    Draw,
    Participation,
    ParticipationTable,
    Roster,
    Schedule,
    included_among,
)
from fl_audit.seeds import Stream, generator

MeanRounds = Annotated[float, Meta(gt=0, le=1_000_000)]


class PlacedCanaries(Table, Participation, frozen=True, kw_only=True):
    """The keys of patterns whose canaries may participate differently from real clients.

    Attributes:
      rounds: Number of training rounds.
      canary_repeats: Number of a canary's rounds under `repeats`.
      canary_first_rounds: Number of first rounds in which `repeats` places canaries; default all.
      canary_last_rounds: Number of last rounds in which `repeats` or `last_rounds` places canaries.
      canary_mean_repeats: Mean number of a canary's rounds under `like_clients` and
        `last_rounds`; default: a client's.
    """

    rounds: NumRounds
    canary_repeats: PositiveInt = 1
    canary_first_rounds: PositiveInt | None = None
    canary_last_rounds: PositiveInt | None = None
    canary_mean_repeats: MeanRounds | None = None


class DrawnParticipation(PlacedCanaries, frozen=True, kw_only=True):
    """The keys of patterns that draw cohorts of a stated size.

    Attributes:
      clients_per_round: Size of the real cohort.
    """

    clients_per_round: PositiveInt


_MOST_PARTICIPATIONS = 100_000_000
"""The largest number of participations of a pool; as two int64 each they take 1.6 GB."""


def check_placement(config: PlacedCanaries, placement: str) -> None:
    """Refuses contradictory keys on canaries; `placement` is the value of the key `canaries`."""
    if placement != "repeats":
        for key, default in (("canary_repeats", 1), ("canary_first_rounds", None)):
            if getattr(config, key) != default:
                raise InputError(belongs_to(key, "repeats", placement))
    if placement not in ("like_clients", "last_rounds") and config.canary_mean_repeats is not None:
        raise InputError(belongs_to("canary_mean_repeats", "like_clients", placement))
    first, last = config.canary_first_rounds, config.canary_last_rounds
    if last is not None and placement not in ("last_rounds", "repeats"):
        raise InputError(belongs_to("canary_last_rounds", "last_rounds", placement))
    if last is None and placement == "last_rounds":
        raise InputError(
            "participation.canary_last_rounds: is missing; `canaries = 'last_rounds'` needs it"
        )
    if first is not None and last is not None:
        raise InputError(
            "participation.canary_last_rounds: excludes canary_first_rounds; leave out one of them"
        )
    for name, number in (("first", first), ("last", last)):
        if number is not None and number > config.rounds:
            raise InputError(
                f"participation.canary_{name}_rounds: the {name} {number} of {config.rounds} "
                f"rounds; must be at most {config.rounds}"
            )
    rounds = first or last or config.rounds
    if config.canary_repeats > rounds:
        raise InputError(
            f"participation.canary_repeats: {config.canary_repeats} rounds per canary "
            f"do not fit into {rounds} rounds; must be at most {rounds}"
        )


def belongs_to(key: str, needed: str, placement: str) -> str:
    return (
        f"participation.{key}: is not used under `canaries = {placement!r}`; leave it out, or set "
        f"participation.canaries to {needed!r}"
    )


_FINEST_SHARE = 10_000
"""The largest denominator of a share that `urn_for` meets exactly; below a share of 0.01 it is 100
over the share, so that `urn_for` meets two digits.
"""

_LEAST_SHARE = 1e-9
"""The least share of canaries in a round, whose urn has at most about 1e11 places."""


def possible_mean(mean: float, below: float, above: float, why: str) -> float:
    """Returns whichever of the nearest possible means, `below` and `above`, equals `mean`.

    Raises InputError if neither equals `mean`; the message has both.
    """
    nearest = [possible for possible in (below, above) if possible > 0]
    for possible in nearest:
        if math.isclose(mean, possible, rel_tol=1e-9):
            return possible
    choices = " or ".join(f"{possible:.7g}" for possible in dict.fromkeys(nearest))
    raise InputError(
        f"participation.canary_mean_repeats: is {mean:g}, and {why}; the nearest possible mean "
        f"is {choices}"
    )


def whole_rounds(mean: float, rounds: int, why: str) -> int:
    """The mean as each canary's number of rounds, from 1 to `rounds`."""
    below, above = min(max(math.floor(mean), 1), rounds), min(max(math.ceil(mean), 1), rounds)
    return round(possible_mean(mean, below, above, why))


def check_share(share: float) -> None:
    """Refuses a share of the canaries in a round below `_LEAST_SHARE`."""
    if share < _LEAST_SHARE:
        raise InputError(
            f"participation.canary_mean_repeats: gives a share of {share:.2g} of the canaries in a "
            f"round; must be larger, so that the share is at least {_LEAST_SHARE:g}"
        )


def urn_for(share: float, members: int) -> tuple[int, int]:
    """The sample size and the size of an urn, in the ratio `share`, with room for all members.

    The urn has empty places if `share` times `members` is not a whole number. Raises InputError for
    too small a share (`check_share`).

    >>> urn_for(0.125, 101)
    (13, 104)
    """
    check_share(share)
    finest = max(_FINEST_SHARE, math.ceil(100 / share))
    exact = Fraction(share).limit_denominator(finest)
    multiple = -(-members // exact.denominator)
    return exact.numerator * multiple, exact.denominator * multiple


def share_of_rounds(mean: float, rounds: int, largest: float) -> float:
    """The mean as a share of rounds; raises InputError if it is above `largest`."""
    share = mean / rounds
    if share > largest * (1 + 1e-9):
        possible_mean(mean, 0, largest * rounds, "no canary can be in so many rounds")
    return min(share, largest)


def place(
    config: PlacedCanaries,
    placement: Literal["repeats", "last_rounds"],
    seed: int,
    roster: Roster,
    expected_clients: float,
) -> CanaryAttendance:
    """Draws the canaries' rounds by `repeats` or `last_rounds`, which suit any pattern.

    Raises InputError for too many participations, or if no included canary would have any.
    """
    pool, rounds, included = roster.pool, config.rounds, roster.included
    if placement == "repeats":
        _check_participations("canary_repeats", len(pool), config.canary_repeats)
        among = range(rounds)[: config.canary_first_rounds]
        among = among[-(config.canary_last_rounds or rounds) :]
        return spread(pool, seed, rounds, config.canary_repeats, among).of_canaries(included)
    mean = config.canary_mean_repeats or expected_clients * rounds / roster.num_clients
    last = config.canary_last_rounds or 0
    _check_participations("canary_mean_repeats", len(pool), min(mean, last))
    attendance = in_last_rounds(pool, seed, rounds, last, mean).of_canaries(included)
    if included.any() and attendance.expected == 0:
        raise InputError(
            f"participation.canary_mean_repeats: with mean {mean:g} none of {included.sum()} "
            "included canaries participates in any round; must be larger"
        )
    return attendance


def _check_participations(key: str, num_canaries: int, each: float) -> None:
    if num_canaries * each > _MOST_PARTICIPATIONS:
        raise InputError(
            f"participation.{key}: {num_canaries:,} canaries with {each:,.10g} rounds each are "
            f"too many; together must be at most {_MOST_PARTICIPATIONS:,}"
        )


def canary_rounds(config: Any) -> str:
    """Words for the report on the rounds of an included canary.

    `config` is a `PlacedCanaries` with the key `canaries`.
    """
    placed: Literal["like_clients", "once_per_epoch", "repeats", "last_rounds"] = config.canaries
    match placed:
        case "like_clients":
            return like_clients_words(config.canary_mean_repeats)
        case "once_per_epoch":
            return "sampled at random, one in each epoch"
        case "last_rounds":
            last = count(config.canary_last_rounds or 0, "round")
            return f"Poisson in number, sampled at random from the last {last}"
        case "repeats":
            rounds = "the run"
            for name in ("first", "last"):
                if (number := getattr(config, f"canary_{name}_rounds")) is not None:
                    rounds = f"the {name} {count(number, 'round')}"
            if config.canary_repeats > 1:
                parts = count(config.canary_repeats, "equal part")
                return f"sampled at random, one in each of {parts} of {rounds}"
            return f"sampled at random from {rounds}".removesuffix(" from the run")
        case unknown:
            assert_never(unknown)


def like_clients_words(mean: float | None) -> str:
    on_average = "" if mean is None else f", {mean:g} on average"
    return f"sampled like a client’s{on_average}"


def spread(
    canaries: IntArray,
    seed: int,
    num_rounds: int,
    repeats: int,
    among: range | None = None,
) -> ParticipationTable:
    """Draws a round for each canary in each of `repeats` equal parts (Andrew et al. sec. 5.3).

    The parts divide the rounds `among`; by default all.
    """
    parts = equal_parts(range(num_rounds) if among is None else among, repeats)
    return _once_in_each(canaries, seed, num_rounds, parts)


def equal_parts(rounds: range, number: int) -> list[range]:
    """Splits consecutive rounds into parts, the first of which may be longer by one round."""
    parts = np.array_split(rounds, number)
    return [range(int(part[0]), int(part[-1]) + 1) for part in parts]


def once_per_epoch(
    canaries: IntArray, seed: int, num_rounds: int, epochs: Sequence[range]
) -> ParticipationTable:
    """Draws a round for each canary in each epoch, even a short last one (Andrew et al. sec. 4)."""
    parts = [range(epoch.start, min(epoch.stop, num_rounds)) for epoch in epochs]
    return _once_in_each(canaries, seed, num_rounds, parts)


def shuffled(
    canaries: IntArray, seed: int, num_rounds: int, epochs: Sequence[range]
) -> ParticipationTable:
    """Draws a round for each canary in each epoch, as for clients.

    Rounds of an incomplete last epoch that are drawn beyond the end of the run are dropped.
    """
    if epochs[-1].stop <= num_rounds:
        return once_per_epoch(canaries, seed, num_rounds, epochs)
    random = generator(seed, Stream.CANARY_ROUNDS)
    rounds = np.concatenate([random.integers(e.start, e.stop, len(canaries)) for e in epochs])
    is_reached = rounds < num_rounds
    members = np.tile(canaries, len(epochs))[is_reached]
    return ParticipationTable(members, rounds[is_reached], num_rounds)


def _once_in_each(
    canaries: IntArray, seed: int, num_rounds: int, parts: Sequence[range]
) -> ParticipationTable:
    random = generator(seed, Stream.CANARY_ROUNDS)
    sampled = [random.integers(part.start, part.stop, len(canaries)) for part in parts]
    in_blocks = OneRoundPerBlock.of_lengths(map(len, parts), parts[0].start)
    return ParticipationTable(
        np.tile(canaries, len(parts)), np.concatenate(sampled), num_rounds, in_blocks
    )


def in_last_rounds(
    canaries: IntArray, seed: int, num_rounds: int, last: int, mean: float
) -> ParticipationTable:
    """Draws a Poisson number of late rounds for each canary (Andrew et al. section 4).

    The rounds are drawn uniformly without replacement from the run's last `last` rounds; a canary
    with a larger number has all of these.
    """
    random = generator(seed, Stream.CANARY_ROUNDS)
    numbers = np.minimum(random.poisson(mean, len(canaries)), last)
    first = num_rounds - last
    rounds = [first + random.choice(last, number, replace=False) for number in numbers]
    return ParticipationTable.of_members(canaries, rounds, num_rounds)


def poisson_sampled(
    canaries: IntArray, seed: int, num_rounds: int, probability: float
) -> ParticipationTable:
    """Draws each canary into each round with one probability, like Poisson-sampled clients."""
    random = generator(seed, Stream.CANARY_ROUNDS)
    numbers = random.binomial(num_rounds, probability, len(canaries))
    rounds = [random.choice(num_rounds, number, replace=False) for number in numbers]
    return ParticipationTable.of_members(canaries, rounds, num_rounds)


# Members who draw their rounds independently of others, and canaries that draw like them.


@dataclass(frozen=True, eq=False)
class OwnDraw:
    """The draw of members' rounds; `share` is the mean share of members in a round."""

    draw: Callable[[IntArray, Stream], Draw]
    sampling: Sampling
    share: float


def schedule_of_draws(
    config: Any,
    seed: int,
    roster: Roster,
    of_clients: OwnDraw,
    with_mean: Callable[[float], OwnDraw],
) -> Schedule:
    """The schedule of clients, and of canaries sampled like clients or placed.

    `config` is a `DrawnParticipation` with the key `canaries`; `with_mean` makes the draw of
    canaries whose mean number of rounds differs from a client's.
    """
    check_placement(config, config.canaries)
    clients = of_clients.draw(np.arange(roster.num_clients), Stream.CLIENT_ROUNDS)
    expected_clients = of_clients.share * roster.num_clients
    attendance = Attendance(clients, expected_clients, of_clients.sampling)
    mean = config.canary_mean_repeats
    if config.canaries != "like_clients":
        canaries = place(config, config.canaries, seed, roster, expected_clients)
    else:
        of_canaries = of_clients if mean is None else with_mean(mean)
        pool_draw = of_canaries.draw(roster.pool, Stream.CANARY_ROUNDS)
        canaries = CanaryAttendance(
            included_among(pool_draw, roster.included),
            of_canaries.share * int(roster.included.sum()),
            of_canaries.sampling,
            pool_draw,
        )
    return Schedule(config.rounds, attendance, canaries)
