"""Threat model `known_rounds`: the attacker sees every round and knows who was online when.

This is the attacker that accounting without amplification guards against: the order of clients is
not secret. Sampling hides nothing from it, so a bound may exceed an epsilon that relies on
sampling.
"""

from collections.abc import Mapping
from typing import Self

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.attacker import AttackContext, Attacker, SeenRound
from fl_audit.attacks.directions import OwnSums, RoundDirections
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.attacks.round_cosines import RoundCosines
from fl_audit.attacks.statistics import (
    ONE_VECTOR,
    ComparedVectors,
    RunFacts,
    Statistic,
    Vectors,
    named,
)
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.estimators.null import EMPIRICAL, Null


def _law(facts: RunFacts) -> Null:
    """The closed form if every canary's score is known to be one cosine, else a fit."""
    compared = facts.compared.get("own_rounds")
    return EMPIRICAL if compared is None or compared.is_limit else ONE_VECTOR


OWN_ROUNDS = Statistic(
    name="own_rounds",
    title="Own rounds",
    meaning=(
        "Cosine with the noised update of the very round that the canary takes part in, or would "
        "have taken part in were it included; of several rounds, the cosine with the sum of these "
        "updates’ directions. The attacker sees every round, and knows when the canary is online."
    ),
    threat_model="known_rounds",
    canaries="vectors",
    needs=frozenset({"round_cosines", "canary_rounds"}),
    law=_law,
)


class KnownRoundsAttacker(Attacker):
    """An attacker who sees every round's noised aggregate, and knows each canary's rounds."""

    statistics = (OWN_ROUNDS,)

    def __init__(
        self, cosines: RoundCosines, own: OwnRounds, directions: RoundDirections | None = None
    ) -> None:
        """Attacks a pool of canaries.

        Args:
          cosines: The cosines of every canary with every aggregate, which attackers share.
          own: The rounds of the pool.
          directions: The log of the rounds' directions; None for a log, which may have its own, and
            where no canary has several rounds.
        """
        self._cosines = cosines
        self._own = own
        self._directions = directions
        self._sums: OwnSums | None = None

    @classmethod
    def of(cls, context: AttackContext) -> Self:
        """See `Attacker.of`."""
        own, directions = context.own_rounds, None
        if context.folder is not None and context.family is not None and own.most > 1:
            directions = RoundDirections.at_round(
                context.completed,
                context.folder.round_directions,
                context.num_rounds,
                context.seed,
                len(context.initial_model),
            )
        return cls(context.round_cosines, own, directions)

    def see_round(self, seen: SeenRound) -> None:
        """Logs each canary's cosine with the aggregate, and the aggregate's direction."""
        self._cosines.see_aggregate(seen.index, seen.aggregate)
        if self._directions is not None:
            self._directions.add(seen.index, seen.aggregate)

    def flush(self) -> None:
        """Writes the logs to the disk."""
        self._cosines.flush()
        if self._directions is not None:
            self._directions.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The cosine with the canary's own round, or with the sum of its rounds' directions.

        Where the lengths of these sums are not known, sums are divided by the root of the number of
        rounds, which is their length where the directions are orthogonal.
        """
        del final
        summed = sums_in_own_rounds(self._cosines.numbered_rows(), self._own)
        if self._own.most > 1:
            self._sums = self._own_sums(summed.rounds)
        if self._sums is None:
            return {OWN_ROUNDS.name: summed.over_roots()}
        cosines = summed.totals / self._sums.lengths
        return {OWN_ROUNDS.name: np.clip(cosines, -1, 1)}

    def _own_sums(self, rounds: IndexArray) -> OwnSums | None:
        if self._directions is None:
            return self._cosines.own_sums(self._own)
        return self._directions.own_sums(self._own, rounds, rounds)

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """The one vector that every canary is compared with, a single aggregate or a sum."""
        del final
        if self._own.most <= 1:
            return named({OWN_ROUNDS: self._cosines.any_one()})
        if self._sums is None:
            return {}
        vector = Vectors(1, self._sums.concentration)
        return {OWN_ROUNDS.name: ComparedVectors((vector,), is_limit=not self._sums.are_exact)}


KNOWN_ROUNDS = ThreatModel(
    name="known_rounds",
    title="Known rounds",
    sees=lambda audit: "the noised update of every round and knows when each client is online",
    attackers=(KnownRoundsAttacker,),
    knows=Knowledge.EVERY_ROUND_AND_SCHEDULE,
    is_about_sampling=False,
)
