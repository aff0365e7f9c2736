"""What the canary check looks at: canaries' cosines with the aggregates of their own rounds.

Of a run they are gathered by `canary_check_in_rounds`, of a log by `log_canary_check`; what follows from them
is decided by `checks.canary_check`. docs/canary_check.md describes the check.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.own_rounds import NumberedRow, OwnRounds
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.checks import CanaryCheck, CanaryParticipations, check_canaries
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import open_log

_SHIFTS = (-1, 1)
"""Rounds beside a canary's own that are looked at, for a word on what is wrong."""


@dataclass(frozen=True, eq=False)
class RoundLengths:
    """The lengths of rounds' aggregates and of a client in them.

    Attributes:
      of_aggregate: The length of each round's aggregate, float64 of shape (rounds,); NaN where it
        is not known.
      of_client: The length that the mechanism allows a client in it: clip norm over denominator.
        The shape is the same; NaN where it is not known.
    """

    of_aggregate: FloatArray
    of_client: FloatArray

    def at(self, rounds: IndexArray) -> tuple[FloatArray, FloatArray]:
        """The lengths of aggregates and of clients in some rounds; NaN in rounds beyond the last.

        Args:
          rounds: The rounds, from 0, int64 of shape (n,).

        Returns:
          Both lengths, each float64 of shape (n,).
        """
        known = rounds < len(self.of_aggregate)
        index = np.where(known, rounds, 0)
        if not known.any():
            return np.full(len(rounds), np.nan), np.full(len(rounds), np.nan)
        return (
            np.where(known, self.of_aggregate[index], np.nan),
            np.where(known, self.of_client[index], np.nan),
        )


@dataclass(eq=False)
class _Collected:
    """The canaries, rounds and cosines of participations, gathered round by round."""

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
      lengths: The lengths of aggregates and of a client in them.
      first: The first round of each canary, from 0.
      crowd: The number of included canaries by round.
      dim: The length of the vectors.
      knows_tails: Whether a canary's inner product with any vector is sub-Gaussian.
    """

    lengths: RoundLengths
    first: IndexArray
    crowd: Mapping[int, int]
    dim: int
    knows_tails: bool

    def participations(self, collected: _Collected, shift: int) -> CanaryParticipations:
        """The collected participations, which are so many rounds after the canaries' own."""
        counts = [len(canaries) for canaries in collected.canaries]
        rounds = np.repeat(np.array(collected.rounds, np.int64), counts)
        canaries = np.concatenate([np.zeros(0, np.int64), *collected.canaries])
        of_aggregate, of_client = self.lengths.at(rounds)
        crowd = np.array([self.crowd.get(index, 0) for index in collected.rounds], np.float64)
        return CanaryParticipations(
            canaries=canaries,
            rounds=rounds,
            cosines=np.concatenate([np.zeros(0), *collected.cosines]),
            aggregate_lengths=of_aggregate,
            client_lengths=of_client,
            others=np.maximum(np.repeat(crowd, counts) - 1, 0),
            is_first=self.first[canaries] == rounds - shift,
            dim=self.dim,
            knows_tails=self.knows_tails,
        )


def canary_check_in_rounds(
    rows: Iterable[NumberedRow],
    own: OwnRounds,
    included: npt.NDArray[np.bool_],
    lengths: Callable[[], RoundLengths],
    *,
    dim: int,
    family: str | None,
) -> CanaryCheck:
    """What became of a pool's included canaries, by their cosines with their rounds' aggregates.

    Args:
      rows: The cosines of all canaries with each round that was scored, in order.
      own: The rounds of every canary, included or not.
      included: Whether each canary was included, bool of shape (num_canaries,).
      lengths: A function that gives the lengths of rounds once the rows are read.
      dim: The length of the vectors.
      family: The canaries' family; inner products of one without a known null have any tails.
    """
    collected, scored = _collect(rows, own, included)
    rounds = _Rounds(
        lengths=lengths(),
        first=_first_rounds(own),
        crowd=_included_per_round(own, included),
        dim=dim,
        knows_tails=family in (None, *WITH_KNOWN_NULL),
    )
    participations = {key: rounds.participations(part, key[1]) for key, part in collected.items()}
    canary_check = check_canaries(
        participations[True, 0],
        participations[False, 0],
        {shift: participations[True, shift] for shift in _SHIFTS},
    )
    return _with_unscored_rounds(canary_check, own, included, scored)


