"""Which rounds one member may be in: what accounting needs to know of a participation pattern."""

from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True)
class DrawnRounds:
    """Exactly those that the schedule draws for the member.

    Attributes:
      most: Rounds of the member who is in most of them.
    """

    most: int


@dataclass(frozen=True)
class OncePerBlock:
    """Any one round of each block, such as an epoch that deals every client into one round.

    Attributes:
      length: Rounds of a block, at least 1. Blocks start with the first round; the last one may
        have fewer.
    """

    length: int


@dataclass(frozen=True)
class OneGroup:
    """Any rounds of one group, where groups take the rounds in turn.

    Attributes:
      separation: Number of groups, at least 1, and so the rounds from one of a group to its next.
    """

    separation: int


@dataclass(frozen=True)
class Sampled:
    """Any rounds: each is sampled anew, so that nothing but chance bounds their number."""


PossibleRounds = DrawnRounds | OncePerBlock | OneGroup | Sampled


def most_participations(possible: PossibleRounds, num_rounds: int) -> int | None:
    """Rounds that one member takes part in at most; None where sampling decides.

    Args:
      possible: Which rounds the member may be in.
      num_rounds: Rounds of training.
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
