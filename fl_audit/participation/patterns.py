"""Participation patterns that draw cohorts: tables, schedules and words.

- `shuffle`: each client participates in exactly one round of each epoch;
- `bernoulli`: Poisson sampling, by an independent coin for every client and round;
- `uniform`: every round draws a new sample of fixed size without replacement;
- `min_separation`: groups take turns, so that a client rests after each participation;
- `every_round`: full participation.

Patterns in which clients draw rounds are in `client_patterns`. A pattern is a config table, a
function from the table, a seed and a roster to a `Schedule`, and the words of the report;
`fl_audit.participation` registers the patterns.

>>> from fl_audit.participation.schedule import Roster
>>> roster = Roster([f"client-{i}" for i in range(6)], included=np.array([True, False]))
>>> schedule = shuffle_schedule(Shuffle(rounds=4, clients_per_round=2), 0, roster)
>>> [sorted(schedule.clients(t).tolist()) for t in range(3)]  # an epoch
[[2, 3], [0, 4], [1, 5]]
>>> schedule.client_participations, schedule.canary_participations
(2, 1)
"""

import bisect
import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.accounting.sampling import FixedRounds, OncePerBlock, OneGroup, Sampling
from fl_audit.accounting.samplings.fixed_size import FixedSizeSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.truncated_poisson import TruncatedPoissonSampling
from fl_audit.array_types import IntArray
from fl_audit.config_tables.kinds import (
    NonNegativeInt,
    NumRounds,
    PositiveFloat,
    PositiveInt,
    Table,
)
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.number_words import count, significant
from fl_audit.participation import placement, schedule
from fl_audit.seeds import Stream, generator


class Shuffle(placement.PlacedCanaries, frozen=True, kw_only=True, tag_field="kind", tag="shuffle"):
    """Shuffled epochs: each client participates once per epoch (Andrew et al. 2023, section 5).

    With `epochs` each client participates in exactly that many rounds: the run is divided into
    `epochs` nearly equal parts, and all clients are distributed evenly over the rounds of each
    part.

    Attributes:
      clients_per_round: Largest cohort of real clients.
      epochs: Rounds of each client, instead of `clients_per_round`.
      canaries: Rounds of canaries (docs/participation.md).
    """

    clients_per_round: PositiveInt | None = None
    epochs: PositiveInt | None = None
    canaries: Literal["repeats", "like_clients", "once_per_epoch", "last_rounds"] = "repeats"

    def __post_init__(self) -> None:
        if (self.clients_per_round is None) == (self.epochs is None):
            both = "both are set" if self.epochs else "is missing"
            raise ValueError(f"clients_per_round or epochs: {both}; set one of the two")


def shuffle_schedule(config: Shuffle, seed: int, roster: schedule.Roster) -> schedule.Schedule:
    """Schedules each epoch by a new permutation of the clients (Andrew et al. section 5).

    The sizes of an epoch's rounds differ by at most one. The expected cohort is the mean size of a
    round in an epoch, or in the run if `epochs` is set.
    """
    placement.check_placement(config, config.canaries)
    num_clients, rounds = roster.num_clients, config.rounds
    epochs = _epochs(config, num_clients)
    length, longer = len(epochs[0]), 0
    expected_clients = num_clients / length
    if len(epochs[-1]) < length:  # equal parts of a number of rounds that they do not divide
        length, longer = divmod(rounds, len(epochs))
        expected_clients = num_clients * len(epochs) / rounds
    return schedule.Schedule(
        num_rounds=rounds,
        client_attendance=schedule.Attendance(
            members_in=_shuffled_epochs(num_clients, epochs, seed),
            expected=expected_clients,
            sampling=OncePerBlock(len(epochs), length, longer),
        ),
        canary_attendance=_shuffle_canaries(config, seed, roster, epochs, expected_clients),
    )


