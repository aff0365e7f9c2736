"""Participation patterns in which every client draws its rounds independently of others.

- `cyclic_poisson`: groups take turns, and each client of a group joins by a coin;
- `balls_in_bins`: groups take turns, and each client draws its group;
- `random_allocation`: each client draws k of all rounds;
- `b_min_sep`: each client joins by a coin, and rests after each participation.

As draws are independent, the size of a round is random. Canaries draw like clients, or are placed:

>>> from fl_audit.participation.schedule import Roster
>>> roster = Roster([f"client-{i}" for i in range(6)], included=np.array([True, False]))
>>> config = RandomAllocation(rounds=6, clients_per_round=2)
>>> schedule = random_allocation_schedule(config, 0, roster)
>>> schedule.client_attendance.sampling  # 2 of 6 clients a round: each has 2 of 6 rounds
AllocatedRounds(number=2, rounds=6)
"""

import math
from typing import Literal

import numpy as np

from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.array_types import IntArray
from fl_audit.config_tables.kinds import PositiveInt
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.number_words import count, significant
from fl_audit.participation import schedule
from fl_audit.participation.patterns import check_separation
from fl_audit.participation.placement import (
    DrawnParticipation,
    OwnDraw,
    canary_rounds,
    check_share,
    possible_mean,
    schedule_of_draws,
    share_of_rounds,
    whole_rounds,
)
from fl_audit.seeds import Stream, generator


