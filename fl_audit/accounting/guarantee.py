"""The guarantee to one party, with its epsilon by each accountant that was asked."""

from dataclasses import dataclass
from typing import ClassVar, Literal

AccountantName = Literal[
    "rdp", "pld", "analytic_gaussian", "seen_samples", "random_allocation", "none_known"
]
"""The accountants, and `none_known` where there is none."""


@dataclass(frozen=True)
class AccountedEpsilon:
    """The epsilon of one accountant.

    Attributes:
      accountant: The name of the accountant.
      epsilon: The epsilon, possibly infinite; None where the accountant gives none.
      reason: The reason for which there is none, in words; None where there is one.
    """

    accountant: AccountantName
    epsilon: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of the noise to one party.

    Attributes:
      participations: The largest number of rounds that the party takes part in; None where sampling
        decides, or unknown.
      by_accountant: The epsilons of the accountants, each of them an upper bound on the same
        epsilon.
    """

    JSON_COMPUTED: ClassVar = ("epsilon",)

    participations: int | None
    by_accountant: tuple[AccountedEpsilon, ...]

    @property
    def epsilon(self) -> float | None:
        """The tightest of the upper bounds; None where none is known."""
        known = [by.epsilon for by in self.by_accountant if by.epsilon is not None]
        return min(known, default=None)


def none_known(participations: int | None, reason: str) -> Guarantee:
    """The guarantee where no accountant applies, with the reason in words."""
    return Guarantee(participations, (AccountedEpsilon("none_known", None, reason),))
