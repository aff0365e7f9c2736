"""The upper bound on the epsilon of one party, by each accountant."""

from dataclasses import dataclass, field
from typing import ClassVar

from fl_audit.json_records import WRITTEN_IF_SET

ACCOUNTANT_TITLES = {
    "rdp": "Rényi DP",
    "pld": "Privacy loss distributions",
    "analytic_gaussian": "Exact (analytic Gaussian)",
    "seen_samples": "Exact, if the attacker sees who was sampled",
    "random_allocation": "Random allocation, if the rounds are secret",
    "coins_without_rest": "Poisson sampling, as if clients did not rest",
    "truncated_poisson": "Truncated Poisson sampling",
    "none_known": "None known",
}
"""The accountants in words, by name."""


@dataclass(frozen=True)
class AccountedEpsilon:
    """The epsilon of one accountant.

    Attributes:
      accountant: The name of the accountant, or `none_known`.
      epsilon: The epsilon, possibly infinite; None if the accountant gives none.
      reason: Why epsilon is None, in words; None otherwise.
    """

    accountant: str
    epsilon: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of the noise to one party.

    Attributes:
      participations: The largest number of the party's rounds; None if secret or unknown.
      by_accountant: The epsilons of the accountants, each an upper bound on the same epsilon.
      at_least: A lower bound on that epsilon, by one attacker; None if no lower bound was computed.
    """

    JSON_COMPUTED: ClassVar = ("epsilon",)

    participations: int | None
    by_accountant: tuple[AccountedEpsilon, ...]
    at_least: float | None = field(default=None, compare=False, metadata=WRITTEN_IF_SET)

    @property
    def epsilon(self) -> float | None:
        """The smallest of the accountants' epsilons; None if every accountant's is None."""
        known = [by.epsilon for by in self.by_accountant if by.epsilon is not None]
        return min(known, default=None)

    @property
    def tightest(self) -> str | None:
        """The first accountant with the smallest epsilon; None if no epsilon is known."""
        by_epsilon = {by.epsilon: by.accountant for by in reversed(self.by_accountant)}
        return None if self.epsilon is None else by_epsilon[self.epsilon]


def none_known(participations: int | None, reason: str) -> Guarantee:
    """The guarantee if no accountant applies, with the reason in words."""
    return Guarantee(participations, (AccountedEpsilon("none_known", None, reason),))
