"""What a threat model is: what attackers see of a run, and who they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fl_audit.attacks.attacker import Attacker

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit


def _every_round(audit: "Audit", num_rounds: int) -> range:
    del audit
    return range(num_rounds)


def _fits(audit: "Audit") -> None:
    del audit


def _fits_rounds(audit: "Audit", num_rounds: int) -> None:
    del audit, num_rounds


@dataclass(frozen=True)
class ThreatModel:
    """Everything that is known of one threat model. docs/threat_models.md defines the words.

    Attributes:
      name: What it is called in config and report.
      title: A few words for a heading.
      sees: What an attacker sees, by the table [audit]; goes on from "an attacker who sees".
      attackers: Those who attack under it; their statistics are its.
      keys: Keys of [audit] that are there where a threat model needs them, and only there.
      rounds: The rounds whose participants the attacker may find, by the table [audit] and the
        number of rounds.
      is_about_sampling: Whether what sampling adds to the analytical epsilon holds against the
        attacker; not against one who knows who was sampled.
      check: Raises a `ValueError` where the keys in [audit] do not fit together.
      check_rounds: Raises an `InputError` where [audit] does not fit a run of so many rounds.
    """

    name: str
    title: str
    sees: Callable[["Audit"], str]
    attackers: tuple[type[Attacker], ...]
    keys: tuple[str, ...] = ()
    rounds: Callable[["Audit", int], range] = _every_round
    is_about_sampling: bool = True
    check: Callable[["Audit"], None] = _fits
    check_rounds: Callable[["Audit", int], None] = _fits_rounds