def _with_unscored_rounds(
    canary_check: CanaryCheck, own: OwnRounds, included: npt.NDArray[np.bool_], scored: IndexArray
) -> CanaryCheck:
    """What became of all included canaries, of whose rounds some may not be scored.

    A sum over a part of a canary's rounds has the signal of all times the root of that part.
    """
    canaries = np.flatnonzero(included)
    rounds = [own.of_canary[canary] for canary in canaries]
    parts = np.array(
        [
            np.isin(canary_rounds, scored).mean() if len(canary_rounds) else 0.0
            for canary_rounds in rounds
        ]
    )
    of_scored = parts[parts > 0]
    canary_check = dataclasses.replace(
        canary_check, num_scored=len(of_scored), num_included=len(canaries)
    )
    if len(of_scored) == 0 or (parts == 1).all():
        return canary_check
    words = f"{len(of_scored):,} of {len(canaries):,} included canaries have a scored round"
    if of_scored.mean() < 1:
        words = f"{words}, on average {100 * of_scored.mean():.3g} % of their rounds"
    scored_part = float(np.sqrt(of_scored).mean())
    return dataclasses.replace(
        canary_check,
        reason=f"{canary_check.reason}; {words}",
        signal=None if canary_check.signal is None else canary_check.signal * scored_part,
    )


def _collect(
    rows: Iterable[NumberedRow], own: OwnRounds, included: npt.NDArray[np.bool_]
) -> tuple[Mapping[tuple[bool, int], _Collected], IndexArray]:
    """The participations by inclusion and by the shift from a canary's own round; the rounds."""
    collected = {(True, shift): _Collected() for shift in (0, *_SHIFTS)}
    collected[False, 0] = _Collected()
    members_of, nobody = own.members(), np.zeros(0, np.int64)
    scored: list[int] = []
    for index, row in rows:
        scored.append(index)
        for (is_in, shift), presences in collected.items():
            members = members_of.get(index - shift, nobody)
            if shift:
                members = np.setdiff1d(members, members_of.get(index, nobody))
            presences.add(members[included[members] == is_in], index, row)
    return collected, np.array(scored, np.int64)


def _first_rounds(own: OwnRounds) -> IndexArray:
    """The first round of each canary, from 0; -1 for one without a round."""
    firsts = [int(rounds.min()) if len(rounds) else -1 for rounds in own.of_canary]
    return np.array(firsts, dtype=np.int64)


def _included_per_round(own: OwnRounds, included: npt.NDArray[np.bool_]) -> Mapping[int, int]:
    return {index: int(included[members].sum()) for index, members in own.members().items()}


def log_canary_check(log: SeenLog) -> CanaryCheck | None:
    """What became of a log's included canaries; None where it does not say who was in which round.

    Args:
      log: The log.

    Raises:
      InputError: A file is damaged.
    """
    own = log.listed.own_rounds
    if own is None or log.num_rounds == 0:
        return None
    rounds = log.cosines
    return canary_check_in_rounds(
        rounds.numbered_rows(),
        own,
        log.listed.included,
        lambda: logged_lengths(log.folder, rounds.measured_lengths()),
        dim=log.pool.dim,
        family=log.pool.family,
    )


def logged_lengths(folder: LogFolder, measured: FloatArray) -> RoundLengths:
    """The lengths that the folder tells; those of aggregates as measured, where they were."""
    if not folder.round_lengths.exists():
        return RoundLengths(measured, np.full(len(measured), np.nan))
    stated = np.array(open_log(folder.round_lengths, "r", np.float64, ("rounds", 2), "lengths"))
    num_rounds = max(len(stated), len(measured))
    of_aggregate, of_client = np.full((2, num_rounds), np.nan)
    of_aggregate[: len(stated)], of_client[: len(stated)] = stated.T
    known = np.flatnonzero(np.isfinite(measured))
    of_aggregate[known] = measured[known]
    return RoundLengths(of_aggregate, of_client)