def _epochs(config: Shuffle, num_clients: int) -> list[range]:
    """The rounds of each epoch; the last epoch may extend beyond the run."""
    if config.clients_per_round is not None:
        schedule.check_cohort_size(config.clients_per_round, num_clients)
        length = -(-num_clients // config.clients_per_round)
        return [range(start, start + length) for start in range(0, config.rounds, length)]
    number = config.epochs or 1
    if number > config.rounds:
        raise InputError(
            f"participation.epochs: {number} epochs do not fit into {config.rounds} rounds; must "
            f"be at most {config.rounds}"
        )
    return placement.equal_parts(range(config.rounds), number)


def _shuffle_canaries(
    config: Shuffle,
    seed: int,
    roster: schedule.Roster,
    epochs: list[range],
    expected_clients: float,
) -> schedule.CanaryAttendance:
    pool, rounds, mean = roster.pool, config.rounds, config.canary_mean_repeats
    match config.canaries:
        case "once_per_epoch":
            return placement.once_per_epoch(pool, seed, rounds, epochs).of_canaries(roster.included)
        case "like_clients":
            if mean is not None:
                why = "under shuffle each canary has a whole number of rounds"
                number = placement.whole_rounds(mean, rounds, why)
                epochs = placement.equal_parts(range(rounds), number)
            return placement.shuffled(pool, seed, rounds, epochs).of_canaries(roster.included)
        case chosen:
            return placement.place(config, chosen, seed, roster, expected_clients)


def _shuffled_epochs(num_clients: int, epochs: list[range], seed: int) -> schedule.Draw:
    starts = [epoch.start for epoch in epochs]

    # Cached, because rounds are mostly requested in order, and a large permutation takes 10 ms.
    @functools.lru_cache(maxsize=1)
    def split_epoch(epoch: int) -> list[IntArray]:
        order = generator(seed, Stream.CLIENT_ROUNDS, epoch).permutation(num_clients)
        return np.array_split(order, len(epochs[epoch]))

    def draw(round_index: int) -> IntArray:
        epoch = bisect.bisect_right(starts, round_index) - 1
        return split_epoch(epoch)[round_index - starts[epoch]]

    return draw


def _shuffle_client_rounds(record: RunRecord, config: Shuffle) -> str:
    if config.clients_per_round is None:
        times = count(config.epochs or 0, "round")
        return f"Clients are shuffled and assigned evenly, so that each is in exactly {times}."
    size = count(config.clients_per_round, "client")
    return f"Clients are shuffled: {size} a round, {schedule.most_rounds_of_a_client(record)}."


SHUFFLE = schedule.ParticipationPattern(
    table=Shuffle,
    schedule=shuffle_schedule,
    client_rounds=_shuffle_client_rounds,
    canary_rounds=placement.canary_rounds,
)


# Poisson sampling.


class Bernoulli(
    placement.DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="bernoulli"
):
    """Poisson sampling: each client participates in each round by an independent coin.

    Under `like_clients` excluded canaries count towards `largest_round`, and send nothing.

    Attributes:
      clients_per_round: Expected cohort of real clients.
      largest_round: Largest cohort of truncated Poisson sampling.
      canaries: Rounds of canaries (docs/participation.md).
    """

    largest_round: PositiveInt | None = None
    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


def bernoulli_schedule(config: Bernoulli, seed: int, roster: schedule.Roster) -> schedule.Schedule:
    """Schedules each real client in every round with the same probability.

    Included canaries are scheduled by coins too, or are placed. A round may be empty, and then
    releases only noise.
    """
    schedule.check_cohort_size(config.clients_per_round, roster.num_clients)
    if config.largest_round is not None:
        return _truncated_schedule(config, seed, roster, config.largest_round)

    def by_coin(probability: float) -> placement.OwnDraw:
        return placement.OwnDraw(
            lambda members, stream: _coins(members, probability, seed, stream),
            PoissonSampling(probability),
            probability,
        )

    def with_mean(mean: float) -> placement.OwnDraw:
        return by_coin(placement.share_of_rounds(mean, config.rounds, 1.0))

    probability = config.clients_per_round / roster.num_clients
    return placement.schedule_of_draws(config, seed, roster, by_coin(probability), with_mean)


def _coins(members: IntArray, probability: float, seed: int, stream: Stream) -> schedule.Draw:
    def draw(round_index: int) -> IntArray:
        coins = generator(seed, stream, round_index).random(len(members))
        return members[coins < probability]

    return draw


def _bernoulli_client_rounds(record: RunRecord, config: Bernoulli) -> str:
    probability = significant(config.clients_per_round / record.num_clients)
    coins = f"Clients are Poisson-sampled: each joins each round with probability {probability}"
    sampling = record.release.client.sampling
    if not isinstance(sampling, TruncatedPoissonSampling):
        return f"{coins}, {count(config.clients_per_round, 'client')} a round on average."
    who = "clients" if sampling.members == record.num_clients else "clients and canaries"
    return (
        f"{coins}, and a round of more than {sampling.largest:,} {who} is cut to as many at "
        f"random, {significant(sampling.mean_share * record.num_clients)} clients a round on "
        "average."
    )


BERNOULLI = schedule.ParticipationPattern(
    table=Bernoulli,
    schedule=bernoulli_schedule,
    client_rounds=_bernoulli_client_rounds,
    canary_rounds=placement.canary_rounds,
)


# Draws without replacement from an urn with real clients and the whole pool of canaries. A sampled
# excluded canary sends nothing. So a canary's coin only decides whether it sends its update, and
# does not change the rounds of others.


@dataclass(frozen=True, eq=False)
class Urn:
    """An urn of the real clients, numbered from 0, and the pool's canaries, numbered after them.

    A round draws up to `sample_size` of these members, and `mean_size` on average (by default all).
    """

    roster: schedule.Roster
    sample_size: int
    mean_size: float | None = None

    @classmethod
    def from_roster(cls, roster: schedule.Roster, clients_per_round: int) -> "Urn":
        """The urn whose draws hold about `clients_per_round` real clients on average.

        Without canaries a draw holds exactly that many; otherwise the mean differs a little, as the
        sample size is rounded.
        """
        canaries_per_round = clients_per_round * len(roster.included) / roster.num_clients
        return cls(roster, clients_per_round + round(canaries_per_round))

    @property
    def size(self) -> int:
        return self.roster.num_clients + len(self.roster.included)

    @property
    def _mean_size(self) -> float:
        return self.sample_size if self.mean_size is None else self.mean_size

    def client_attendance(self, draw: schedule.Draw, sampling: Sampling) -> schedule.Attendance:
        """The real clients in each draw from the urn."""
        num_clients = self.roster.num_clients

        def sampled_clients(round_index: int) -> IntArray:
            sampled = draw(round_index)
            return sampled[sampled < num_clients]

        return schedule.Attendance(
            sampled_clients, self._mean_size * num_clients / self.size, sampling
        )

    def canary_attendance(
        self, draw: schedule.Draw, sampling: Sampling
    ) -> schedule.CanaryAttendance:
        """The canaries in each draw."""
        num_clients, included = self.roster.num_clients, self.roster.included

        def sampled_canaries(round_index: int) -> IntArray:
            sampled = draw(round_index)
            canaries: IntArray = sampled[sampled >= num_clients] - num_clients
            return canaries

        expected = self._mean_size * int(included.sum()) / self.size
        attending = schedule.included_among(sampled_canaries, included)
        return schedule.CanaryAttendance(attending, expected, sampling, sampled_canaries)


def _truncated_schedule(
    config: Bernoulli, seed: int, roster: schedule.Roster, largest: int
) -> schedule.Schedule:
    """Schedules by truncated Poisson sampling from an urn, without canaries if they are placed."""
    placement.check_placement(config, config.canaries)
    if largest < config.clients_per_round:
        raise InputError(
            f"participation.largest_round: {largest} is less than clients_per_round, "
            f"the expected size before the limit; must be at least {config.clients_per_round}"
        )
    is_shared = config.canaries == "like_clients"
    if is_shared and config.canary_mean_repeats is not None:
        raise InputError(
            "participation.canary_mean_repeats: cannot be combined with largest_round under "
            "`canaries = 'like_clients'`, where clients and canaries are drawn together; leave out "
            "one of the two"
        )
    urn = Urn(roster if is_shared else roster.without_canaries, largest)
    probability = config.clients_per_round / roster.num_clients
    sampling = TruncatedPoissonSampling(probability, urn.size, largest)
    expected_clients = sampling.mean_share * roster.num_clients

    def draw(round_index: int) -> IntArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        sampled = np.flatnonzero(random.random(urn.size) < probability)
        return sampled if len(sampled) <= largest else sample(random, sampled, largest)

    return schedule.Schedule(
        num_rounds=config.rounds,
        client_attendance=dataclasses.replace(
            urn.client_attendance(draw, sampling), expected=expected_clients
        ),
        canary_attendance=(
            dataclasses.replace(
                urn.canary_attendance(draw, sampling),
                expected=sampling.mean_share * int(roster.included.sum()),
            )
            if config.canaries == "like_clients"
            else placement.place(config, config.canaries, seed, roster, expected_clients)
        ),
    )


def sample(random: np.random.Generator, members: IntArray | int, size: int) -> IntArray:
    """A uniform sample without replacement of `members`, or of `range(members)`, ascending."""
    sampled: IntArray = random.choice(members, size, replace=False, shuffle=False)
    sampled.sort()
    return sampled


# Samples of fixed size.


class Uniform(
    placement.DrawnParticipation, frozen=True, kw_only=True, tag_field="kind", tag="uniform"
):
    """A uniform sample of fixed size in each round, without replacement.

    Under `like_clients` without `canary_mean_repeats`, canaries share the sample; excluded canaries
    in the sample send nothing.

    Attributes:
      clients_per_round: Cohort of real clients; under `like_clients` its expected size.
      canaries: Rounds of canaries (docs/participation.md).
    """

    canaries: Literal["like_clients", "repeats", "last_rounds"] = "like_clients"


def uniform_schedule(config: Uniform, seed: int, roster: schedule.Roster) -> schedule.Schedule:
    """Schedules samples of one size from an urn.

    The urn holds the real clients alone if canaries are placed or `canary_mean_repeats` is set.
    """
    placement.check_placement(config, config.canaries)
    schedule.check_cohort_size(config.clients_per_round, roster.num_clients)
    mean = config.canary_mean_repeats
    is_shared = config.canaries == "like_clients" and mean is None
    urn = Urn.from_roster(
        roster if is_shared else roster.without_canaries, config.clients_per_round
    )

    sampling = FixedSizeSampling(urn.sample_size, urn.size)

    def draw(round_index: int) -> IntArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, urn.size, urn.sample_size)

    if config.canaries != "like_clients":
        size = config.clients_per_round
        canaries = placement.place(config, config.canaries, seed, roster, size)
    elif mean is None:
        canaries = urn.canary_attendance(draw, sampling)
    else:
        canaries = _canaries_of_mean(config, seed, roster, mean)
    return schedule.Schedule(config.rounds, urn.client_attendance(draw, sampling), canaries)


