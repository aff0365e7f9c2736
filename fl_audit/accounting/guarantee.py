"""What is known of one party's epsilon, by each accountant that was asked."""

from dataclasses import dataclass
from typing import Literal

AccountantName = Literal["rdp", "pld", "analytic_gaussian", "seen_samples", "none_known"]
"""The last one where no accountant is known."""


@dataclass(frozen=True)
class AccountedEpsilon:
    """Epsilon by one accountant.

    Attributes:
      accountant: Which one.
      epsilon: Possibly infinite; None where the accountant cannot tell.
      reason: Why it cannot, in words; None where it can.
    """

    accountant: AccountantName
    epsilon: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Guarantee:
    """What the noise guarantees to one party.

    Attributes:
      participations: Rounds it takes part in at most; None where sampling decides, or unknown.
      by_accountant: Each of them an upper bound on the same epsilon.
    """

    participations: int | None
    by_accountant: tuple[AccountedEpsilon, ...]

    @property
    def epsilon(self) -> float | None:
        """The tightest of the upper bounds; None where none is known."""
        known = [by.epsilon for by in self.by_accountant if by.epsilon is not None]
        return min(known, default=None)


def none_known(participations: int | None, reason: str) -> Guarantee:
    """The guarantee where no accountant can tell, with the reason in words."""
    return Guarantee(participations, (AccountedEpsilon("none_known", None, reason),))
