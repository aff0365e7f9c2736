"""Poisson sampling: every round by an independent coin."""

from dataclasses import dataclass
from typing import ClassVar

from fl_audit.accounting.gaussian_accountants import (
    SampledRounds,
    account_gaussian,
    account_sampled,
)
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.hidden_rounds import RatioDistribution
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.sampling import ADD_OR_REMOVE
from fl_audit.accounting.secret_sampling import CoinSampling, coins_pair


@dataclass(frozen=True)
class PoissonSampling(CoinSampling):
    """Poisson sampling: every round by an independent coin.

    Attributes:
      probability: The probability of a round, in (0, 1].
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    log_name: ClassVar[str] = "poisson"
    log_keys: ClassVar[tuple[str, ...]] = ("probability",)

    @property
    def share(self) -> float:
        return self.probability

    @property
    def assumption(self) -> str:
        return (
            f"Each client is in each round with probability {self.probability:.3g}, "
            "independently, and no attacker sees who was."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        if self.probability == 1 or release.correlation is not None:
            return None
        return coins_pair(self._rounds(release), delta)

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        z, rounds = release.noise.noise_multiplier, release.rounds
        if self.probability == 1:
            return Guarantee(rounds, account_gaussian(z, rounds, delta))
        return Guarantee(None, account_sampled(self._rounds(release), delta))

    def _rounds(self, release: Release) -> SampledRounds:
        return SampledRounds(self.probability, release.noise.noise_multiplier, release.rounds)
