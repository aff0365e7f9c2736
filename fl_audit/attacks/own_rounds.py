"""The rounds of canaries, and the sums of each canary's scores in its own rounds."""

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import FloatArray, IntArray

NumberedRow = tuple[int, npt.NDArray[np.float32]]
"""A round, counted from 0, and a score of every canary, float32 of shape (num_canaries,)."""


@dataclass(frozen=True, eq=False)
class OwnRounds:
    """The rounds of every canary, from 0; an excluded canary's as if it were included.

    `arms` has the name of each canary's arm; it is empty without arms.
    """

    of_canary: tuple[IntArray, ...]
    arms: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """The largest number of rounds of a canary; 0 for an empty pool."""
        return max(map(len, self.of_canary), default=0)

    @functools.cached_property
    def participations(self) -> tuple[IntArray, IntArray]:
        """The canary and the round of each participation, int64 of shape (participations,)."""
        counts = [len(rounds) for rounds in self.of_canary]
        canaries = np.repeat(np.arange(len(counts)), counts)
        return canaries, np.concatenate([np.zeros(0, np.int64), *self.of_canary])

    def among(self, rounds: IntArray) -> tuple[IntArray, IntArray]:
        """The canary of each participation in one of `rounds`, and that round's index in `rounds`.

        `rounds` ascend. Participations are sorted by canary, and then as in `of_canary`.
        """
        canaries, own = self.participations
        at = np.searchsorted(rounds, own)
        is_among = np.isin(own, rounds)
        return canaries[is_among], at[is_among]

    def members(self) -> defaultdict[int, IntArray]:
        """The canaries of each round, by round from 0; empty for rounds that are not a key."""
        canaries, rounds = self.participations
        order = np.argsort(rounds, kind="stable")
        present, starts = np.unique(rounds[order], return_index=True)
        groups = np.split(canaries[order], starts)[1:]
        of_rounds = zip(present.tolist(), groups, strict=True)
        return defaultdict(lambda: np.zeros(0, np.int64), of_rounds)


@dataclass(frozen=True, eq=False)
class RoundWeights:
    """The weights of canaries' cosines by round.

    Canaries that are present in the same scored rounds form a set and share their weights.

    Attributes:
      of_set: The weights of each set, float64 of shape (sets, scored rounds).
      set_of: The set of each canary, int64 of shape (num_canaries,).
    """

    of_set: FloatArray
    set_of: IntArray

    @classmethod
    def from_presences(cls, own: OwnRounds, rounds: IntArray) -> "RoundWeights":
        """Weight 1 in a canary's scored rounds or, if it has none, in the first scored round."""
        participates = np.zeros((len(own.of_canary), len(rounds)), bool)
        participates[own.among(rounds)] = True
        participates[~participates.any(axis=1), 0] = True
        sets, set_of = np.unique(participates, axis=0, return_inverse=True)
        return cls(sets.astype(np.float64), set_of.reshape(-1))

    def whitened(
        self, correlation: Correlation, rounds: IntArray, lengths: FloatArray
    ) -> "RoundWeights":
        """The weights of aggregates' directions under noise that is correlated over rounds.

        `self` has the presences, as weights 1 and 0; `lengths` are the aggregates' norms, above 0.
        Generalised least squares weighs the aggregates by the inverse of the noise's covariance
        over rounds, times the presences. A direction is an aggregate over its norm, so the weight
        of a direction is the aggregate's weight times the norm. Norms affect power, not validity.
        """
        until = int(rounds[-1]) + 1
        presences = np.zeros((len(self.of_set), until))
        presences[:, rounds] = self.of_set
        weights = correlation.until(until).weights(presences)[:, rounds] * lengths
        return RoundWeights(weights / np.abs(weights).max(axis=1, keepdims=True), self.set_of)

    def totals(self, rows: Iterable[NumberedRow]) -> FloatArray:
        """The weighted sums of canaries' scores in the scored rounds, of shape (num_canaries,)."""
        total = np.zeros(len(self.set_of))
        for weights, (_, row) in zip(self.of_set.T, rows, strict=True):
            total += weights[self.set_of] * row
        return total


@dataclass(frozen=True, eq=False)
class SumsInOwnRounds:
    """Every canary's scores in its own rounds, added up.

    If none of a canary's rounds was scored, the canary's score in the first scored round is taken.
    Any round would do: an excluded canary's vector is independent of the aggregate, so the score
    has the null distribution.

    Attributes:
      totals: The sums, float64 of shape (num_canaries,); zeros if no round was scored.
      counts: The number of scores in each sum, at least 1, float64 of shape (num_canaries,).
      rounds: The scored rounds, counted from 0, in order.
    """

    totals: FloatArray
    counts: FloatArray
    rounds: IntArray

    def over_roots(self) -> FloatArray:
        return np.asarray(self.totals / np.sqrt(self.counts))


def sums_in_own_rounds(rows: Iterable[NumberedRow], own: OwnRounds) -> SumsInOwnRounds:
    num_canaries = len(own.of_canary)
    totals, counts = np.zeros(num_canaries), np.zeros(num_canaries)
    members_of = own.members()
    first: FloatArray | None = None
    scored: list[int] = []
    for index, row in rows:
        scored.append(index)
        first = row.astype(np.float64) if first is None else first
        members = members_of[index]
        totals[members] += row[members]
        counts[members] += 1
    stand_in = np.zeros(num_canaries) if first is None else first
    return SumsInOwnRounds(
        totals=np.where(counts > 0, totals, stand_in),
        counts=np.maximum(counts, 1),
        rounds=np.array(scored, np.int64),
    )
