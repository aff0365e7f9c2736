"""Attackers who see the noised aggregates of all rounds or of some."""

from collections.abc import Mapping

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.attacks.compared_vectors import ComparedVectors, named
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.direction_sum import DirectionSum
from fl_audit.attacks.over_rounds import over_rounds
from fl_audit.attacks.round_cosines import RoundCosines


class AggregateAttacker(Attacker):
    """An attacker who sees aggregates, and logs each canary's cosine with them."""

    def __init__(
        self, cosines: RoundCosines, num_canaries: int, rounds: range | None = None
    ) -> None:
        """Attacks a pool of canaries.

        Args:
          cosines: The cosines of every canary with every aggregate; several attackers share them.
          num_canaries: The size of the pool.
          rounds: The rounds that the attacker sees, from 0; None for all.
        """
        self._cosines = cosines
        self._num_canaries = num_canaries
        self._rounds = rounds

    def see_round(self, seen: SeenRound) -> None:
        """Logs each canary's cosine with the aggregate, if it sees the round."""
        if self._sees(seen.index):
            self._cosines.see_round(seen)

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._cosines.flush()

    def _sees(self, index: int) -> bool:
        return self._rounds is None or index in self._rounds


class LargestAndSumAttacker(AggregateAttacker):
    """An attacker who scores by the maximum and the sum of a canary's cosines with aggregates.

    A subclass has two statistics: the largest cosine (Andrew et al. Algorithm 2), then the sum. In
    a run that trains, the attacker keeps the sum of the aggregates' directions, from which the null
    law of the sum follows.
    """

    def __init__(self, context: AttackContext, rounds: range | None = None) -> None:
        """Attacks the canaries of a run or a log.

        Args:
          context: The run or log that is attacked.
          rounds: The rounds that the attacker sees, from 0; None for all.

        Raises:
          InputError: A file that the attacker should have written is missing or damaged.
        """
        super().__init__(context.round_cosines, context.num_canaries, rounds)
        self._family = context.family
        self._sum: DirectionSum | None = None
        if context.folder is not None and context.family is not None:
            seen = range(context.num_rounds) if rounds is None else rounds
            count = len(range(seen.start, min(seen.stop, context.completed)))
            name, dim = self.statistics[1].name, len(context.initial_model)
            self._sum = DirectionSum(context.folder, name, dim, count)

    def see_round(self, seen: SeenRound) -> None:
        """Logs the cosines, and adds the aggregate's direction to the sum."""
        super().see_round(seen)
        if self._sum is not None and self._sees(seen.index):
            self._sum.add(seen.aggregate)

    def flush(self) -> None:
        """Writes the log and the sum of directions to the disk."""
        super().flush()
        if self._sum is not None:
            self._sum.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The maximum and the sum of cosines over the rounds that the attacker sees."""
        del final
        seen = over_rounds(self._cosines.rows(self._rounds), self._num_canaries)
        maximum, total = self.statistics
        return {maximum.name: seen.maximum, total.name: seen.total}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        """The aggregates of the rounds that the attacker sees, and the sum of their directions."""
        del final
        total = self._cosines.total() if self._sum is None else self._sum.compared(self._family)
        largest, sum_of_rounds = self.statistics
        return named({largest: self._cosines.largest(self._rounds), sum_of_rounds: total})
