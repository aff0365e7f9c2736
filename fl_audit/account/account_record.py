"""A release and its accounting as one record: every attacker, both parties, and JSON."""

import math
from dataclasses import dataclass
from typing import Any

from fl_audit.accounting import FullGuarantee, Guarantee, Release, epsilon_at_least, upper_bounds
from fl_audit.accounting.lower_bound import uploads_as_sums
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.errors import InputError
from fl_audit.json_records import to_json


@dataclass(frozen=True, eq=False)
class Source:
    """A release, and its origin.

    Attributes:
      name: The file or folder, or words for options.
      release: What is or was released.
      delta: The delta of the guarantees.
      uploads: The release of single uploads, if a log states it separately.
      assumes: Further assumptions for this source, in sentences.
    """

    name: str
    release: Release
    delta: float
    uploads: Release | None = None
    assumes: tuple[str, ...] = ()


def check_delta_option(delta: float) -> None:
    """Raises InputError unless 0 < delta < 1."""
    if not 0 < delta < 1:
        raise InputError(f"--delta {delta:g}: must be in (0, 1)")


def check_epsilon(epsilon: float) -> None:
    """Raises InputError for a target epsilon that is not a finite number above 0."""
    if not 0 < epsilon < math.inf:
        raise InputError(f"--epsilon {epsilon:g}: must be a finite number above 0")


@dataclass(frozen=True)
class Bounds:
    """The bounds of one party against one attacker.

    Attributes:
      guarantee: The upper bounds on epsilon, by accountant.
      lower: A lower bound on epsilon; None if unknown.
      full: The privacy curve: μ, ρ, true positive rates, profile.
    """

    guarantee: Guarantee
    lower: float | None
    full: FullGuarantee

    @property
    def reason(self) -> str | None:
        """Why no epsilon is known; None if an epsilon is known."""
        if self.guarantee.epsilon is not None:
            return None
        return "; ".join(by.reason for by in self.guarantee.by_accountant if by.reason)

    def to_json(self) -> dict[str, Any]:
        full = self.full
        fields: dict[str, Any] = {
            "epsilon": self.guarantee.epsilon,
            "lower": self.lower,
            "by_accountant": {
                by.accountant: by.epsilon
                for by in self.guarantee.by_accountant
                if by.accountant != "none_known"
            },
            "tightest": self.guarantee.tightest,
            "reason": self.reason,
            "participations": self.guarantee.participations,
            "mu": full.mu,
            "rho": full.rho,
            "approximate_mu": full.approximate_mu,
            "tail": full.tail,
            "advantage": full.advantage,
            "true_positive_rates": full.found,
            "profile": full.profile,
        }
        return {key: to_json(value) for key, value in fields.items()}


@dataclass(frozen=True, eq=False)
class AccountRecord:
    """The accounting of a source.

    Attributes:
      source: The release and its origin.
      neighbours: The neighbouring relation, in words.
      assumes: The assumptions, in words.
      bounds: The bounds of client and canary, by attacker in the order of `Attacker`.
    """

    source: Source
    neighbours: str
    assumes: tuple[str, ...]
    bounds: dict[Attacker, tuple[Bounds, Bounds]]

    @property
    def is_alike(self) -> bool:
        """Whether a canary has the guarantee of a client, in uploads, too."""
        releases = (self.source.release, self.source.uploads)
        return all(made is None or made.canary == made.client for made in releases)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `fl-audit account --json` prints; infinities are strings."""
        release = self.source.release
        parties = {
            attacker: {
                name: bounds.to_json()
                for name, bounds in zip(("client", "canary"), both, strict=True)
            }
            for attacker, both in self.bounds.items()
        }
        uploads = parties.get(Attacker.SEES_UPLOADS)
        return {
            "delta": self.source.delta,
            "noise_multiplier": release.noise.noise_multiplier,
            "rounds": release.rounds,
            **parties[Attacker.DOES_NOT_KNOW_ROUNDS],
            "knowing_rounds": parties[Attacker.KNOWS_ROUNDS],
            **({} if uploads is None else {"seeing_uploads": uploads}),
            "neighbours": self.neighbours,
            "assumes": list(self.assumes),
        }


def accounted(source: Source) -> AccountRecord:
    """The bounds of a source."""
    delta = source.delta
    found = upper_bounds(source.release, delta, source.uploads)
    bounds: dict[Attacker, tuple[Bounds, Bounds]] = {}
    for attacker in Attacker:
        against = found.attackers.get(attacker)
        if against is None or against.in_full is None:
            continue
        release = source.release
        if attacker is Attacker.SEES_UPLOADS:
            release = uploads_as_sums(source.uploads or release)
        knows_rounds = attacker is not Attacker.DOES_NOT_KNOW_ROUNDS
        client, canary = (
            Bounds(
                guarantee, epsilon_at_least(release, party, delta, knows_rounds=knows_rounds), curve
            )
            for guarantee, party, curve in zip(
                (against.client, against.canary),
                (release.client, release.canary),
                (against.in_full.client, against.in_full.canary),
                strict=True,
            )
        )
        bounds[attacker] = client, canary
    accounting = found.accounting
    assumes = (*accounting.assumes, *source.assumes)
    return AccountRecord(source, accounting.neighbours, assumes, bounds)
