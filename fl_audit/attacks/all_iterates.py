"""Attackers who see the noised aggregates of all rounds (`all_iterates`) or of some (`window`).

Neither attacker knows the distribution of a client's rounds; the attacker of `secret_rounds` does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import AttackContext, Attacker, SeenRound
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.directions import DirectionSum
from fl_audit.attacks.round_cosines import RoundCosines
from fl_audit.attacks.statistics import ONE_VECTOR, RunFacts, Statistic, named
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.estimators.null import EMPIRICAL, Null


@dataclass(frozen=True, eq=False)
class OverRounds:
    """The maximum (Andrew et al. Algorithm 2) and the sum of each canary's cosines over rounds.

    Both are float64 of shape (num_canaries,); the maximum is -inf if there is no round.
    """

    maximum: FloatArray
    total: FloatArray


def over_rounds(cosines: Iterable[npt.ArrayLike], num_canaries: int) -> OverRounds:
    """Reduces rows of cosines, each of shape (num_canaries,), in float64."""
    maximum, total = np.full(num_canaries, -np.inf), np.zeros(num_canaries)
    for row in cosines:
        values = np.asarray(row, np.float64)
        np.maximum(maximum, values, out=maximum)
        total += values
    return OverRounds(maximum, total)


class AggregateAttacker(Attacker):
    """Logs each canary's cosines with the aggregates of `rounds` (from 0; None for all)."""

    def __init__(
        self, cosines: RoundCosines, num_canaries: int, rounds: range | None = None
    ) -> None:
        self._cosines = cosines
        self._num_canaries = num_canaries
        self._rounds = rounds

    def see_round(self, seen: SeenRound) -> None:
        if self._rounds is None or seen.index in self._rounds:
            self._see(seen.index, seen.aggregate)

    def _see(self, index: int, vector: Float32Array) -> None:
        self._cosines.see_aggregate(index, vector)

    def flush(self) -> None:
        self._cosines.flush()


class LargestAndSumAttacker(AggregateAttacker):
    """Scores by the maximum and the sum of a canary's cosines with aggregates.

    A subclass has two statistics: the maximum, then the sum. While a run trains, the attacker keeps
    the sum of the aggregates' directions, which gives the null distribution of the sum of cosines.
    """

    def __init__(
        self,
        context: AttackContext,
        cosines: RoundCosines,
        completed: int,
        rounds: range | None = None,
    ) -> None:
        """`completed` is the number of compared vectors that are in the logs already."""
        super().__init__(cosines, context.num_canaries, rounds)
        self._family = context.family
        self._sum: DirectionSum | None = None
        if context.folder is not None and context.family is not None:
            name, dim = self.statistics[1].name, len(context.initial_model)
            self._sum = DirectionSum(context.folder, name, dim, completed)

    def _see(self, index: int, vector: Float32Array) -> None:
        super()._see(index, vector)
        if self._sum is not None:
            self._sum.add(vector)

    def flush(self) -> None:
        super().flush()
        if self._sum is not None:
            self._sum.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        over = over_rounds(self._cosines.rows(self._rounds), self._num_canaries)
        maximum, total = self.statistics
        return {maximum.name: over.maximum, total.name: over.total}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        total = self._cosines.total() if self._sum is None else self._sum.compared(self._family)
        largest, sum_of_rounds = self.statistics
        return named({largest: self._cosines.largest(self._rounds), sum_of_rounds: total})


# Threat model `all_iterates`: the attacker sees the noised aggregate of every round.


MAX = Statistic(
    name="max",
    title="Largest round",
    meaning=(
        "Largest cosine with the noisy aggregate of any round: the attacker sees every round, "
        "and looks for a canary that appears once."
    ),
    threat_model="all_iterates",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
)

SUM = Statistic(
    name="sum",
    title="Sum of rounds",
    meaning=(
        "Sum of the cosines with the noisy aggregates of all rounds: the attacker sees every "
        "round, and looks for a canary that appears often."
    ),
    threat_model="all_iterates",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
)


class AllIteratesAttacker(LargestAndSumAttacker):
    statistics = (MAX, SUM)

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        return cls(context, context.round_cosines, context.completed)


ALL_ITERATES = ThreatModel(
    name="all_iterates",
    title="All iterates",
    sees=lambda audit: "all noisy aggregates",
    attackers=(AllIteratesAttacker,),
    knows=Knowledge.EVERY_ROUND,
)


# Threat model `window`: the attacker joined late or left early, and sees only some rounds.


def window_of(audit: Audit) -> range:
    """The rounds of the window, from 0 (the table counts from 1); empty if there is no window."""
    if audit.window_first_round is None or audit.window_last_round is None:
        return range(0)
    return range(audit.window_first_round - 1, audit.window_last_round)


def _null(facts: RunFacts) -> Null:
    """The closed form for a window of one round, which is one vector; otherwise empirical."""
    return ONE_VECTOR if len(window_of(facts.audit)) == 1 else EMPIRICAL


WINDOW_MAX = Statistic(
    name="window_max",
    title="Largest in window",
    meaning=(
        "Largest cosine with the noisy aggregate of a round of the window: the attacker joined "
        "late or left early. A canary that participated only in other rounds still counts as "
        "included."
    ),
    threat_model="window",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
    null_of=_null,
)

WINDOW_SUM = Statistic(
    name="window_sum",
    title="Sum in window",
    meaning=(
        "Sum of the cosines with the noisy aggregates of the window’s rounds: the attacker "
        "joined late or left early. A canary that participated only in other rounds still counts "
        "as included."
    ),
    threat_model="window",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
    null_of=_null,
)


class WindowAttacker(LargestAndSumAttacker):
    statistics = (WINDOW_MAX, WINDOW_SUM)

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        window = window_of(context.audit)
        completed = len(range(window.start, min(window.stop, context.completed)))
        return cls(context, context.round_cosines, completed, window)


def _sees(audit: Audit) -> str:
    first, last = audit.window_first_round or 0, audit.window_last_round or 0
    seen = f"update of round {first}" if first == last else f"updates of rounds {first} to {last}"
    return f"the noised {seen} alone"


def _check(audit: Audit) -> None:
    first, last = audit.window_first_round, audit.window_last_round
    if first is not None and last is not None and first > last:
        raise ValueError(
            f"window_first_round is {first} and window_last_round {last}; the first must not "
            "come after the last"
        )


def _check_rounds(audit: Audit, num_rounds: int) -> None:
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
    knows=Knowledge.SOME_ROUNDS,
    keys=("window_first_round", "window_last_round"),
    rounds=lambda audit, num_rounds: window_of(audit),
    check=_check,
    check_rounds=_check_rounds,
)
