"""Poisson sampling from one group of clients after another."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fl_audit.accounting.gaussian_accountants import (
    SampledRounds,
    account_gaussian,
    account_sampled,
)
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.hidden_rounds import RatioDistribution
from fl_audit.accounting.least_epsilon import least_epsilon_of_coins
from fl_audit.accounting.release import Correlation, Party, Release
from fl_audit.accounting.sampling import (
    ADD_OR_REMOVE,
    Presences,
    by_coin,
    in_one_group,
    mean_of_groups,
)
from fl_audit.accounting.secret_sampling import CoinSampling, coins_pair
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray, IntArray


@dataclass(frozen=True)
class CyclicPoissonSampling(CoinSampling):
    """Groups take turns, and each member of the group in turn joins by an independent coin.

    The groups may be known; the coins are secret.

    Attributes:
      probability: The probability of each round of the member's group, in (0, 1].
      separation: The number of groups, at least 1; also the distance between a group's rounds.
      turns: The largest number of rounds of a group.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    log_name: ClassVar[str] = "cyclic_poisson"
    log_keys: ClassVar[tuple[str, ...]] = ("probability", "separation")

    separation: int
    turns: int

    @property
    def most_drawn(self) -> int:
        return self.turns

    @property
    def round_share(self) -> float:
        return self.probability / self.separation

    def chance_of_any(self, rounds: int) -> float:
        """The probability for a member of a group with the most rounds, which may be known."""
        return float(special.bdtrc(0, self.turns, self.probability))

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        return mean_of_groups(by_coin(logs, self.probability), self.separation)

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        is_turn = in_one_group(rounds, members, self.separation, random)
        return np.asarray(is_turn & (random.random((rounds, members)) < self.probability))

    def allows(self, member: IntArray, rounds: int) -> bool:
        return len(np.unique(member % self.separation)) <= 1

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "CyclicPoissonSampling":
        return cls(**keys, turns=-(-rounds // keys["separation"]))

    def worst_sensitivity(self, correlation: Correlation) -> float | None:
        return correlation.one_group(self.separation)

    @property
    def assumption(self) -> str:
        return (
            f"Clients are in {self.separation} groups that take turns. Each client is in each "
            f"round of its group with probability {self.probability:.3g}, independently. No "
            "attacker sees which clients of a group were sampled; a client's group may be known."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        return coins_pair(cyclic_rounds(release, self), delta)

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        rounds = cyclic_rounds(release, self)
        if rounds is not None:
            return Guarantee(None, account_sampled(rounds, delta))
        z, squared = release.noise.noise_multiplier, party.squared_sensitivity
        if squared is None:
            return Guarantee(self.turns, account_gaussian(z, self.turns, delta))
        return Guarantee(None, account_gaussian(z, squared, delta))

    def least(self, release: Release, delta: float) -> float:
        """The lower bound for a member of a group with the most rounds, which may be known."""
        z = release.noise.noise_multiplier
        return least_epsilon_of_coins(z, self.probability, self.turns, delta)


def cyclic_rounds(release: Release, sampling: CyclicPoissonSampling) -> SampledRounds | None:
    """Poisson-sampled rounds with the same guarantee as the rounds of one group.

    Under independent noise these are the rounds of the group. Under a matrix with no more bands
    than groups, the noise multiplier is divided by the first column's norm: the columns of a
    group's rounds then do not overlap, each moves the release by at most that norm, and rounds may
    depend on earlier ones (Choquette-Choo et al. 2023, arXiv:2306.08153, algorithm 2 and theorem
    4).

    None if the probability is 1, or if no result covers the correlation.
    """
    length = 1.0
    match release.correlation:
        case Toeplitz() as strategy:
            if strategy.bands > sampling.separation:
                return None
            length = math.sqrt(strategy.min_separation(1, 1))
        case None:
            pass
        case _:
            return None
    if sampling.probability == 1:
        return None
    multiplier = release.noise.noise_multiplier / length
    return SampledRounds(sampling.probability, multiplier, sampling.turns)
