"""The ways in which rounds are drawn: who may be in which rounds, with no arithmetic.

Each is a subclass of `Sampling`, and one value of it describes the rounds of the real clients or of
the canaries of a run. A new way is a subclass beside its participation pattern, and an accountant
for it (`sampling_accountants.register_accountant`).
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
    """The rounds that a party may be in, and how they are drawn: the base of all ways.

    A subclass of one's own is a frozen dataclass, whose fields are what run.json keeps of it; they
    are of types that JSON has.
    """

    neighbours: ClassVar[str] = ZERO_OUT
    """The neighbouring relation, in words, of accountants that count on the draw."""

    def to_json(self) -> dict[str, Any]:
        """The name of the class, as `kind`, and its fields."""
        return {"kind": type(self).__name__, **fields_to_json(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Sampling":
        """What `to_json` writes; unknown rounds where no module that is imported has the class.

        Raises:
          ValueError: A field is missing, or a value is of another type.
        """
        kinds = [Sampling]
        for kind in kinds:
            kinds += kind.__subclasses__()
        found = next((kind for kind in kinds if kind.__name__ == value["kind"]), None)
        return UnknownRounds() if found is None else fields_from_json(found, value)

    @property
    def most(self) -> int | None:
        """The largest number of rounds, which no draw hides; None where one decides."""
        return None

    @property
    def most_drawn(self) -> int | None:
        """The largest number of rounds that a draw can give; None where all rounds are possible."""
        return self.most

    @property
    def share(self) -> float | None:
        """The probability of each round, independent of the others; None where they are not."""
        return None

    @property
    def round_share(self) -> float | None:
        """The probability of each round, whatever it says of others; None where it is not known."""
        return self.share


@dataclass(frozen=True)
class FixedRounds(Sampling):
    """Rounds that an attacker may know: exactly those that the schedule draws.

    Attributes:
      at_most: The largest number of rounds of any member of the party.
    """

    at_most: int

    @property
    def most(self) -> int:
        """See `Sampling`."""
        return self.at_most


@dataclass(frozen=True)
class OncePerBlock(FixedRounds):
    """Any one round of each block, such as an epoch in which every client has one round.

    Attributes:
      at_most: The number of blocks.
      length: The number of rounds of a block, at least 1. The first block starts with the first
        round; the last one may have fewer.
    """

    length: int

    @classmethod
    def over(cls, rounds: int, length: int) -> "OncePerBlock":
        """The blocks of a length in so many rounds."""
        return cls(-(-rounds // length), length)


@dataclass(frozen=True)
class OneGroup(FixedRounds):
    """Any rounds of one group, where groups take the rounds in turn.

    Attributes:
      at_most: The largest number of rounds of a group.
      separation: The number of groups, at least 1, which is also the number of rounds from one turn
        of a group to its next.
    """

    separation: int

    @classmethod
    def over(cls, rounds: int, separation: int) -> "OneGroup":
        """So many groups in so many rounds."""
        return cls(-(-rounds // separation), separation)


@dataclass(frozen=True)
class OneRoundPerBlock(FixedRounds):
    """One round of each block, drawn uniformly and independently of all else.

    Attributes:
      at_most: The largest number of rounds of any member of the party: the number of blocks, or 0
        where it has no member.
      blocks: The blocks, by length.
    """

    blocks: Blocks


@dataclass(frozen=True)
class BallsInBinsSampling(Sampling):
    """All rounds of one group, where groups take turns and each member draws its own.

    Attributes:
      bins: The number of groups, at least 1, of which a member draws one uniformly and
        independently of all else; also the number of rounds from one turn of it to its next.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    bins: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        """See `Sampling`."""
        return -(-self.rounds // self.bins)

    @property
    def round_share(self) -> float:
        """See `Sampling`."""
        return 1 / self.bins


@dataclass(frozen=True)
class AllocatedRounds(Sampling):
    """So many rounds of the run, drawn uniformly without replacement, independently of all else.

    Attributes:
      number: The number of rounds of each member, from 1 to `rounds`.
      rounds: The number of rounds of training that they are drawn from.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    separation: ClassVar[int] = 1
    """The least distance of two rounds of a member."""

    number: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        """See `Sampling`."""
        return self.number

    @property
    def round_share(self) -> float:
        """See `Sampling`."""
        return self.number / self.rounds


@dataclass(frozen=True)
class CoinSampling(Sampling):
    """Rounds that independent coins decide on: the base of ways to draw by one probability.

    Attributes:
      probability: The probability of a round where the coin decides, in (0, 1].
    """

    probability: float

    def __post_init__(self) -> None:
        """Checks the probability."""
        if not 0 < self.probability <= 1:
            raise ValueError(f"sampling_probability must be in (0, 1], got {self.probability}")


@dataclass(frozen=True)
class MinSeparationSampling(CoinSampling):
    """Every round by an independent coin, but for those who were in one of the last rounds.

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
        """See `Sampling`."""
        return -(-self.rounds // self.separation)

    @property
    def round_share(self) -> float:
        """See `Sampling`."""
        return self.probability / (1 + (self.separation - 1) * self.probability)


@dataclass(frozen=True)
class PoissonSampling(CoinSampling):
    """Every round by an independent coin, where a client that sends nothing is absent.

    Attributes:
      probability: The probability of a round, in (0, 1].
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    @property
    def share(self) -> float:
        """See `Sampling`."""
        return self.probability


@dataclass(frozen=True)
class TruncatedPoissonSampling(CoinSampling):
    """Poisson sampling, of whose samples a uniform part is kept where they are too large.

    Attributes:
      probability: The probability of a round before samples are cut, in (0, 1].
      members: The number of members that a round samples from.
      largest: The largest sample that is kept whole.
    """

    neighbours: ClassVar[str] = ZERO_OUT

    members: int
    largest: int

    @property
    def share(self) -> float:
        """See `Sampling`; an upper bound."""
        return self.probability


@dataclass(frozen=True)
class CyclicPoissonSampling(CoinSampling):
    """Groups take the rounds in turn, and of a group's round each member joins by its own coin.

    The groups are no secret; the coins are, and a client that sends nothing is absent.

    Attributes:
      probability: The probability of each round of the member's group, in (0, 1].
      separation: The number of groups, at least 1, which is also the number of rounds from one turn
        of a group to its next.
      turns: The largest number of rounds of a group.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    separation: int
    turns: int

    @property
    def most_drawn(self) -> int:
        """See `Sampling`."""
        return self.turns

    @property
    def round_share(self) -> float:
        """See `Sampling`."""
        return self.probability / self.separation


@dataclass(frozen=True)
class FixedSizeSampling(Sampling):
    """Every round draws a new sample of fixed size, uniformly without replacement.

    Attributes:
      sample_size: The number that a round draws.
      sampled_from: The number that these are drawn from.
    """

    sample_size: int
    sampled_from: int

    def __post_init__(self) -> None:
        """Checks the numbers."""
        if not 0 < self.sample_size <= self.sampled_from:
            raise ValueError(
                f"sample_size must be from 1 to sampled_from, which is {self.sampled_from}, got "
                f"{self.sample_size}"
            )

    @property
    def share(self) -> float:
        """See `Sampling`."""
        return self.sample_size / self.sampled_from


@dataclass(frozen=True)
class UnknownRounds(Sampling):
    """Rounds of which nothing is known, such as those of a pattern that is not at hand."""