def _canaries_of_mean(
    config: "Uniform | MinSeparation", seed: int, roster: schedule.Roster, mean: float
) -> schedule.CanaryAttendance:
    """Samples of fixed size from the pool alone; a canary has `mean` rounds on average.

    Under `min_separation` the samples come from groups of the pool, which take turns.
    """
    separation = config.separation if isinstance(config, MinSeparation) else 1
    share = separation * placement.share_of_rounds(mean, config.rounds, 1 / separation)
    order = generator(seed, Stream.CANARY_ROUNDS).permutation(len(roster.included))
    groups = np.array_split(order, separation)
    size, urn = placement.urn_for(share, max(1, len(groups[0])))

    def draw(round_index: int) -> IntArray:
        random = generator(seed, Stream.CANARY_ROUNDS, round_index)
        group = groups[round_index % separation]
        places = sample(random, urn, size)
        return np.sort(group[places[places < len(group)]])

    sampling: Sampling = FixedSizeSampling(size, urn)
    if isinstance(config, MinSeparation):  # whose seed draws the schedule, not a secret
        cap = None
        if config.client_rounds_at_most is not None:  # with which canaries' rounds are compared
            cap = max(1, schedule.most_rounds_of_a_member(draw, config.rounds))
        sampling = OneGroup.over(config.rounds, separation, cap)
    expected = share / separation * int(roster.included.sum())
    return schedule.CanaryAttendance(
        schedule.included_among(draw, roster.included), expected, sampling, draw
    )


