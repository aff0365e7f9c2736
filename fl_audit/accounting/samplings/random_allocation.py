"""Random allocation: a fixed number of rounds, drawn for each member without replacement.

The k rounds of a member (Feldman & Shenfeld 2025, arXiv:2502.12773) are as if one were drawn from
each part of a random partition of all T rounds into k parts. An attacker who knows the partition
faces k independent draws, each of one round out of about T / k.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fl_audit.accounting.hidden_rounds import RatioDistribution
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.release import Correlation, Party, Release
from fl_audit.accounting.sampling import ADD_OR_REMOVE, Blocks, Presences
from fl_audit.accounting.secret_sampling import SecretSampling, one_of_blocks_pair
from fl_audit.array_types import FloatArray, IntArray


@dataclass(frozen=True)
class AllocatedRounds(SecretSampling):
    """A fixed number of rounds, drawn uniformly without replacement for each member.

    Attributes:
      number: The number of rounds of each member, from 1 to `rounds`.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    log_name: ClassVar[str] = "random_allocation"
    log_keys: ClassVar[tuple[str, ...]] = ("client_rounds",)
    amplified_by: ClassVar[str] = "random_allocation"

    number: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return self.number

    @property
    def round_share(self) -> float:
        return self.number / self.rounds

    def chance_of_any(self, rounds: int) -> float:
        return float(self.number > 0)

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        """The log of the mean, over all choices of rounds, of the product of their ratios."""
        chosen = np.full((self.number + 1, logs.shape[1]), -np.inf)
        chosen[0] = 0.0
        for of_round in logs:
            chosen[1:] = np.logaddexp(chosen[1:], chosen[:-1] + of_round)
        parts = special.gammaln([self.number + 1, len(logs) - self.number + 1])
        return np.asarray(chosen[self.number] - special.gammaln(len(logs) + 1) + parts.sum())

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        ranks = random.random((rounds, members))
        return np.asarray(ranks <= np.partition(ranks, self.number - 1, axis=0)[self.number - 1])

    def allows(self, member: IntArray, rounds: int) -> bool:
        return len(member) == self.number

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "AllocatedRounds | None":
        number = keys["client_rounds"]
        return cls(number, rounds) if number <= rounds else None

    def worst_sensitivity(self, correlation: Correlation) -> float | None:
        return correlation.min_separation(self.number, 1)

    @property
    def likelihood_steps(self) -> int:
        return self.number

    @property
    def assumption(self) -> str:
        return (
            f"Each client draws {self.number} of {self.rounds} rounds, uniformly and "
            "independently of others, and no attacker sees which. The upper bound lets the "
            "attacker see the parts into which rounds are split, with one of the client's rounds "
            "in each; this costs most if rounds are few."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        if release.correlation is not None:
            return None
        blocks = parts(self.rounds, self.number)
        return one_of_blocks_pair(release.noise.noise_multiplier, blocks, delta)

    def least(self, release: Release, delta: float) -> float:
        exactly = np.zeros(self.number + 1)
        exactly[-1] = 1.0
        return least_epsilon(release.noise.noise_multiplier, exactly, self.rounds, delta)


def parts(rounds: int, number: int) -> Blocks:
    """Divides the rounds into this number of parts, whose sizes differ by at most one."""
    length, longer = divmod(rounds, number)
    both = ((length + 1, longer), (length, number - longer))
    return tuple((size, count) for size, count in both if count)
