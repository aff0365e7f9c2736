"""The rounds that one member may be in, which accounting needs of a participation pattern."""

from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True)
class DrawnRounds:
    """Exactly the rounds that the schedule draws for the member.

    Attributes:
      most: The largest number of rounds that any member is in.
    """

    most: int


@dataclass(frozen=True)
class OncePerBlock:
    """Any one round of each block, such as an epoch that deals every client into one round.

    Attributes:
      length: The number of rounds of a block, at least 1. The first block starts with the first
        round; the last one may have fewer.
    """

    length: int


@dataclass(frozen=True)
class OneGroup:
    """Any rounds of one group, where groups take the rounds in turn.

    Attributes:
      separation: The number of groups, at least 1, which is also the number of rounds from one turn
        of a group to its next.
    """

    separation: int


@dataclass(frozen=True)
class Sampled:
    """Any rounds: each is sampled independently, so that their number has no fixed bound."""


PossibleRounds = DrawnRounds | OncePerBlock | OneGroup | Sampled


def most_participations(possible: PossibleRounds, num_rounds: int) -> int | None:
    """The largest number of rounds that one member takes part in; None where sampling decides.

    Args:
      possible: The rounds that the member may be in.
      num_rounds: The number of rounds of training.
    """
    match possible:
        case DrawnRounds(most=most):
            return most
        case OncePerBlock(length=length):
            return -(-num_rounds // length)
        case OneGroup(separation=separation):
            return -(-num_rounds // separation)
        case Sampled():
            return None
        case unknown:
            assert_never(unknown)