class OwnDraws(DrawnParticipation, frozen=True, kw_only=True):
    """The keys of patterns in which every client draws its rounds.

    Attributes:
      clients_per_round: Expected cohort of real clients.
      canaries: Rounds of canaries (docs/participation.md).
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


# Poisson sampling in groups that take turns.


class CyclicPoisson(OwnDraws, frozen=True, kw_only=True, tag_field="kind", tag="cyclic_poisson"):
    """Poisson sampling from one group of clients after another.

    Clients are split once, at random, into `separation` groups of nearly equal size (Choquette-Choo
    et al. 2023, arXiv:2306.08153, algorithm 2). The coins amplify privacy under independent noise,
    and under a matrix with at most as many bands as groups.

    Attributes:
      clients_per_round: Expected cohort of real clients.
      separation: Number of groups, and distance of a group's rounds.
      canaries: Rounds of canaries (docs/participation.md).
    """

    separation: PositiveInt


def cyclic_poisson_schedule(
    config: CyclicPoisson, seed: int, roster: schedule.Roster
) -> schedule.Schedule:
    """Schedules the groups in turn, the clients of each by coins. A round may be empty."""
    check_separation(config.clients_per_round, config.separation, roster.num_clients)
    groups, rounds = config.separation, config.rounds

    def by_coin(probability: float) -> OwnDraw:
        def draw_rounds(members: IntArray, stream: Stream) -> schedule.Draw:
            order = generator(seed, stream).permutation(members)
            in_groups = [np.sort(group) for group in np.array_split(order, groups)]

            def draw(round_index: int) -> IntArray:
                group = in_groups[round_index % groups]
                coins = generator(seed, stream, round_index).random(len(group))
                sampled: IntArray = group[coins < probability]
                return sampled

            return draw

        sampling = CyclicPoissonSampling(probability, groups, -(-rounds // groups))
        return OwnDraw(draw_rounds, sampling, probability / groups)

    def with_mean(mean: float) -> OwnDraw:
        return by_coin(groups * share_of_rounds(mean, rounds, 1 / groups))

    probability = config.clients_per_round * groups / roster.num_clients
    return schedule_of_draws(config, seed, roster, by_coin(probability), with_mean)


def _cyclic_client_rounds(record: RunRecord, config: CyclicPoisson) -> str:
    probability = significant(config.clients_per_round * config.separation / record.num_clients)
    return (
        f"Clients are split into {count(config.separation, 'group')} that take turns, and are "
        f"Poisson-sampled in them: each joins each round of its group with probability "
        f"{probability}, {count(config.clients_per_round, 'client')} a round on average."
    )


CYCLIC_POISSON = schedule.ParticipationPattern(
    table=CyclicPoisson,
    schedule=cyclic_poisson_schedule,
    client_rounds=_cyclic_client_rounds,
    canary_rounds=canary_rounds,
)


# Balls in bins.


class BallsInBins(OwnDraws, frozen=True, kw_only=True, tag_field="kind", tag="balls_in_bins"):
    """Each client draws a group; groups participate in turn (Chua et al. 2024, arXiv:2412.16802).

    There are as few groups as possible with at most `clients_per_round` clients each on average.
    Each client is in every round of its group. The secret choice of the group amplifies privacy
    under independent noise, and under some matrices with fewer bands than groups.
    """


def balls_in_bins_schedule(
    config: BallsInBins, seed: int, roster: schedule.Roster
) -> schedule.Schedule:
    """Schedules the groups in turn. A round may be empty."""
    schedule.check_cohort_size(config.clients_per_round, roster.num_clients)
    rounds = config.rounds

    def among(bins: int) -> OwnDraw:
        def draw_rounds(members: IntArray, stream: Stream) -> schedule.Draw:
            chosen = generator(seed, stream).integers(bins, size=len(members))
            groups = [members[chosen == index] for index in range(min(bins, rounds))]
            return lambda round_index: groups[round_index % bins]

        return OwnDraw(draw_rounds, BallsInBinsSampling(bins, rounds), 1 / bins)

    def with_mean(mean: float) -> OwnDraw:
        check_share(mean / rounds)
        most, least = max(math.ceil(rounds / mean), 1), max(math.floor(rounds / mean), 1)
        why = "a canary in one of b groups participates in one b-th of the rounds"
        return among(round(rounds / possible_mean(mean, rounds / most, rounds / least, why)))

    return schedule_of_draws(
        config, seed, roster, among(_bins(config, roster.num_clients)), with_mean
    )


def _bins(config: BallsInBins, num_clients: int) -> int:
    return -(-num_clients // config.clients_per_round)


def _bins_client_rounds(record: RunRecord, config: BallsInBins) -> str:
    bins = _bins(config, record.num_clients)
    return (
        f"Each client draws one of {count(bins, 'group')} that take turns, "
        f"{significant(record.num_clients / bins)} clients a round on average."
    )


BALLS_IN_BINS = schedule.ParticipationPattern(
    table=BallsInBins,
    schedule=balls_in_bins_schedule,
    client_rounds=_bins_client_rounds,
    canary_rounds=canary_rounds,
)


# Random allocation.


class RandomAllocation(
    OwnDraws, frozen=True, kw_only=True, tag_field="kind", tag="random_allocation"
):
    """Each client samples k of all rounds (Feldman & Shenfeld 2025, arXiv:2502.12773).

    The number k is `clients_per_round` times `rounds` over the number of real clients, rounded.
    """


def random_allocation_schedule(
    config: RandomAllocation, seed: int, roster: schedule.Roster
) -> schedule.Schedule:
    """Schedules each client in its rounds, drawn uniformly without replacement."""
    schedule.check_cohort_size(config.clients_per_round, roster.num_clients)
    number = _rounds_per_client(config, roster.num_clients)
    if number == 0:
        raise InputError(
            f"participation.clients_per_round: {config.clients_per_round} of {roster.num_clients} "
            f"real clients in {config.rounds} rounds are less than a round for each; must be at "
            f"least {-(-roster.num_clients // config.rounds)}"
        )

    def of(number: int) -> OwnDraw:
        def draw_rounds(members: IntArray, stream: Stream) -> schedule.Draw:
            random = generator(seed, stream)
            rounds = without_replacement(random, config.rounds, number, len(members))
            participants = np.repeat(members, number)
            return schedule.ParticipationTable(
                participants, rounds.ravel(), config.rounds
            ).members_in

        return OwnDraw(draw_rounds, AllocatedRounds(number, config.rounds), number / config.rounds)

    def with_mean(mean: float) -> OwnDraw:
        why = "each canary has a whole number of rounds"
        return of(whole_rounds(mean, config.rounds, why))

    return schedule_of_draws(config, seed, roster, of(number), with_mean)


def _rounds_per_client(config: RandomAllocation, num_clients: int) -> int:
    return round(config.clients_per_round * config.rounds / num_clients)


def without_replacement(
    random: np.random.Generator, population: int, number: int, members: int
) -> IntArray:
    """Uniform samples without replacement, one per row, int64 of shape (members, number).

    This is Floyd's algorithm (Bentley & Floyd 1987) for all members at once: each draw extends the
    range by one number, and takes that number if it would repeat an earlier draw.
    """
    sampled = np.empty((members, number), np.int64)
    for done in range(number):
        last = population - number + done
        fresh = random.integers(last + 1, size=members)
        repeats = (sampled[:, :done] == fresh[:, None]).any(axis=1)
        sampled[:, done] = np.where(repeats, last, fresh)
    return sampled


def _allocated_client_rounds(record: RunRecord, config: RandomAllocation) -> str:
    number = _rounds_per_client(config, record.num_clients)
    return (
        f"Each client draws {count(number, 'round')} of {config.rounds}, "
        f"{significant(number * record.num_clients / config.rounds)} clients a round on average."
    )


RANDOM_ALLOCATION = schedule.ParticipationPattern(
    table=RandomAllocation,
    schedule=random_allocation_schedule,
    client_rounds=_allocated_client_rounds,
    canary_rounds=canary_rounds,
)


# Coins, and a rest after each participation.


class BMinSep(OwnDraws, frozen=True, kw_only=True, tag_field="kind", tag="b_min_sep"):
    """Poisson sampling of clients that were in none of the previous `separation` - 1 rounds.

    So the rounds of a client are at random distances of at least `separation`, without the fixed
    groups of `cyclic_poisson`. On average, as many clients rest in the first rounds as in later
    rounds.

    Attributes:
      separation: Least distance of a client's rounds.
    """

    separation: PositiveInt


def b_min_sep_schedule(config: BMinSep, seed: int, roster: schedule.Roster) -> schedule.Schedule:
    """Schedules each client by coins, whose probability gives rounds of the requested mean size."""
    check_separation(config.clients_per_round, config.separation, roster.num_clients)

    def by_coin(coin: float) -> OwnDraw:
        def draw_rounds(members: IntArray, stream: Stream) -> schedule.Draw:
            return _rested(members, generator(seed, stream), coin, config)

        sampling = MinSeparationSampling(coin, config.separation, config.rounds)
        return OwnDraw(draw_rounds, sampling, sampling.round_share)

    def with_mean(mean: float) -> OwnDraw:
        share = share_of_rounds(mean, config.rounds, 1 / config.separation)
        return by_coin(min(share / (1 - (config.separation - 1) * share), 1.0))

    return schedule_of_draws(
        config, seed, roster, by_coin(_coin(config, roster.num_clients)), with_mean
    )


def _coin(config: BMinSep, num_clients: int) -> float:
    """The probability p with which a client that does not rest joins a round.

    On average a share p / (1 + (separation - 1) p) of all clients joins a round.
    """
    size = config.clients_per_round
    return size / (num_clients - (config.separation - 1) * size)


def _rested(
    members: IntArray, random: np.random.Generator, coin: float, config: BMinSep
) -> schedule.Draw:
    rest = config.separation - 1
    resting = random.random(len(members)) < rest * coin / (1 + rest * coin)
    rounds_left = random.integers(1, max(rest, 1) + 1, size=len(members))
    rounds = resting * rounds_left + random.geometric(coin, len(members)) - 1
    participants, participations = [members[:0]], [rounds[:0]]
    while (is_within := rounds < config.rounds).any():
        members, rounds = members[is_within], rounds[is_within]
        participants.append(members)
        participations.append(rounds)
        rounds = rounds + rest + random.geometric(coin, len(members))
    return schedule.ParticipationTable(
        np.concatenate(participants), np.concatenate(participations), config.rounds
    ).members_in


def _separated_client_rounds(record: RunRecord, config: BMinSep) -> str:
    coin, rest = significant(_coin(config, record.num_clients)), config.separation - 1
    who = f"A client that was in none of the last {count(rest, 'round')}" if rest else "Each client"
    return (
        f"{who} joins with probability {coin}, {count(config.clients_per_round, 'client')} a round "
        "on average."
    )


B_MIN_SEP = schedule.ParticipationPattern(
    table=BMinSep,
    schedule=b_min_sep_schedule,
    client_rounds=_separated_client_rounds,
    canary_rounds=canary_rounds,
)