def _uniform_client_rounds(record: RunRecord, config: Uniform) -> str:
    sampling = record.release.client.sampling
    if not isinstance(sampling, FixedSizeSampling):
        return "Each round draws clients uniformly without replacement."
    sampled = f"{sampling.sample_size:,} of {sampling.sampled_from:,}"
    if sampling.sampled_from == record.num_clients:
        return f"Each round draws {sampled} clients, uniformly without replacement."
    return (
        f"Each round draws {sampled} clients and canaries, uniformly without replacement; "
        "an excluded canary that is sampled sends nothing."
    )


UNIFORM = schedule.ParticipationPattern(
    table=Uniform,
    schedule=uniform_schedule,
    client_rounds=_uniform_client_rounds,
    canary_rounds=placement.canary_rounds,
)


# Minimum separation.


_ROUNDING = 1e-9
"""The share by which a ratio of hours may exceed a whole number without adding a round."""


class MinSeparation(
    Table, schedule.Participation, frozen=True, tag_field="kind", tag="min_separation"
):
    """A client participates at most every `separation` rounds, as assumed by DP-FTRL.

    Clients are split at random into `separation` groups, once; the groups take turns, and a round
    draws from its group uniformly without replacement (Choquette-Choo et al. 2023,
    arXiv:2306.08153, algorithm 2, with a cohort of fixed size). Under `like_clients` without
    `canary_mean_repeats`, canaries share the sample; excluded canaries send nothing.

    Attributes:
      rounds: Number of training rounds.
      clients_per_round: Cohort of real clients; under `like_clients` its expected size.
      separation: Least distance of a client's rounds; or `cool_down_hours` over `round_hours`.
      cool_down_hours: Least hours from a client's round to its next.
      round_hours: Least hours from a round to the next.
      client_rounds_at_most: Rounds after which a client is no longer sampled; the last rounds may
        then be smaller.
      canaries: Rounds of canaries (docs/participation.md).
      canary_mean_repeats: Mean number of a canary's rounds under `like_clients`; default: a
        client's.
    """

    rounds: NumRounds
    clients_per_round: PositiveInt
    separation: NonNegativeInt = 0
    cool_down_hours: PositiveFloat | None = None
    round_hours: PositiveFloat | None = None
    client_rounds_at_most: PositiveInt | None = None
    canaries: Literal["like_clients", "most_frequent"] = "like_clients"
    canary_mean_repeats: placement.MeanRounds | None = None

    def __post_init__(self) -> None:
        """Sets the separation from hours; raises ValueError if it is missing or contradictory."""
        hours = (self.cool_down_hours, self.round_hours)
        if hours[0] is None and hours[1] is None:
            if self.separation == 0:
                raise ValueError("separation is missing (or cool_down_hours and round_hours)")
            return
        if hours[0] is None or hours[1] is None:
            raise ValueError("cool_down_hours and round_hours must both be set, or neither")
        rounds = math.ceil(hours[0] / hours[1] * (1 - _ROUNDING))
        if self.separation not in (0, rounds):
            raise ValueError(
                f"separation is {self.separation}, but the hours give {rounds}; set one or the "
                "other"
            )
        msgspec.structs.force_setattr(self, "separation", rounds)

    @property
    def sampling(self) -> OneGroup:
        return OneGroup.over(self.rounds, self.separation, self.client_rounds_at_most)


