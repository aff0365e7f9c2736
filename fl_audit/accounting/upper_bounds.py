"""All upper bounds of a release: both parties, against every attacker who sees the rounds.

>>> from fl_audit.accounting import Denominator, FixedRounds, Noise, Party, Release
>>> release = Release(
...     rounds=100,
...     noise=Noise("gaussian", 1.0, 1.0),
...     denominator=Denominator("expected_cohort", 22.0),
...     client=Party(FixedRounds(7)),
...     canary=Party(FixedRounds(1)),
... )
>>> bounds = upper_bounds(release, delta=1e-5)
>>> known = bounds.attackers["knows_rounds"]
>>> round(known.client.epsilon, 2), round(known.in_full.client.rho, 2)
(14.19, 3.5)
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from fl_audit.accounting.analytical import Accounting, account
from fl_audit.accounting.attacker_bounds import AttackerBounds, attacker_bounds
from fl_audit.accounting.full_guarantee import FullGuarantee, full_guarantee
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.release import Party, Release
from fl_audit.json_records import WRITTEN_IF_SET


@dataclass(frozen=True)
class FullGuarantees:
    """The privacy curves of both parties against one kind of attacker."""

    client: FullGuarantee
    canary: FullGuarantee


@dataclass(frozen=True)
class Guarantees:
    """Upper bounds for both parties against an attacker who sees every round.

    Attributes:
      in_full: Both privacy curves; None if no curve is known.
    """

    client: Guarantee
    canary: Guarantee
    in_full: FullGuarantees | None = field(default=None, metadata=WRITTEN_IF_SET)


@dataclass(frozen=True, eq=False)
class UpperBounds:
    """What accounting says of a release.

    Attributes:
      accounting: Epsilon by accountant, its assumptions and the neighbouring relation.
      attackers: The bounds by attacker: `knows_rounds`, `does_not_know_rounds`, and `sees_uploads`
        if uploads carry noise.
      of_canary: The canary's bounds, with the pairs of distributions that they come from.
    """

    accounting: Accounting
    attackers: dict[str, Guarantees]
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
    parties = (release.client, release.canary)
    of = {party: attacker_bounds(release, party, delta) for party in dict.fromkeys(parties)}
    if uploads is not None:
        for party, uploading in zip(parties, (uploads.client, uploads.canary), strict=True):
            seen = attacker_bounds(uploads, uploading, delta).seeing_uploads
            of[party] = dataclasses.replace(of[party], seeing_uploads=seen)

    def against(bounds: Mapping[Party, AttackerBounds], knows_rounds: bool) -> Guarantees:
        curves = {
            party: full_guarantee(release, party, found, delta, knows_rounds)
            for party, found in bounds.items()
        }
        return Guarantees(
            *(bounds[party].against(knows_rounds).guarantee for party in parties),
            FullGuarantees(*(curves[party] for party in parties)),
        )

    attackers = {"knows_rounds": against(of, True), "does_not_know_rounds": against(of, False)}
    alone = {
        party: AttackerBounds(found.seeing_uploads, found.seeing_uploads)
        for party, found in of.items()
        if found.seeing_uploads is not None
    }
    if len(alone) == len(of):
        attackers["sees_uploads"] = against(alone, True)
    return UpperBounds(account(release, delta), attackers, of[release.canary])
