"""Coins, with a rest after each participation.

Given the past, the client is in round t with a probability p_t of at most p, whether it rests or
not. The round's factor 1 - p_t + p_t W_t, with W_t its likelihood ratio, is larger in the convex
order for a larger p_t, so that Poisson sampling with p in every round dominates (`hidden_rounds`).
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fl_audit.accounting.gaussian_accountants import SampledRounds
from fl_audit.accounting.hidden_rounds import RatioDistribution
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.release import Correlation, Party, Release
from fl_audit.accounting.sampling import ADD_OR_REMOVE, Presences
from fl_audit.accounting.secret_sampling import CoinSampling, coins_pair
from fl_audit.array_types import FloatArray, IntArray


@dataclass(frozen=True)
class MinSeparationSampling(CoinSampling):
    """Every round by an independent coin, with a rest after each participation.

    Attributes:
      probability: The probability of a round for a member that does not rest, in (0, 1].
      separation: The least distance between a member's rounds, at least 1: after each it rests for
        `separation` - 1 rounds. In the first rounds as many members rest, on average, as in later
        ones.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    log_name: ClassVar[str] = "b_min_sep"
    log_keys: ClassVar[tuple[str, ...]] = ("probability", "separation")
    amplified_by: ClassVar[str] = "coins_without_rest"
    is_pair_best: ClassVar[bool] = False

    separation: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return -(-self.rounds // self.separation)

    @property
    def round_share(self) -> float:
        return self.probability / (1 + (self.separation - 1) * self.probability)

    def chance_of_any(self, rounds: int) -> float:
        return float(numbers_of_rounds(self)[1:].sum())

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        """A forward pass over members that may join now, or i + 1 rounds later (`resting[i]`)."""
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

    def allows(self, member: IntArray, rounds: int) -> bool:
        return bool((np.diff(member) >= self.separation).all())

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "MinSeparationSampling":
        return cls(**keys, rounds=rounds)

    def worst_sensitivity(self, correlation: Correlation) -> float | None:
        return correlation.min_separation(self.most_drawn, self.separation)

    @property
    def assumption(self) -> str:
        return (
            f"Each client that was not in any of the last {self.separation - 1} rounds joins with "
            f"probability {self.probability:.3g}, independently, and no attacker sees who did. The "
            "upper bound does not count on these rests: no bound that does is known without "
            "simulation."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        p = self.probability
        if release.correlation is not None or p == 1:
            return None
        return coins_pair(SampledRounds(p, release.noise.noise_multiplier, release.rounds), delta)

    def least(self, release: Release, delta: float) -> float:
        numbers = numbers_of_rounds(self)
        return least_epsilon(release.noise.noise_multiplier, numbers, self.rounds, delta)


@functools.lru_cache(maxsize=4)
def numbers_of_rounds(sampling: MinSeparationSampling) -> FloatArray:
    """The probability that a member has 0, 1, 2 ... rounds, of shape (most_drawn + 1,)."""
    p, rest = sampling.probability, sampling.separation - 1
    most, rounds = sampling.most_drawn, sampling.rounds
    # By round and number of rounds so far: the share of members that may join.
    ready = np.zeros((rounds + 1, most + 1))
    started = 1 / (1 + rest * p)  # the share that may join in the first round
    ready[0, 0] = started
    for index in range(rounds):
        ready[index + 1] += (1 - p) * ready[index]
        if index < rest:
            ready[index + 1, 0] += p * started  # joined in the `rest` rounds before round 1
        if index + 1 + rest <= rounds:
            ready[index + 1 + rest, 1:] += p * ready[index, :-1]
    resting = np.zeros(most + 1)
    for index in range(max(rounds - rest, 0), rounds):
        resting[1:] += p * ready[index, :-1]
    resting[0] += p * started * max(rest - rounds, 0)
    return np.asarray(ready[rounds] + resting)
