"""Truncated Poisson sampling, with samples cut to at most B members.

Let the attacker also see O, the other members of the sample. As a client that sends nothing counts
too, O has the same distribution with and without the client's update. If O has fewer than B - 1
members, no member was cut, and the client is present by its coin q. If O has B members, the client
is absent. If O has B - 1, the client is present with the posterior probability q' of Bayes' rule:
if drawn with N >= B others, it is among the B kept with chance B / (N + 1). So each round has one
of the coins q, q' and 0, and the attacker knows which. If no sample can be cut, this is Poisson
sampling. (arXiv:2508.15089 bounds truncated sampling under another neighbouring relation.)
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from fl_audit.accounting.gaussian_accountants import epsilon_seen_rounds
from fl_audit.accounting.guarantee import AccountedEpsilon, Guarantee
from fl_audit.accounting.hidden_rounds import LARGEST_SHIFT, RatioDistribution, mixed_rounds
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import ZERO_OUT, log_binomial_masses
from fl_audit.accounting.secret_sampling import CoinSampling, if_in_range


@dataclass(frozen=True)
class TruncatedPoissonSampling(CoinSampling):
    """Poisson sampling with samples truncated, uniformly, to a largest size.

    Attributes:
      probability: The probability of a round before truncation, in (0, 1].
      members: The number of members that a round samples from.
      largest: The largest size of a sample.
    """

    neighbours: ClassVar[str] = ZERO_OUT
    log_name: ClassVar[str] = "truncated_poisson"
    log_keys: ClassVar[tuple[str, ...]] = ("probability", "members", "largest_round")
    amplified_by: ClassVar[str] = "truncated_poisson"
    is_share_exact: ClassVar[bool] = False

    members: int
    largest: int

    @property
    def share(self) -> float:
        """An upper bound on the probability of a round."""
        return self.probability

    @property
    def mean_share(self) -> float:
        """The exact probability of a round."""
        beyond = np.exp(log_binomial_masses(self.members, self.probability))[self.largest + 1 :]
        cut = beyond @ np.arange(1, len(beyond) + 1)
        return self.probability - float(cut) / self.members

    def chance_of_any(self, rounds: int) -> float:
        return float(special.bdtrc(0, rounds, self.mean_share))

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "TruncatedPoissonSampling":
        return cls(keys["probability"], keys["members"], keys["largest_round"])

    @property
    def assumption(self) -> str:
        return (
            f"Each client is in each round with probability {self.probability:.3g}, "
            f"independently; a round of more than {self.largest} keeps {self.largest} at random; "
            "no attacker sees which."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        z, coins = release.noise.noise_multiplier, coins_of_a_cut(self)
        if release.correlation is not None or coins is None or 1 / z > LARGEST_SHIFT:
            return None
        return if_in_range(mixed_rounds(z, coins, release.rounds, delta), delta)

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        z = release.noise.noise_multiplier
        pair = self.pair(release, party, delta)
        if pair is None:
            seen = epsilon_seen_rounds(self.share, release.rounds, z, delta)
            return Guarantee(None, (AccountedEpsilon("seen_samples", seen),))
        return Guarantee(None, (AccountedEpsilon(self.amplified_by, pair.epsilon(delta)),))

    def least(self, release: Release, delta: float) -> float:
        """The lower bound of Poisson sampling, with delta raised to cover truncation."""
        numbers = np.exp(log_binomial_masses(release.rounds, self.probability))
        z, cut = release.noise.noise_multiplier, release.rounds * chance_of_a_cut(self)
        plain = least_epsilon(z, numbers, release.rounds, delta)
        hidden = cut * (1 + math.exp(min(plain, 700.0)))
        if delta + hidden >= 1:
            return 0.0
        return least_epsilon(z, numbers, release.rounds, delta + hidden) if hidden > 0 else plain


_SURE = 1 - 1e-9
"""A larger probability of a round counts as 1, without amplification."""


def coins_of_a_cut(sampling: TruncatedPoissonSampling) -> tuple[tuple[float, float], ...] | None:
    """Each possible coin of a round and the chance of that coin; None if a coin exceeds `_SURE`."""
    q, largest = sampling.probability, min(sampling.largest, sampling.members)
    others = np.exp(log_binomial_masses(sampling.members - 1, q))
    numbers = np.arange(largest, sampling.members)
    kept = q * float((others[largest:] * largest / (numbers + 1)).sum())
    just_enough = float(others[largest - 1])
    of_full = just_enough + kept
    coin = (q * just_enough + kept) / of_full if of_full > 0 else q
    if max(coin, q) > _SURE:
        return None
    fewer = float(others[: largest - 1].sum())
    return ((q, fewer), (coin, of_full), (0.0, max(1 - fewer - of_full, 0.0)))


def chance_of_a_cut(sampling: TruncatedPoissonSampling) -> float:
    """The probability that a round's sample is truncated."""
    largest = min(sampling.largest, sampling.members)
    return float(special.bdtrc(largest, sampling.members, sampling.probability))
