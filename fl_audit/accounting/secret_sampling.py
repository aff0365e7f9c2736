"""Samplings with amplification: clients draw their rounds, which no attacker sees."""

import math
from dataclasses import dataclass
from typing import ClassVar

from fl_audit.accounting.gaussian_accountants import SampledRounds, account_gaussian
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee
from fl_audit.accounting.hidden_rounds import (
    LARGEST_SHIFT,
    RatioDistribution,
    one_round_of_each,
    sampled_rounds,
)
from fl_audit.accounting.least_epsilon import least_epsilon_of_coins
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import Blocks, Sampling


@dataclass(frozen=True)
class SecretSampling(Sampling):
    """Base class of samplings that amplify privacy.

    In its methods `release` has noise, and `party` is a party of it with this sampling.
    """

    amplified_by: ClassVar[str] = ""
    """The name of the accountant that `pair` belongs to; empty if its epsilon is not counted."""

    is_pair_best: ClassVar[bool] = True
    """Whether, at each epsilon, `pair` has at most the delta of the pair for known rounds."""

    @property
    def assumption(self) -> str:
        """A sentence with the assumption on the draw."""
        return "No attacker sees in which rounds a client participates."

    @property
    def covers_matrix(self) -> bool:
        """Whether `guarantee` covers a matrix: only samplings that do state a sensitivity."""
        return type(self).worst_sensitivity is not Sampling.worst_sensitivity

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        """The dominating pair for epsilon at this delta.

        None if no pair is known, the rounds are not random, the shift exceeds `LARGEST_SHIFT`, or
        too much of P is beyond the range of floats (`if_in_range`).
        """
        return None

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        """The guarantee to a party, whose squared sensitivity must be known under a matrix."""
        z = release.noise.noise_multiplier
        squared = party.squared_sensitivity
        if squared is None:
            squared = release.rounds if self.most_drawn is None else self.most_drawn
        known = account_gaussian(z, squared, delta)
        pair = self.pair(release, party, delta)
        if pair is not None:
            known = (*known, AccountedEpsilon(self.amplified_by, pair.epsilon(delta)))
        return Guarantee(None, known)

    def least(self, release: Release, delta: float) -> float | None:
        """A lower bound on epsilon under independent noise; None if no bound is implemented.

        If rounds are independent, it is that of Poisson sampling: under zero-out, and if all other
        clients send nothing, a sample of fixed size reveals as much.
        """
        if self.share is None or not self.is_share_exact:
            return None
        z = release.noise.noise_multiplier
        return least_epsilon_of_coins(z, self.share, release.rounds, delta)


@dataclass(frozen=True)
class CoinSampling(SecretSampling):
    """Base class of samplings by independent coins of one probability.

    Attributes:
      probability: The probability of a coin, in (0, 1].
    """

    probability: float

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"sampling_probability must be in (0, 1], got {self.probability}")


# Dominating pairs.


_BEYOND = 1e-3
"""The largest P-mass at infinity, as a share of delta: privacy profiles reach down to delta / 1000.

Tails that are cut have a thousandth of that."""


def if_in_range(pair: RatioDistribution, delta: float) -> RatioDistribution | None:
    """The pair; None if ratios beyond the range of floats have a P-mass that counts at delta.

    Such ratios go to infinity, and other accountants are then tighter.
    """
    return pair if pair.at_infinity <= _BEYOND * delta else None


def coins_pair(rounds: SampledRounds | None, delta: float) -> RatioDistribution | None:
    """The dominating pair of `rounds`; None without rounds, or as stated in `SecretSampling`."""
    if rounds is None or 1 / rounds.noise_multiplier > LARGEST_SHIFT:
        return None
    pair = sampled_rounds(rounds.noise_multiplier, rounds.probability, rounds.rounds, delta)
    return if_in_range(pair, delta)


def one_of_blocks_pair(
    noise_multiplier: float, blocks: Blocks, delta: float
) -> RatioDistribution | None:
    """The pair for one secret round of each block.

    None if every block has one round, or as stated in `SecretSampling`.
    """
    number = sum(count for _, count in blocks)
    is_hidden = any(length > 1 for length, _ in blocks)
    if not is_hidden or math.sqrt(number) / noise_multiplier > LARGEST_SHIFT:
        return None
    return if_in_range(one_round_of_each(noise_multiplier, blocks, delta), delta)
