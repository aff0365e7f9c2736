"""The presentations of a pool's canaries, read from the cosines of their rounds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.attacks.own_rounds import NumberedRow, OwnRounds
from fl_audit.mechanism_checks import Arrival, Presentations, canary_arrival, presentations

_SHIFTS = (-1, 1)
"""Rounds beside a canary's own that are looked at, for a word on what is wrong."""


@dataclass(frozen=True, eq=False)
class RoundLengths:
    """The lengths of rounds' aggregates and of the canaries in them.

    Attributes:
      of_aggregate: The length of each round's aggregate, float64 of shape (rounds,); NaN where it
        is not known.
      of_canary: The length that the mechanism promises of a canary in it: clip norm over
        denominator. The shape is the same; NaN where it is not known.
    """

    of_aggregate: FloatArray
    of_canary: FloatArray

    def at(self, rounds: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Both lengths in some rounds, which count from 0; NaN in rounds beyond the last."""
        known = rounds < len(self.of_aggregate)
        index = np.where(known, rounds, 0)
        if not known.any():
            return np.full(len(rounds), np.nan), np.full(len(rounds), np.nan)
        return (
            np.where(known, self.of_aggregate[index], np.nan),
            np.where(known, self.of_canary[index], np.nan),
        )


@dataclass(eq=False)
class _Collected:
    """The canaries, rounds and cosines of presentations, gathered round by round."""

    canaries: list[IndexArray] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    cosines: list[FloatArray] = field(default_factory=list)

    def add(self, canaries: IndexArray, index: int, row: npt.NDArray[np.float32]) -> None:
        """Adds some canaries' cosines with the aggregate of a round."""
        self.canaries.append(canaries)
        self.rounds.append(index)
        self.cosines.append(row[canaries].astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Rounds:
    """What is known of rounds, beside cosines.

    Attributes:
      lengths: The lengths of aggregates and canaries.
      first: The first round of each canary, from 0.
      crowd: The number of included canaries by round.
      dim: The length of the vectors.
    """

    lengths: RoundLengths
    first: IndexArray
    crowd: Mapping[int, int]
    dim: int

    def presentations(self, found: _Collected, shift: int) -> Presentations:
        """The collected presentations, which are so many rounds after the canaries' own."""
        counts = [len(canaries) for canaries in found.canaries]
        rounds = np.repeat(np.array(found.rounds, np.int64), counts)
        canaries = np.concatenate([np.zeros(0, np.int64), *found.canaries])
        of_aggregate, of_canary = self.lengths.at(rounds)
        per_round = np.array([self.crowd.get(index, 0) for index in found.rounds], np.float64)
        return presentations(
            cosines=np.concatenate([np.zeros(0), *found.cosines]),
            aggregate_lengths=of_aggregate,
            canary_lengths=of_canary,
            num_canaries=np.repeat(per_round, counts),
            is_first=self.first[canaries] == rounds - shift,
            dim=self.dim,
        )


def arrival_in_rounds(
    rows: Iterable[NumberedRow],
    own: OwnRounds,
    included: npt.NDArray[np.bool_],
    lengths: Callable[[], RoundLengths],
    dim: int,
) -> Arrival:
    """What became of a pool's included canaries, by their cosines with their rounds' aggregates.

    Args:
      rows: The cosines of all canaries with each round that was scored, in order.
      own: The rounds of every canary, included or not.
      included: Whether each canary was included, bool of shape (num_canaries,).
      lengths: A function that gives the lengths of rounds once the rows are read.
      dim: The length of the vectors.
    """
    collected = _collect(rows, own, included)
    rounds = _Rounds(lengths(), _first_rounds(own), _included_per_round(own, included), dim)
    made = {key: rounds.presentations(one, key[1]) for key, one in collected.items()}
    return canary_arrival(
        made[True, 0], made[False, 0], {shift: made[True, shift] for shift in _SHIFTS}
    )


def _collect(
    rows: Iterable[NumberedRow], own: OwnRounds, included: npt.NDArray[np.bool_]
) -> Mapping[tuple[bool, int], _Collected]:
    """The presentations by inclusion and by the shift from a canary's own round."""
    collected = {(True, shift): _Collected() for shift in (0, *_SHIFTS)}
    collected[False, 0] = _Collected()
    members_of, nobody = own.members(), np.zeros(0, np.int64)
    for index, row in rows:
        for (is_in, shift), found in collected.items():
            members = members_of.get(index - shift, nobody)
            if shift:
                members = np.setdiff1d(members, members_of.get(index, nobody))
            found.add(members[included[members] == is_in], index, row)
    return collected


def _first_rounds(own: OwnRounds) -> IndexArray:
    """The first round of each canary, from 0; -1 for one without a round."""
    firsts = [int(rounds.min()) if len(rounds) else -1 for rounds in own.of_canary]
    return np.array(firsts, dtype=np.int64)


def _included_per_round(own: OwnRounds, included: npt.NDArray[np.bool_]) -> Mapping[int, int]:
    return {index: int(included[members].sum()) for index, members in own.members().items()}
