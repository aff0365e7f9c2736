"""Scores of canaries in their own rounds: those in which they take part if included."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IndexArray

NumberedRow = tuple[int, npt.NDArray[np.float32]]
"""A round, counted from 0, and a score of every canary, float32 of shape (num_canaries,)."""


@dataclass(frozen=True, eq=False)
class OwnRounds:
    """The rounds of every canary of a pool; an excluded one's are those it would have had.

    Attributes:
      of_canary: The rounds of each canary, counted from 0, each int64 of shape (rounds,).
    """

    of_canary: tuple[IndexArray, ...]

    @property
    def most(self) -> int:
        """The largest number of rounds of a canary; 0 for an empty pool."""
        return max(map(len, self.of_canary), default=0)

    def members(self) -> dict[int, IndexArray]:
        """The canaries of each round that has any, by the round's index from 0."""
        counts = [len(rounds) for rounds in self.of_canary]
        canaries = np.repeat(np.arange(len(counts)), counts)
        rounds = np.concatenate([np.zeros(0, np.int64), *self.of_canary])
        order = np.argsort(rounds, kind="stable")
        found, starts = np.unique(rounds[order], return_index=True)
        return dict(zip(found.tolist(), np.split(canaries[order], starts[1:]), strict=True))


@dataclass(frozen=True, eq=False)
class SumsInOwnRounds:
    """Every canary's scores in its own rounds, added up.

    A canary none of whose rounds was scored has its score in the first round that was. Any round
    would do: an excluded canary's vector does not depend on it, so the score has the null law.

    Attributes:
      totals: The sums, float64 of shape (num_canaries,); zeros where no round was scored.
      counts: The number of scores in each, at least 1, float64 of shape (num_canaries,).
      rounds: The rounds that were scored, counted from 0, in order, int64 of shape (rounds,).
    """

    totals: FloatArray
    counts: FloatArray
    rounds: IndexArray

    def over_roots(self) -> FloatArray:
        """The sums, each divided by the root of its number of scores."""
        return np.asarray(self.totals / np.sqrt(self.counts))


def sums_in_own_rounds(rows: Iterable[NumberedRow], own: OwnRounds) -> SumsInOwnRounds:
    """Adds up every canary's scores in its own rounds.

    Args:
      rows: The scores of all canaries in each round that was scored, in order.
      own: The rounds of the pool.
    """
    num_canaries = len(own.of_canary)
    totals, counts = np.zeros(num_canaries), np.zeros(num_canaries)
    members_of, nobody = own.members(), np.zeros(0, np.int64)
    first: FloatArray | None = None
    scored: list[int] = []
    for index, row in rows:
        scored.append(index)
        first = row.astype(np.float64) if first is None else first
        members = members_of.get(index, nobody)
        totals[members] += row[members]
        counts[members] += 1
    stand_in = np.zeros(num_canaries) if first is None else first
    return SumsInOwnRounds(
        totals=np.where(counts > 0, totals, stand_in),
        counts=np.maximum(counts, 1),
        rounds=np.array(scored, np.int64),
    )
