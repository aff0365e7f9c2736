"""Balls in bins: each member draws a bin, a group of rounds, and is in all rounds of that bin.

Chua et al. 2024 (arXiv:2412.16802); Choquette-Choo et al. 2024 (arXiv:2410.06266). All k rounds of
one bin of b are one release with noise sigma / sqrt(k), so that the client's likelihood ratio is
the mean of b independent ones (`hidden_rounds`): random allocation of one round of b, exactly. If
the last cycle is incomplete, each bin counts as if it had as many rounds as the first.

Under a matrix with no more bands than bins, the columns of one bin's rounds do not overlap, and
columns of bins are orthogonal if the bins are at least as far apart as the number of bands. Split
the bins into classes of mutually orthogonal bins: an attacker who knows the client's class faces
random allocation among the bins of that class.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fl_audit.accounting.hidden_rounds import RatioDistribution
from fl_audit.accounting.least_epsilon import least_epsilon
from fl_audit.accounting.release import Correlation, Party, Release
from fl_audit.accounting.sampling import ADD_OR_REMOVE, Presences, in_one_group, mean_of_groups
from fl_audit.accounting.secret_sampling import SecretSampling, one_of_blocks_pair
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray, IntArray


@dataclass(frozen=True)
class BallsInBinsSampling(SecretSampling):
    """All rounds of one group, where groups take turns and each member draws its group.

    Attributes:
      bins: The number of groups, at least 1; a member draws one of them uniformly and
        independently. It is also the distance between a group's rounds.
      rounds: The number of rounds of training.
    """

    neighbours: ClassVar[str] = ADD_OR_REMOVE
    log_name: ClassVar[str] = "balls_in_bins"
    log_keys: ClassVar[tuple[str, ...]] = ("separation",)
    amplified_by: ClassVar[str] = "random_allocation"

    bins: int
    rounds: int

    @property
    def most_drawn(self) -> int:
        return -(-self.rounds // self.bins)

    @property
    def round_share(self) -> float:
        return 1 / self.bins

    def chance_of_any(self, rounds: int) -> float:
        return min(self.bins, self.rounds) / self.bins  # some bins may have no round

    def log_ratio(self, logs: FloatArray) -> FloatArray:
        return mean_of_groups(logs, self.bins)

    def draw(self, rounds: int, members: int, random: np.random.Generator) -> Presences:
        return in_one_group(rounds, members, self.bins, random)

    def allows(self, member: IntArray, rounds: int) -> bool:
        if not len(member):
            return self.bins > rounds
        return np.array_equal(member, np.arange(member[0] % self.bins, rounds, self.bins))

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "BallsInBinsSampling":
        return cls(keys["separation"], rounds)

    def worst_sensitivity(self, correlation: Correlation) -> float | None:
        return correlation.one_group(self.bins)

    @property
    def assumption(self) -> str:
        return (
            f"Each client draws one of {self.bins} groups that take turns, uniformly and "
            "independently, and no attacker sees which."
        )

    def pair(self, release: Release, party: Party, delta: float) -> RatioDistribution | None:
        z, bins = release.noise.noise_multiplier, self.bins
        match release.correlation:
            case None:
                return one_of_blocks_pair(z / math.sqrt(self.most_drawn), ((bins, 1),), delta)
            case Toeplitz(bands=bands) if bands <= bins:
                shift = math.sqrt(party.squared_sensitivity or 0.0) / z
                return one_of_blocks_pair(1 / shift, ((bins_of_a_class(bins, bands), 1),), delta)
            case _:
                return None

    def least(self, release: Release, delta: float) -> float:
        """The lower bound if rounds of an incomplete last cycle are left out."""
        turns = max(self.rounds // self.bins, 1)
        z = release.noise.noise_multiplier / math.sqrt(turns)
        bins = min(self.bins, self.rounds)
        share = self.chance_of_any(self.rounds)
        return least_epsilon(z, np.array([1 - share, share]), bins, delta)


def bins_of_a_class(bins: int, bands: int) -> int:
    """The largest size of equal classes of bins with orthogonal columns.

    Bins are on a circle; two bins of a class are at least as far apart as the number of bands.

    >>> bins_of_a_class(12, 1), bins_of_a_class(12, 5), bins_of_a_class(12, 7)
    (12, 2, 1)
    """
    return max(size for size in range(1, bins + 1) if bins % size == 0 and bins // size >= bands)