def min_separation_schedule(
    config: MinSeparation, seed: int, roster: schedule.Roster
) -> schedule.Schedule:
    """Schedules each client only in the rounds of its group, every `separation`-th round."""
    check_separation(config.clients_per_round, config.separation, roster.num_clients)
    mean = config.canary_mean_repeats
    if config.canaries != "like_clients" and mean is not None:
        raise InputError(
            placement.belongs_to("canary_mean_repeats", "like_clients", config.canaries)
        )
    is_shared = config.canaries == "like_clients" and mean is None
    urn = _urn(config, roster if is_shared else roster.without_canaries)
    _check_cap(config, urn)
    draw = _drawn_from_groups(urn, config, seed)
    if config.client_rounds_at_most is not None:
        sizes = [len(draw(round_index)) for round_index in range(config.rounds)]
        urn = dataclasses.replace(urn, mean_size=float(np.mean(sizes)))
    return schedule.Schedule(
        num_rounds=config.rounds,
        client_attendance=urn.client_attendance(draw, config.sampling),
        canary_attendance=(
            urn.canary_attendance(draw, config.sampling)
            if is_shared
            else _canaries_of_mean(config, seed, roster, mean)
            if mean is not None
            else _every_turn(roster.pool, seed, config).of_canaries(roster.included)
        ),
    )


def check_separation(clients_per_round: int, separation: int, num_clients: int) -> None:
    """Refuses a separation with which the population cannot fill rounds of this size."""
    schedule.check_cohort_size(clients_per_round, num_clients)
    largest = num_clients // clients_per_round
    if separation > largest:
        raise InputError(
            f"participation.separation: where clients rest for {separation - 1} rounds, "
            f"{num_clients} of them cannot fill rounds of {clients_per_round} "
            f"(participation.clients_per_round); must be at most {largest}"
        )


