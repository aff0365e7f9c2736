"""Samples of fixed size, uniformly without replacement in each round."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fl_audit.accounting.gaussian_accountants import (
    FixedSizeRounds,
    account_fixed_size,
    account_gaussian,
)
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.release import Party, Release
from fl_audit.accounting.secret_sampling import SecretSampling

_ROUNDED = 2e-3
"""The largest relative rounding error of a log's probability, as of three digits."""


@dataclass(frozen=True)
class FixedSizeSampling(SecretSampling):
    """Every round draws a sample of fixed size, uniformly without replacement.

    Attributes:
      sample_size: The number of members that a round samples.
      sampled_from: The number of members from which it samples.
    """

    log_name: ClassVar[str] = "fixed_size"
    log_keys: ClassVar[tuple[str, ...]] = ("probability", "members")

    sample_size: int
    sampled_from: int

    def __post_init__(self) -> None:
        if not 0 < self.sample_size <= self.sampled_from:
            raise ValueError(
                f"sample_size must be from 1 to sampled_from, which is {self.sampled_from}, got "
                f"{self.sample_size}"
            )

    @property
    def share(self) -> float:
        return self.sample_size / self.sampled_from

    @classmethod
    def from_log(cls, rounds: int, **keys: Any) -> "FixedSizeSampling | None":
        stated = keys["probability"] * keys["members"]
        size = round(stated)
        is_whole = size > 0 and abs(size - stated) <= _ROUNDED * stated
        return cls(size, keys["members"]) if is_whole else None

    @property
    def assumption(self) -> str:
        return (
            f"Each round samples {self.sample_size} of {self.sampled_from} uniformly without "
            "replacement. For Rényi DP no attacker sees who was sampled, and a client may even be "
            "replaced by any other; the other accountant lets the attacker see who was."
        )

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        z, size, members = release.noise.noise_multiplier, self.sample_size, self.sampled_from
        if size == members:
            return Guarantee(release.rounds, account_gaussian(z, release.rounds, delta))
        rounds = FixedSizeRounds(size, members, z, release.rounds)
        return Guarantee(None, account_fixed_size(rounds, delta))
