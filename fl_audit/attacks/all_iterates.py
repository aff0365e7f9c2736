"""Threat model `all_iterates`: the attacker sees the noised aggregate of every round."""

from typing import Self

from fl_audit.attacks.aggregates import LargestAndSumAttacker
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.statistic import Statistic
from fl_audit.attacks.threat_model import ThreatModel

MAX = Statistic(
    name="max",
    title="Largest round",
    meaning=(
        "Largest cosine with the noised update of any round: the attacker sees every round, and "
        "looks for a canary that appears once."
    ),
    threat_model="all_iterates",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
)

SUM = Statistic(
    name="sum",
    title="Sum of rounds",
    meaning=(
        "Sum of the cosines with the noised updates of all rounds: the attacker sees every round, "
        "and looks for a canary that appears often."
    ),
    threat_model="all_iterates",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
)


class AllIteratesAttacker(LargestAndSumAttacker):
    """An attacker who sees the noised aggregate of every round."""

    statistics = (MAX, SUM)

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`."""
        return cls(context)


ALL_ITERATES = ThreatModel(
    name="all_iterates",
    title="All iterates",
    sees=lambda audit: "the noised update of every round",
    attackers=(AllIteratesAttacker,),
)
