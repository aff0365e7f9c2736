"""The guarantee of noise to one party, with the epsilon of each accountant."""

from dataclasses import dataclass, field
from typing import ClassVar

from fl_audit.json_records import WRITTEN_IF_SET


@dataclass(frozen=True)
class AccountedEpsilon:
    """The epsilon of one accountant.

    Attributes:
      accountant: The name of the accountant, `none_known` where there is none.
      epsilon: The epsilon, possibly infinite; None where the accountant gives none.
      reason: The reason for which there is none, in words; None where there is one.
    """

    accountant: str
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
      at_least: A lower bound on that epsilon, to which one attacker comes; None where none was
        computed.
    """

    JSON_COMPUTED: ClassVar = ("epsilon",)

    participations: int | None
    by_accountant: tuple[AccountedEpsilon, ...]
    at_least: float | None = field(default=None, compare=False, metadata=WRITTEN_IF_SET)

    @property
    def epsilon(self) -> float | None:
        """The tightest of the upper bounds; None where none is known."""
        known = [by.epsilon for by in self.by_accountant if by.epsilon is not None]
        return min(known, default=None)


def none_known(participations: int | None, reason: str) -> Guarantee:
    """The guarantee where no accountant applies, with the reason in words."""
    return Guarantee(participations, (AccountedEpsilon("none_known", None, reason),))
