"""Threat model `known_rounds`: the attacker sees every round and knows who was online when.

This is the attacker that accounting without amplification guards against: the order of clients is
not secret. Sampling hides nothing from it, so a bound may exceed an epsilon that relies on
sampling.
"""

from collections.abc import Mapping
from typing import Self

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.attacks.compared_vectors import ComparedVectors, named
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.own_rounds import OwnRounds, scores_in_own_rounds
from fl_audit.attacks.round_cosines import RoundCosines
from fl_audit.attacks.statistic import EMPIRICAL, ONE_VECTOR, NullLaw, RunFacts, Statistic
from fl_audit.attacks.threat_model import ThreatModel


def _law(facts: RunFacts) -> NullLaw:
    """The closed form if every canary is known to be compared with one vector, else a fit."""
    return ONE_VECTOR if "own_rounds" in facts.compared else EMPIRICAL


OWN_ROUNDS = Statistic(
    name="own_rounds",
    title="Own rounds",
    meaning=(
        "Cosine with the noised update of the very round that the canary takes part in, or would "
        "have taken part in were it included; of several rounds, the sum over the root of their "
        "number. The attacker sees every round, and knows when the canary is online."
    ),
    threat_model="known_rounds",
    canaries="vectors",
    needs=frozenset({"round_cosines", "canary_rounds"}),
    law=_law,
)


class KnownRoundsAttacker(Attacker):
    """An attacker who sees every round's noised aggregate, and knows each canary's rounds."""

    statistics = (OWN_ROUNDS,)

    def __init__(self, cosines: RoundCosines, own: OwnRounds) -> None:
        """Attacks a pool of canaries.

        Args:
          cosines: The cosines of every canary with every aggregate, which attackers share.
          own: The rounds of the pool.
        """
        self._cosines = cosines
        self._own = own

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`."""
        return cls(context.round_cosines, context.own_rounds)

    def see_round(self, seen: SeenRound) -> None:
        """Logs each canary's cosine with the aggregate."""
        self._cosines.see_round(seen)

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._cosines.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The cosine with the canary's own round, or the sum over its rounds."""
        del final
        return {OWN_ROUNDS.name: scores_in_own_rounds(self._cosines.numbered_rows(), self._own)}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """Any single aggregate, if no canary is compared with more than one."""
        del final
        one = self._cosines.any_one() if self._own.most <= 1 else None
        return named({OWN_ROUNDS: one})


KNOWN_ROUNDS = ThreatModel(
    name="known_rounds",
    title="Known rounds",
    sees=lambda audit: "the noised update of every round and knows when each client is online",
    attackers=(KnownRoundsAttacker,),
    is_about_sampling=False,
)
