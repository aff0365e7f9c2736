"""Threat model `known_rounds`: the attacker sees every round and knows the participation schedule.

Against this attacker an epsilon holds without amplification by sampling; the lower bound may exceed
an epsilon that relies on secret sampling.

Equal weights are optimal. In each of its rounds an included canary with unit vector c adds
(S_t / n) c to the aggregate u_t, with clip norm S_t and denominator n. Under noise multiplier z the
norm of u_t is about z S_t sqrt(d) / n. So sqrt(d) cos(c, u_t) is N(1 / z, 1) whatever S_t is, and
N(0, 1) if the canary is excluded. By Neyman and Pearson the sum of cosines is the best statistic: R
rounds are equivalent to one with noise multiplier z / sqrt(R).
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.all_iterates import AggregateAttacker
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights, sums_in_own_rounds
from fl_audit.attacks.own_sums import OwnSums
from fl_audit.attacks.round_cosines import RoundCosines
from fl_audit.attacks.statistics import Statistic, named, null_of_one_cosine
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.errors import InputError
from fl_audit.formats.metrics_file import read_metrics

OWN_ROUNDS = Statistic(
    name="own_rounds",
    title="Own rounds",
    meaning=(
        "Cosine with the noisy aggregate of the canary’s own round, or, for several own rounds, "
        "with the sum of the aggregates’ directions; excluded canaries are assigned rounds too. "
        "The attacker sees every round and knows the schedule. Under correlated noise all rounds "
        "count, weighted."
    ),
    threat_model="known_rounds",
    canaries="vectors",
    needs=frozenset({"round_cosines", "canary_rounds"}),
    null_of=functools.partial(null_of_one_cosine, "own_rounds"),
)


@dataclass(frozen=True)
class CorrelatedRounds:
    """Correlated noise, and the norms of the noised aggregates.

    `lengths` maps rounds (from 0, of shape (n,)) to the norms of their aggregates, NaN where not
    known; it is called after training.
    """

    correlation: Correlation
    lengths: Callable[[IntArray], FloatArray]

    def weights(self, presences: RoundWeights, rounds: IntArray) -> RoundWeights | None:
        """The weights of scored rounds' directions; None if a norm is not known, or zero."""
        lengths = self.lengths(rounds)
        if not (lengths > 0).all():
            return None
        return presences.whitened(self.correlation, rounds, lengths)


def lengths_in_metrics(metrics: Path, rounds: IntArray) -> FloatArray:
    """The norms of a run's aggregates in some rounds, from its metrics.csv."""
    try:
        return np.array([row.aggregate_norm for row in read_metrics(metrics)])[rounds]
    except IndexError as error:
        raise InputError(f"{metrics}: lacks the norm of an aggregate") from error


class KnownRoundsAttacker(AggregateAttacker):
    """An attacker who sees every round's noised aggregate, and knows each canary's rounds.

    Directions are needed only if a canary has several rounds or noise is correlated.
    """

    statistics = (OWN_ROUNDS,)

    def __init__(
        self, cosines: RoundCosines, own: OwnRounds, correlated: CorrelatedRounds | None = None
    ) -> None:
        super().__init__(cosines, len(own.of_canary))
        self._own = own
        self._correlated = correlated
        self._sums: OwnSums | None = None

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        own, correlation, lengths = context.own_rounds, context.correlation, None
        if context.folder is None:
            lengths = context.aggregate_lengths
        elif context.family is not None:
            lengths = functools.partial(lengths_in_metrics, context.folder.metrics)
        correlated = None
        if correlation is not None and lengths is not None:
            correlated = CorrelatedRounds(correlation, lengths)
        needs_directions = own.most > 1 or correlation is not None
        cosines = context.cosines_and_directions if needs_directions else context.round_cosines
        return cls(cosines, own, correlated)

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The cosine with the aggregate of a canary's round, or with the sum of several directions.

        If the norms of sums are not known, summed cosines are divided by the root of the number of
        rounds, which is the norm of a sum of orthogonal directions.

        Under noise that is correlated over rounds, the score is the cosine with a weighted sum of
        the aggregates of all rounds. The weights depend on what was released and on the canary's
        rounds. Both are independent of an excluded canary's vector, so that the vector's cosine
        with the sum has the null distribution of a cosine with one vector, for any weights.
        """
        if self._correlated is not None:
            whitened = self._whitened(self._correlated)
            if whitened is not None:
                return {OWN_ROUNDS.name: whitened}
        summed = sums_in_own_rounds(self._cosines.numbered_rows(), self._own)
        if self._own.most > 1 and len(summed.rounds):
            weights = RoundWeights.from_presences(self._own, summed.rounds)
            self._sums = self._cosines.weighted_sums(weights)
        if self._sums is None:
            return {OWN_ROUNDS.name: summed.over_roots()}
        cosines = summed.totals / self._sums.lengths
        return {OWN_ROUNDS.name: np.clip(cosines, -1, 1)}

    def _whitened(self, correlated: CorrelatedRounds) -> FloatArray | None:
        """The cosines with weighted sums; None without rounds, or if norms or sums are unknown."""
        rounds = self._cosines.scored_rounds()
        if len(rounds) == 0:
            return None
        weights = correlated.weights(RoundWeights.from_presences(self._own, rounds), rounds)
        self._sums = None if weights is None else self._cosines.weighted_sums(weights)
        if weights is None or self._sums is None:
            return None
        totals = weights.totals(self._cosines.numbered_rows())
        return np.clip(totals / self._sums.lengths, -1, 1)

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        if self._sums is None:
            compared = self._cosines.any_one() if self._own.most <= 1 else None
            return named({OWN_ROUNDS: compared})
        return {OWN_ROUNDS.name: self._sums.compared}


KNOWN_ROUNDS = ThreatModel(
    name="known_rounds",
    title="Known rounds",
    sees=lambda audit: "all noisy aggregates and the participation schedule",
    attackers=(KnownRoundsAttacker,),
    knows=Knowledge.EVERY_ROUND_AND_SCHEDULE,
    is_about_sampling=False,
)
