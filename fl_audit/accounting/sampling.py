"""Samplings: how the rounds of clients and canaries are drawn.

Each is a subclass of `Sampling`, and an instance describes the rounds of the real clients or of the
canaries of a run: their distribution, the likelihood ratio of an attacker who knows no more
(`attacks.likelihood_null`), and which rounds it allows. A new sampling is a subclass, next to its
participation pattern, and an accountant for it (`sampling_accountants.register_accountant`).

The ratio of a member with rounds S is the mean of exp(sum of w_t over S), with w_t the log ratio of
round t, over the distribution of S:

>>> sampling = AllocatedRounds(number=1, rounds=3)
>>> sampling.log_ratio(np.log([[2.0], [3.0], [7.0]])).round(6).tolist()  # log of the mean, 4
[1.386294]
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.json_records import fields_from_json, fields_to_json

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"

Blocks = tuple[tuple[int, int], ...]
"""Blocks of consecutive rounds: pairs of a length and the number of blocks of that length."""


Presences = npt.NDArray[np.bool_]
"""Whether each member is in each round, of shape (rounds, members)."""


@dataclass(frozen=True)
class Sampling:
    """Base class: how the rounds of a party are drawn.

    A custom subclass is a frozen dataclass, whose fields have types of JSON and are kept in
    run.json.
    """

    neighbours: ClassVar[str] = ZERO_OUT
    """The neighbouring relation, in words, of accountants that count on sampling."""

    def to_json(self) -> dict[str, Any]:
        """The name of the class, as `kind`, and its fields."""
        return {"kind": type(self).__name__, **fields_to_json(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Sampling":
        """Inverse of `to_json`; `UnknownRounds` if the class is not imported.

        Raises:
          ValueError: A field is missing, or a value is of another type.
        """
        kinds = [Sampling]
        for kind in kinds:
            kinds += kind.__subclasses__()
        subclass = next((kind for kind in kinds if kind.__name__ == value["kind"]), None)
        return UnknownRounds() if subclass is None else fields_from_json(subclass, value)

    @property
    def most(self) -> int | None:
        """The largest number of rounds if they are not secret; None if they are."""
        return None

    @property
    def most_drawn(self) -> int | None:
        """The largest number of rounds, also of secret ones; None if all rounds are possible."""
        return self.most

    @property
    def share(self) -> float | None:
        """The probability of each round, if rounds are independent; else None."""
        return None

    @property
    def round_share(self) -> float | None:
        """The marginal probability of each round; None if unknown."""
        return self.share

    @property
    def has_likelihood(self) -> bool:
        """Whether the distribution of a member's rounds is implemented."""
        return self.share is not None or type(self).log_ratio is not Sampling.log_ratio

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        """The log likelihood ratio of inclusion.

        The time is linear in rounds and members (times the number of rounds of each member under
        random allocation).

        Args:
          logs: The log ratio w_t of each round if the member is in it, float64 of shape (rounds,
            members); 0 for a round that was not seen.

        Returns:
          float64 of shape (members,).

        Raises:
          ValueError: The distribution is not implemented.
        """
        return np.asarray(_by_coin(logs, self._known_share).sum(axis=0))

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        """Draws the rounds of members, independently of one another.

        Raises:
          ValueError: The distribution is not implemented.
        """
        return random.random((rounds, members)) < self._known_share

    def allows(self, member: IndexArray, rounds: int) -> bool:
        """Whether a member can have these rounds, distinct and ascending, of so many."""
        return True

    @property
    def _known_share(self) -> float:
        if self.share is None:
            raise ValueError(f"no likelihood is implemented for {type(self).__name__}")
        return self.share


def log_binomial_masses(trials: int, probability: float) -> FloatArray:
    """The log probability of each number of rounds by coins, float64 of shape (trials + 1,)."""
    k = np.arange(trials + 1)
    log_choices = -math.log(trials + 1) - special.betaln(trials - k + 1, k + 1)
    by_coins = special.xlogy(k, probability) + special.xlog1py(trials - k, -probability)
    return np.asarray(log_choices + by_coins)


def _by_coin(logs: FloatArray, probability: float) -> FloatArray:
    """The log of 1 - q + q e^w of each round."""
    if probability == 1:
        return logs
    return np.logaddexp(math.log1p(-probability), math.log(probability) + logs)


