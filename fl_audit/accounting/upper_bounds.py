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
>>> known = bounds.attackers[Attacker.KNOWS_ROUNDS]
>>> round(known.client.epsilon, 2), round(known.in_full.client.rho, 2)
(14.19, 3.5)
"""

import dataclasses
import enum
from dataclasses import dataclass, field

from fl_audit.accounting.analytical import Accounting, account
from fl_audit.accounting.attacker_bounds import AttackerBounds, attacker_bounds
from fl_audit.accounting.full_guarantee import FullGuarantee, full_guarantee
from fl_audit.accounting.guarantee import Guarantee
from fl_audit.accounting.release import Release
from fl_audit.json_records import WRITTEN_IF_SET


class Attacker(enum.StrEnum):
    """What the attacker of an upper bound knows besides the noisy aggregates; the keys of JSON."""

    DOES_NOT_KNOW_ROUNDS = "does_not_know_rounds"
    KNOWS_ROUNDS = "knows_rounds"
    SEES_UPLOADS = "sees_uploads"

    @property
    def words(self) -> str:
        """What it knows, in words that follow "attacker"."""
        return _ATTACKERS[self][0]

    @property
    def title(self) -> str:
        """The same, above a column."""
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
      attackers: The bounds by attacker; SEES_UPLOADS is among them if uploads carry noise.
      of_canary: The canary's bounds, with the pairs of distributions that they come from.
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
    client = attacker_bounds(release, release.client, delta)
    is_the_same = release.canary == release.client
    canary = client if is_the_same else attacker_bounds(release, release.canary, delta)
    if uploads is not None:
        of_client, of_canary = (
            attacker_bounds(uploads, party, delta).seeing_uploads
            for party in (uploads.client, uploads.canary)
        )
        client = dataclasses.replace(client, seeing_uploads=of_client)
        canary = dataclasses.replace(canary, seeing_uploads=of_canary)
    return UpperBounds(
        account(release, delta), guarantees_against(release, client, canary, delta), canary
    )


def guarantees_against(
    release: Release, client: AttackerBounds, canary: AttackerBounds, delta: float
) -> dict[Attacker, Guarantees]:
    """The upper bounds for both parties by attacker, with their privacy curves."""
    guarantees = {
        attacker: Guarantees(
            client.against(knows).guarantee,
            canary.against(knows).guarantee,
            _in_full(release, client, canary, delta, knows),
        )
        for attacker, knows in (
            (Attacker.KNOWS_ROUNDS, True),
            (Attacker.DOES_NOT_KNOW_ROUNDS, False),
        )
    }
    if client.seeing_uploads is None or canary.seeing_uploads is None:
        return guarantees
    of_client, of_canary = (
        AttackerBounds(bound, bound) for bound in (client.seeing_uploads, canary.seeing_uploads)
    )
    return guarantees | {
        Attacker.SEES_UPLOADS: Guarantees(
            client.seeing_uploads.guarantee,
            canary.seeing_uploads.guarantee,
            _in_full(release, of_client, of_canary, delta, True),
        )
    }


def _in_full(
    release: Release, client: AttackerBounds, canary: AttackerBounds, delta: float, knows: bool
) -> FullGuarantees:
    to_client = full_guarantee(release, release.client, client, delta, knows)
    if release.canary == release.client:
        return FullGuarantees(to_client, to_client)
    return FullGuarantees(to_client, full_guarantee(release, release.canary, canary, delta, knows))
