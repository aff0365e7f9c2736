"""Threat models: what attackers see of a run, and the classes that attack under each."""

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
    """The description of one threat model; docs/threat_models.md defines the terms.

    Attributes:
      name: The name in config and report.
      title: A few words for a heading.
      sees: The function from the table [audit] to words on what an attacker sees, which continue
        "an attacker who sees".
      attackers: The classes that attack under it; their statistics are those of the threat model.
      keys: The keys of [audit] that are allowed only with a threat model that names them, and must
        be set with it.
      rounds: The function from the table [audit] and the number of rounds to the rounds whose
        participants the attacker may find.
      is_about_sampling: Whether an analytical epsilon that counts on sampling holds against the
        attacker, which it does not if the attacker knows who was sampled.
      check: The function that raises a `ValueError` if the keys in [audit] contradict each other.
      check_rounds: The function that raises an `InputError` if [audit] does not fit a run of that
        many rounds.
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