def _mean_of_groups(logs: FloatArray, groups: int) -> FloatArray:
    """The log of the mean over groups that take turns, of which some may have no round."""
    sums = np.zeros((groups, logs.shape[1]))
    for start in range(0, len(logs), groups):
        turn = logs[start : start + groups]
        sums[: len(turn)] += turn
    return np.asarray(special.logsumexp(sums, axis=0) - math.log(groups))


def _in_one_group(rounds: int, members: int, groups: int, random: np.random.Generator) -> Presences:
    chosen = random.integers(groups, size=members)
    return np.asarray(np.arange(rounds)[:, None] % groups == chosen)


@dataclass(frozen=True)
class FixedRounds(Sampling):
    """Rounds that an attacker may know: those of the schedule.

    Attributes:
      at_most: The largest number of rounds of any member of the party.
    """

    at_most: int

    @property
    def most(self) -> int:
        return self.at_most


@dataclass(frozen=True)
class OncePerBlock(FixedRounds):
    """Any one round of each block, such as of each shuffled epoch.

    Attributes:
      at_most: The number of blocks.
      length: The number of rounds of a block, at least 1. The first block starts with the first
        round; the last one may have fewer.
    """

    length: int

    @classmethod
    def over(cls, rounds: int, length: int) -> "OncePerBlock":
        """The blocks of this length in a number of rounds."""
        return cls(-(-rounds // length), length)


@dataclass(frozen=True)
class OneGroup(FixedRounds):
    """Any rounds of one group, where groups take turns.

    Attributes:
      at_most: The largest number of rounds of a member: that of a group, or a cap below it.
      separation: The number of groups, at least 1; also the distance of a group's rounds.
    """

    separation: int

    @classmethod
    def over(cls, rounds: int, separation: int, cap: int | None = None) -> "OneGroup":
        """This number of groups in a number of rounds, of which a member may be in `cap`."""
        turns = -(-rounds // separation)
        return cls(min(turns, cap or turns), separation)


@dataclass(frozen=True)
class OneRoundPerBlock(FixedRounds):
    """One round of each block, drawn uniformly and independently of everything else.

    Attributes:
      at_most: The largest number of rounds of any member of the party: the number of blocks, or 0
        if the party has no member.
      blocks: The blocks, by length.
    """

    blocks: Blocks

    @property
    def is_drawn(self) -> bool:
        """Whether any block leaves a choice."""
        return any(length > 1 for length, _ in self.blocks)

    @property
    def _lengths(self) -> list[int]:
        return [length for length, count in self.blocks for _ in range(count)]

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        total, start = np.zeros(logs.shape[1]), 0
        for length in self._lengths:
            block = logs[start : start + length]
            total += special.logsumexp(block, axis=0) - math.log(length)
            start += length
        return total

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        present, start = np.zeros((rounds, members), bool), 0
        for length in self._lengths:
            present[start + random.integers(length, size=members), np.arange(members)] = True
            start += length
        return present


@dataclass(frozen=True)
class BallsInBinsSampling(Sampling):
    """All rounds of one group, where groups take turns and each member draws its group.

    Attributes:
      bins: The number of groups, at least 1, of which a member draws one uniformly and
        independently; also the distance of a group's rounds.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    bins: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return -(-self.rounds // self.bins)

    @property
    def round_share(self) -> float:
        return 1 / self.bins

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        return _mean_of_groups(logs, self.bins)

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        return _in_one_group(rounds, members, self.bins, random)

    def allows(self, member: IndexArray, rounds: int) -> bool:
        if not len(member):
            return self.bins > rounds
        return np.array_equal(member, np.arange(member[0] % self.bins, rounds, self.bins))


@dataclass(frozen=True)
class AllocatedRounds(Sampling):
    """A fixed number of rounds, drawn uniformly without replacement for each member.

    Attributes:
      number: The number of rounds of each member, from 1 to `rounds`.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    separation: ClassVar[int] = 1

    number: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return self.number

    @property
    def round_share(self) -> float:
        return self.number / self.rounds

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        """The log of the elementary symmetric polynomial of ratios, over the number of choices."""
        chosen = np.full((self.number + 1, logs.shape[1]), -np.inf)
        chosen[0] = 0.0
        for of_round in logs:
            chosen[1:] = np.logaddexp(chosen[1:], chosen[:-1] + of_round)
        parts = special.gammaln([self.number + 1, len(logs) - self.number + 1])
        return np.asarray(chosen[self.number] - special.gammaln(len(logs) + 1) + parts.sum())

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        ranks = random.random((rounds, members))
        return np.asarray(ranks <= np.partition(ranks, self.number - 1, axis=0)[self.number - 1])

    def allows(self, member: IndexArray, rounds: int) -> bool:
        return len(member) == self.number


@dataclass(frozen=True)
class CoinSampling(Sampling):
    """Base class of rounds by independent coins of one probability.

    Attributes:
      probability: The probability of a round where the coin decides, in (0, 1].
    """

    probability: float

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"sampling_probability must be in (0, 1], got {self.probability}")


@dataclass(frozen=True)
class MinSeparationSampling(CoinSampling):
    """Every round by an independent coin, with a rest after each participation.

    Attributes:
      probability: The probability of a round for a member that does not rest, in (0, 1].
      separation: The least distance of two rounds of a member, at least 1: it rests for one less.
        Before the first round members rest as often as later on average.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    separation: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return -(-self.rounds // self.separation)

    @property
    def round_share(self) -> float:
        return self.probability / (1 + (self.separation - 1) * self.probability)

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        """A forward pass: `resting[i]` are those who may join after i more rounds."""
        rest, log_p = self.separation - 1, math.log(self.probability)
        started = -math.log1p(rest * self.probability)
        ready = np.full(logs.shape[1], started)
        resting = [np.full(logs.shape[1], started + log_p) for _ in range(rest)]
        waits = math.log1p(-self.probability) if self.probability < 1 else -math.inf
        for of_round in logs:
            resting.append(ready + log_p + of_round)
            ready = np.logaddexp(ready + waits, resting.pop(0))
        return np.asarray(special.logsumexp([ready, *resting], axis=0))

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        present, rest = np.zeros((rounds, members), bool), self.separation - 1
        is_resting = random.random(members) < rest * self.round_share
        left = is_resting * random.integers(1, max(rest, 1) + 1, size=members)
        for of_round in present:
            of_round[:] = (left == 0) & (random.random(members) < self.probability)
            left = np.where(of_round, rest, np.maximum(left - 1, 0))
        return present

    def allows(self, member: IndexArray, rounds: int) -> bool:
        return bool((np.diff(member) >= self.separation).all())


@dataclass(frozen=True)
class PoissonSampling(CoinSampling):
    """Poisson sampling: every round by an independent coin.

    Attributes:
      probability: The probability of a round, in (0, 1].
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    @property
    def share(self) -> float:
        return self.probability


@dataclass(frozen=True)
class TruncatedPoissonSampling(CoinSampling):
    """Poisson sampling with samples truncated, uniformly, to a largest size.

    Attributes:
      probability: The probability of a round before truncation, in (0, 1].
      members: The number of members that a round samples from.
      largest: The largest size of a sample.
    """

    neighbours: ClassVar[str] = ZERO_OUT

    members: int
    largest: int

    @property
    def share(self) -> float:
        """An upper bound on the probability of a round."""
        return self.probability


@dataclass(frozen=True)
class CyclicPoissonSampling(CoinSampling):
    """Groups take turns, and each member of the group joins by an independent coin.

    The groups may be known; the coins are secret.

    Attributes:
      probability: The probability of each round of the member's group, in (0, 1].
      separation: The number of groups, at least 1; also the distance of a group's rounds.
      turns: The largest number of rounds of a group.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    separation: int
    turns: int

    @property
    def most_drawn(self) -> int:
        return self.turns

    @property
    def round_share(self) -> float:
        return self.probability / self.separation

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        return _mean_of_groups(_by_coin(logs, self.probability), self.separation)

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        is_turn = _in_one_group(rounds, members, self.separation, random)
        return np.asarray(is_turn & (random.random((rounds, members)) < self.probability))

    def allows(self, member: IndexArray, rounds: int) -> bool:
        return len(np.unique(member % self.separation)) <= 1


@dataclass(frozen=True)
class FixedSizeSampling(Sampling):
    """Every round draws a sample of fixed size, uniformly without replacement.

    Attributes:
      sample_size: The number of members that a round samples.
      sampled_from: The number of members that it samples from.
    """

    sample_size: int
    sampled_from: int

    def __post_init__(self) -> None:
        if not 0 < self.sample_size <= self.sampled_from:
            raise ValueError(
                f"sample_size must be from 1 to sampled_from, which is {self.sampled_from}, got "
                f"{self.sample_size}"
            )

    @property
    def share(self) -> float:
        return self.sample_size / self.sampled_from


@dataclass(frozen=True)
class UnknownRounds(Sampling):
    """Rounds of which nothing is known, such as those of an unknown pattern."""
