"""All upper bounds of a release: for both parties, against every kind of attacker.

>>> from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release
>>> release = Release(
...     rounds=100,
...     noise=Noise("gaussian", 1.0, 1.0),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=Party(FixedRounds(7)),
...     canary=Party(FixedRounds(1)),
... )
>>> bounds = upper_bounds(release, delta=1e-5)
>>> known = bounds.attackers[Attacker.KNOWS_ROUNDS]
>>> round(known.client.epsilon, 2), round(known.in_full.client.rho, 2)
(14.19, 3.5)
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from fl_audit.accounting.analytical import Accounting, account
from fl_audit.accounting.attacker_bounds import AttackerBounds, attacker_bounds
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.privacy_curve import FullGuarantee, full_guarantee
from fl_audit.accounting.release import Party, Release
from fl_audit.json_records import WRITTEN_IF_SET


class Attacker(enum.StrEnum):
    """What the attacker of an upper bound knows besides the noisy aggregates; keys in JSON."""

    DOES_NOT_KNOW_ROUNDS = "does_not_know_rounds"
    KNOWS_ROUNDS = "knows_rounds"
    SEES_UPLOADS = "sees_uploads"

    @property
    def words(self) -> str:
        """A relative clause that follows "attacker"."""
        return _ATTACKERS[self][0]

    @property
    def heading(self) -> str:
        """A shorter form of `words`, for the head of a column."""
        return _ATTACKERS[self][1]


_ATTACKERS = {
    Attacker.DOES_NOT_KNOW_ROUNDS: (
        "who does not know the participation schedule",
        "without the schedule",
    ),
    Attacker.KNOWS_ROUNDS: ("who knows the participation schedule", "with the schedule"),
    Attacker.SEES_UPLOADS: ("who sees single uploads", "sees single uploads"),
}


@dataclass(frozen=True)
class FullGuarantees:
    """The privacy curves of both parties against one kind of attacker."""

    client: FullGuarantee
    canary: FullGuarantee


@dataclass(frozen=True)
class Guarantees:
    """Upper bounds for both parties against one kind of attacker.

    Attributes:
      in_full: Both parties' privacy curves; None only if read from a record without curves.
    """

    client: Guarantee
    canary: Guarantee
    in_full: FullGuarantees | None = field(default=None, metadata=WRITTEN_IF_SET)


@dataclass(frozen=True, eq=False)
class UpperBounds:
    """The upper bounds of a release.

    Attributes:
      accounting: Epsilon by accountant, with its assumptions and the neighbouring relation.
      attackers: The bounds by attacker; SEES_UPLOADS only for `CLIENT_GAUSSIAN` noise on uploads.
      of_canary: The canary's bounds, with their dominating pairs.
    """

    accounting: Accounting
    attackers: dict[Attacker, Guarantees]
    of_canary: AttackerBounds


def upper_bounds(release: Release, delta: float, uploads: Release | None = None) -> UpperBounds:
    """The upper bounds of a release.

    Args:
      release: What was released.
      delta: The delta of the guarantees, in (0, 1).
      uploads: The release of single uploads, if it is stated separately.

    Raises:
      ValueError: The release's noise distribution is not registered, or delta is out of range.
    """
    of = _of_parties(release, delta)

    def against(
        made: Release, bounds: Mapping[Party, AttackerBounds], knows_rounds: bool
    ) -> Guarantees:
        curves = {
            party: full_guarantee(made, party, found, delta, knows_rounds)
            for party, found in bounds.items()
        }
        client, canary = (
            bounds[party].against(knows_rounds).guarantee for party in (made.client, made.canary)
        )
        return Guarantees(client, canary, FullGuarantees(curves[made.client], curves[made.canary]))

    attackers = {
        Attacker.KNOWS_ROUNDS: against(release, of, True),
        Attacker.DOES_NOT_KNOW_ROUNDS: against(release, of, False),
    }
    # The parties of separately stated uploads may differ where those of the release are equal.
    seen = of if uploads is None else _of_parties(uploads, delta)
    alone = {
        party: AttackerBounds(found.seeing_uploads, found.seeing_uploads)
        for party, found in seen.items()
        if found.seeing_uploads is not None
    }
    if len(alone) == len(seen):
        attackers[Attacker.SEES_UPLOADS] = against(uploads or release, alone, True)
    return UpperBounds(account(release, delta), attackers, of[release.canary])


def _of_parties(release: Release, delta: float) -> dict[Party, AttackerBounds]:
    return {
        party: attacker_bounds(release, party, delta)
        for party in dict.fromkeys((release.client, release.canary))
    }
