"""Samplings: how the rounds of clients and canaries are drawn, without arithmetic.

Each is a subclass of `Sampling`, and an instance describes the rounds of the real clients or of the
canaries of a run. A new sampling is a subclass, next to its participation pattern, and an
accountant for it (`sampling_accountants.register_accountant`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fl_audit.json_records import fields_from_json, fields_to_json

ADD_OR_REMOVE = "one client more or less in the population (add or remove one)"
ZERO_OUT = "one client replaced by one that sends nothing (zero-out); the schedule stays the same"

Blocks = tuple[tuple[int, int], ...]
"""Blocks of consecutive rounds: pairs of a length and the number of blocks of that length."""


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
