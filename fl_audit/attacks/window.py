"""Threat model `window`: the attacker joined late or left early, and sees only some rounds."""

from typing import TYPE_CHECKING, Self

from fl_audit.attacks.aggregates import LargestAndSumAttacker
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.statistic import EMPIRICAL, ONE_VECTOR, NullLaw, RunFacts, Statistic
from fl_audit.attacks.threat_model import ThreatModel
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.attacks.audit_table import Audit


def window_of(audit: "Audit") -> range:
    """The rounds of the window, from 0; empty where the table has none.

    Args:
      audit: The table [audit], whose rounds count from 1.
    """
    if audit.window_first_round is None or audit.window_last_round is None:
        return range(0)
    return range(audit.window_first_round - 1, audit.window_last_round)


def _law(facts: RunFacts) -> NullLaw:
    """The closed form for a window of one round, which is one vector."""
    return ONE_VECTOR if len(window_of(facts.audit)) == 1 else EMPIRICAL


WINDOW_MAX = Statistic(
    name="window_max",
    title="Largest in window",
    meaning=(
        "Largest cosine with the noised update of a round of the window: the attacker joined late "
        "or left early. A canary that took part in other rounds only counts as included."
    ),
    threat_model="window",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
    law=_law,
)

WINDOW_SUM = Statistic(
    name="window_sum",
    title="Sum in window",
    meaning=(
        "Sum of the cosines with the noised updates of the window’s rounds: the attacker joined "
        "late or left early. A canary that took part in other rounds only counts as included."
    ),
    threat_model="window",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
    law=_law,
)


class WindowAttacker(LargestAndSumAttacker):
    """An attacker who sees the noised aggregates of the window's rounds."""

    statistics = (WINDOW_MAX, WINDOW_SUM)

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`."""
        return cls(context, window_of(context.audit))


def _sees(audit: "Audit") -> str:
    first, last = audit.window_first_round or 0, audit.window_last_round or 0
    seen = f"update of round {first}" if first == last else f"updates of rounds {first} to {last}"
    return f"the noised {seen} alone"


def _check(audit: "Audit") -> None:
    first, last = audit.window_first_round, audit.window_last_round
    if first is not None and last is not None and first > last:
        raise ValueError(
            f"window_first_round is {first} and window_last_round {last}; the first must not "
            "come after the last"
        )


def _check_rounds(audit: "Audit", num_rounds: int) -> None:
    last = audit.window_last_round
    if last is not None and last > num_rounds:
        raise InputError(
            f"key `audit.window_last_round`: is {last} of {num_rounds} rounds; must be at most "
            f"{num_rounds}"
        )


WINDOW = ThreatModel(
    name="window",
    title="Window",
    sees=_sees,
    attackers=(WindowAttacker,),
    keys=("window_first_round", "window_last_round"),
    rounds=lambda audit, num_rounds: window_of(audit),
    check=_check,
    check_rounds=_check_rounds,
)
