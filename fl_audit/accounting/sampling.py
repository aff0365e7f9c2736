"""Samplings: how the rounds of clients and canaries are drawn.

Each is a subclass of `Sampling`. An instance describes the rounds of a run's real clients or
canaries: their distribution, the likelihood ratio of an attacker who knows only that distribution
(`attacks.likelihood_null`), the possible rounds, and the sampling's name in logs. If clients draw
their rounds in secret it is a `SecretSampling`, which amplifies privacy. A new sampling is one file
with such a subclass, as in `samplings`, and takes effect once it is imported.

The ratio of a member (a client or a canary) is the mean, over the distribution of its set S of
rounds, of exp(sum of w_t over S), with w_t the log ratio of round t:

>>> from fl_audit.accounting import AllocatedRounds
>>> sampling = AllocatedRounds(number=1, rounds=3)
>>> sampling.log_ratio(np.log([[2.0], [3.0], [7.0]])).round(6).tolist()  # log of the mean, 4
[1.386294]
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.json_records import WRITTEN_IF_SET, fields_from_json, fields_to_json

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"

Blocks = tuple[tuple[int, int], ...]
"""Blocks of consecutive rounds: pairs of a length and the number of blocks of that length."""


Presences = npt.NDArray[np.bool_]
"""Whether each member is in each round, of shape (rounds, members)."""


@dataclass(frozen=True)
class Sampling:
    """Base class: how the rounds of a party are drawn.

    A custom subclass is a frozen dataclass. Its fields have JSON types and are kept in run.json.
    """

    neighbours: ClassVar[str] = ZERO_OUT
    """The neighbouring relation, in words, of accountants with amplification."""

    log_name: ClassVar[str] = ""
    """The name in a log's participation.json; empty if logs have none."""

    log_keys: ClassVar[tuple[str, ...]] = ()
    """The keys of participation.json that `from_log` takes."""

    is_share_exact: ClassVar[bool] = True
    """Whether `share` is the probability of a round; else it is an upper bound."""

    def to_json(self) -> dict[str, Any]:
        """The name of the class, as `kind`, and its fields."""
        return {"kind": type(self).__name__, **fields_to_json(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Sampling":
        """Inverse of `to_json`; `UnknownRounds` if the class is not imported."""
        subclass = next((k for k in cls.kinds() if k.__name__ == value["kind"]), None)
        return UnknownRounds() if subclass is None else fields_from_json(subclass, value)

    @classmethod
    def kinds(cls) -> list[type["Sampling"]]:
        """All subclasses that are imported."""
        kinds: list[type[Sampling]] = [Sampling]
        for kind in kinds:
            kinds += kind.__subclasses__()
        return kinds[1:]

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "Sampling | None":
        """The sampling that a log states for this number of rounds; None if no sampling fits."""
        return cls(**keys)

    @property
    def most(self) -> int | None:
        """The largest number of rounds; None if rounds are secret or unknown."""
        return None

    @property
    def most_drawn(self) -> int | None:
        """The largest number of rounds, secret or not; None if all rounds are possible."""
        return self.most

    @property
    def share(self) -> float | None:
        """The probability of each round if rounds are independent; else None.

        It is an upper bound unless `is_share_exact`.
        """
        return None

    @property
    def round_share(self) -> float | None:
        """The marginal probability of each round, as exact as `share`; None if unknown."""
        return self.share

    @property
    def has_likelihood(self) -> bool:
        """Whether the distribution of a member's rounds is implemented."""
        return self.share is not None or type(self).log_ratio is not Sampling.log_ratio

    def chance_of_any(self, rounds: int) -> float | None:
        """The probability that a member is in any of a run's rounds; None if not implemented."""
        if self.share is None or not self.is_share_exact:
            return None
        return float(special.bdtrc(0, rounds, self.share))

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
        return np.asarray(by_coin(logs, self._known_share).sum(axis=0))

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        """Draws the rounds of members, independently of one another.

        Raises:
          ValueError: The distribution is not implemented.
        """
        return random.random((rounds, members)) < self._known_share

    def allows(self, member: IntArray, rounds: int) -> bool:
        """Whether a member can have these rounds, distinct and ascending, in a run of `rounds`."""
        return True

    def worst_sensitivity(self, correlation: Toeplitz | Trees) -> float | None:
        """The largest squared sensitivity over all possible draws of a party's rounds.

        In squared clip norms; an upper bound if `correlation` has no exact value. None if all
        rounds are possible, or if the members' actual rounds have to be known.
        """
        return None

    @property
    def likelihood_steps(self) -> int:
        """The time of `log_ratio` per round and member; 1 for independent coins."""
        return 1

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


def by_coin(logs: FloatArray, probability: float) -> FloatArray:
    """The log of 1 - q + q e^w of each round."""
    if probability == 1:
        return logs
    return np.logaddexp(math.log1p(-probability), math.log(probability) + logs)


def mean_of_groups(logs: FloatArray, groups: int) -> FloatArray:
    """The log of the mean ratio over groups that take turns, of shape (members,).

    A group may have no round.
    """
    sums = np.zeros((groups, logs.shape[1]))
    for start in range(0, len(logs), groups):
        turn = logs[start : start + groups]
        sums[: len(turn)] += turn
    return np.asarray(special.logsumexp(sums, axis=0) - math.log(groups))


def in_one_group(rounds: int, members: int, groups: int, random: np.random.Generator) -> Presences:
    chosen = random.integers(groups, size=members)
    return np.asarray(np.arange(rounds)[:, None] % groups == chosen)


@dataclass(frozen=True)
class FixedRounds(Sampling):
    """Rounds of a schedule that an attacker may know.

    Attributes:
      at_most: The largest number of rounds of any member of the party.
    """

    at_most: int

    @property
    def most(self) -> int:
        return self.at_most

    def chance_of_any(self, rounds: int) -> float:
        """The probability for the member with the most rounds."""
        return float(self.at_most > 0)


@dataclass(frozen=True)
class OncePerBlock(FixedRounds):
    """Any one round of each block, such as each shuffled epoch.

    Attributes:
      at_most: The number of blocks.
      length: The number of rounds of a block, at least 1. The first block starts with the first
        round; the last one may have fewer.
      longer: The number of first blocks that have one round more, as those of nearly equal parts.
    """

    length: int
    longer: int = field(default=0, metadata=WRITTEN_IF_SET)

    def worst_sensitivity(self, correlation: Toeplitz | Trees) -> float | None:
        return correlation.once_per_block(self.length, self.longer)


@dataclass(frozen=True)
class OneGroup(FixedRounds):
    """Any rounds of one group, where groups alternate from round to round.

    Attributes:
      at_most: The largest number of rounds of a member: all rounds of a group, or a smaller cap.
      separation: The number of groups, at least 1; also the distance between a group's rounds.
    """

    separation: int

    @classmethod
    def over(cls, rounds: int, separation: int, cap: int | None = None) -> "OneGroup":
        """`separation` groups in `rounds` rounds; a member is in at most `cap` rounds."""
        turns = -(-rounds // separation)
        return cls(min(turns, cap or turns), separation)

    def worst_sensitivity(self, correlation: Toeplitz | Trees) -> float | None:
        if self.at_most * self.separation < correlation.num_rounds:
            return correlation.min_separation(self.at_most, self.separation)
        return correlation.one_group(self.separation)


@dataclass(frozen=True)
class OneRoundPerBlock(FixedRounds):
    """One round of each block, drawn uniformly and independently of everything else.

    Attributes:
      at_most: The largest number of rounds of any member of the party: the number of blocks, or 0
        if the party has no member.
      blocks: The blocks, by length.
      first: The round, from 0, with which the first block starts.
    """

    blocks: Blocks
    first: int = field(default=0, metadata=WRITTEN_IF_SET)

    @classmethod
    def of_lengths(cls, lengths: Iterable[int], first: int = 0) -> "OneRoundPerBlock":
        """Blocks of these lengths, longest first."""
        blocks = tuple(sorted(Counter(filter(None, lengths)).items(), reverse=True))
        return cls(sum(count for _, count in blocks), blocks, first)

    @property
    def is_drawn(self) -> bool:
        """Whether any block has more than one round."""
        return any(length > 1 for length, _ in self.blocks)

    @property
    def _lengths(self) -> list[int]:
        return [length for length, count in self.blocks for _ in range(count)]

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        total, start = np.zeros(logs.shape[1]), self.first
        for length in self._lengths:
            block = logs[start : start + length]
            total += special.logsumexp(block, axis=0) - math.log(length)
            start += length
        return total

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        present, start = np.zeros((rounds, members), bool), self.first
        for length in self._lengths:
            present[start + random.integers(length, size=members), np.arange(members)] = True
            start += length
        return present


@dataclass(frozen=True)
class UnknownRounds(Sampling):
    """Unknown rounds, as in an unknown participation pattern."""