def _check_cap(config: MinSeparation, urn: Urn) -> None:
    """Refuses a cap that leaves too few clients for the rounds of a group."""
    groups = np.arange(config.separation)
    turns = -(-(config.rounds - groups) // config.separation)
    sizes = urn.size // config.separation + (groups < urn.size % config.separation)
    least = int(np.max(-(-turns * urn.sample_size // sizes)))
    if config.sampling.at_most < least:
        raise InputError(
            f"participation.client_rounds_at_most: {config.client_rounds_at_most} rounds per "
            f"client do not fill {config.rounds} rounds of {config.clients_per_round} from "
            f"{urn.roster.num_clients} clients; must be at least {least}"
        )


def _urn(config: MinSeparation, roster: schedule.Roster) -> Urn:
    urn = Urn.from_roster(roster, config.clients_per_round)
    # If groups are just large enough, rounding must not require one more member.
    return Urn(roster, min(urn.sample_size, urn.size // config.separation))


def _drawn_from_groups(urn: Urn, config: MinSeparation, seed: int) -> schedule.Draw:
    """Samples the group whose turn it is, without members that have had all their rounds."""
    order = generator(seed, Stream.CLIENT_ROUNDS).permutation(urn.size)
    groups = np.array_split(order, config.separation)

    def draw(round_index: int) -> IntArray:
        random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
        return sample(random, groups[round_index % config.separation], urn.sample_size)

    # A member's number of rounds depends on the group's earlier rounds.
    @functools.lru_cache(maxsize=config.separation)
    def capped_turns(number: int) -> list[npt.NDArray[np.int32]]:
        members, turns = groups[number], []
        had = np.zeros(len(members), np.int64)
        for round_index in range(number, config.rounds, config.separation):
            random = generator(seed, Stream.CLIENT_ROUNDS, round_index)
            left = np.flatnonzero(had < config.sampling.at_most)
            sampled = sample(random, left, min(urn.sample_size, len(left)))
            had[sampled] += 1
            turns.append(np.sort(members[sampled]).astype(np.int32))
        return turns

    def draw_capped(round_index: int) -> IntArray:
        turn, number = divmod(round_index, config.separation)
        return capped_turns(number)[turn].astype(np.int64)

    is_capped = config.sampling.at_most * config.separation < config.rounds
    return draw_capped if is_capped else draw


def _every_turn(
    canaries: IntArray, seed: int, config: MinSeparation
) -> schedule.ParticipationTable:
    """Places each canary in the rounds of one group, drawn among groups that have a round.

    A canary has all rounds of its group, or as many of the first as a client's cap allows.
    """
    num_groups = min(config.separation, config.rounds)
    groups = generator(seed, Stream.CANARY_ROUNDS).integers(num_groups, size=len(canaries))
    most = config.sampling.at_most
    rounds = [np.arange(group, config.rounds, config.separation)[:most] for group in groups]
    return schedule.ParticipationTable.of_members(canaries, rounds, config.rounds)


def _min_separation_client_rounds(record: RunRecord, config: MinSeparation) -> str:
    hours = config.cool_down_hours
    rest = "" if hours is None else f", after {hours:g} hours"
    return (
        f"Clients are split into {count(config.separation, 'group')} that take turns, so that a "
        f"client checks in at most every {count(config.separation, 'round')}{rest}: "
        f"{count(config.clients_per_round, 'client')} a round, "
        f"{schedule.most_rounds_of_a_client(record)}."
    )


def _min_separation_canary_rounds(config: MinSeparation) -> str:
    match config.canaries:
        case "like_clients":
            return placement.like_clients_words(config.canary_mean_repeats)
        case "most_frequent":
            return (
                "all those of a group, sampled for each canary"
                if config.client_rounds_at_most is None
                else "the first of a group, as many as a client’s, sampled for each canary"
            )
        case unknown:
            assert_never(unknown)


MIN_SEPARATION = schedule.ParticipationPattern(
    table=MinSeparation,
    schedule=min_separation_schedule,
    client_rounds=_min_separation_client_rounds,
    canary_rounds=_min_separation_canary_rounds,
)


# Full participation.


class EveryRound(Table, schedule.Participation, frozen=True, tag_field="kind", tag="every_round"):
    """Every client and every included canary participates in every round.

    Attributes:
      rounds: Number of training rounds.
    """

    rounds: NumRounds


def every_round_schedule(
    config: EveryRound, seed: int, roster: schedule.Roster
) -> schedule.Schedule:
    always = FixedRounds(config.rounds)
    canaries = np.flatnonzero(roster.included)
    return schedule.Schedule(
        num_rounds=config.rounds,
        client_attendance=schedule.Attendance(
            _always(np.arange(roster.num_clients)), roster.num_clients, always
        ),
        canary_attendance=schedule.CanaryAttendance(
            _always(canaries), len(canaries), always, sampled=_always(roster.pool)
        ),
    )


def _always(members: IntArray) -> schedule.Draw:
    return lambda _: members


EVERY_ROUND = schedule.ParticipationPattern(
    table=EveryRound,
    schedule=every_round_schedule,
    client_rounds=lambda record, config: "Every client participates in every round.",
    canary_rounds=lambda config: "all of them",
)
