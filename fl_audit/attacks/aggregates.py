"""The attackers who see noised aggregates, of every round or of some."""

from collections.abc import Mapping

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import Attacker, SeenRound
from fl_audit.attacks.over_rounds import over_rounds
from fl_audit.attacks.round_cosines import RoundCosines


class AggregateAttacker(Attacker):
    """Scores by the maximum and the sum of a canary's cosines with aggregates.

    A class of these has two statistics: that which is the largest cosine (Andrew et al. Algorithm
    2), and that which is the sum.
    """

    def __init__(
        self, cosines: RoundCosines, num_canaries: int, rounds: range | None = None
    ) -> None:
        """Attacks a pool of canaries.

        Args:
          cosines: Of every canary with every aggregate; several attackers share them.
          num_canaries: Size of the pool.
          rounds: Those that the attacker sees, from 0; None for all.
        """
        self._cosines = cosines
        self._num_canaries = num_canaries
        self._rounds = rounds

    def see_round(self, seen: SeenRound) -> None:
        """Has each canary's cosine with the aggregate logged, where it sees the round."""
        if self._rounds is None or seen.index in self._rounds:
            self._cosines.see_round(seen)

    def flush(self) -> None:
        """Writes the log to the disk."""
        self._cosines.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """Maximum and sum over the rounds that it sees."""
        del final
        seen = over_rounds(self._cosines.rows(self._rounds), self._num_canaries)
        maximum, total = self.statistics
        return {maximum.name: seen.maximum, total.name: seen.total}
