"""Input of the canary check: canaries' cosines with the aggregates of their own rounds.

`canary_check_in_rounds` gathers these cosines from a run, `log_canary_check` from a log, and
`checks.canary_check` decides. docs/canary_check.md describes the check.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.own_rounds import NumberedRow, OwnRounds
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.checks import CanaryCheck, CanaryParticipations, check_canaries
from fl_audit.checks.canary_check import CANARY_CHECK_FALSE_ALARM
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import LengthLog

_SHIFTS = (-1, 1)
"""Offsets from a canary's own round that are examined, to name a likely fault."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class RoundLengths:
    """Norms by round, from 0: of the aggregate, and of a client in the aggregate; NaN if not known.

    A client's norm is the largest that the mechanism allows: clip norm over denominator.
    """

    of_aggregate: FloatArray
    of_client: FloatArray

    def at(self, rounds: IntArray) -> tuple[FloatArray, FloatArray]:
        """The norms of aggregates and of clients in some rounds; NaN in rounds beyond the last."""
        known = rounds < len(self.of_aggregate)
        of_aggregate, of_client = np.full((2, len(rounds)), np.nan)
        of_aggregate[known] = self.of_aggregate[rounds[known]]
        of_client[known] = self.of_client[rounds[known]]
        return of_aggregate, of_client


_Participations = list[tuple[int, IntArray, FloatArray]]
"""Rounds, from 0, each with canaries and these canaries' cosines with the round's aggregate."""


def canary_check_in_rounds(
    rows: Iterable[NumberedRow],
    own: OwnRounds,
    included: npt.NDArray[np.bool_],
    lengths: Callable[[], RoundLengths],
    *,
    dim: int,
    family: str | None,
    are_secret: bool = False,
    false_alarm: float = CANARY_CHECK_FALSE_ALARM,
) -> CanaryCheck:
    """Checks a pool's included canaries by their cosines with the aggregates of their rounds.

    `lengths` is called after the rows are read. A correct mechanism fails with probability at most
    `false_alarm`. For a family without a known null, nothing is assumed about tails. The norms of a
    check of secret rounds (`are_secret`) do not reveal them.
    """
    collected, scored = _collect(rows, own, included)
    norms = lengths()
    first = np.array([own_rounds.min(initial=_NEVER) for own_rounds in own.of_canary], np.int64)
    crowd = {index: int(included[members].sum()) for index, members in own.members().items()}

    def participations(is_included: bool, shift: int) -> CanaryParticipations:
        """The participations collected in rounds that come `shift` after the canaries' own."""
        parts = collected[is_included, shift]
        counts, indices = [len(part[1]) for part in parts], [part[0] for part in parts]
        rounds = np.repeat(np.array(indices, np.int64), counts)
        canaries = np.concatenate([np.zeros(0, np.int64), *(part[1] for part in parts)])
        others = np.array([crowd.get(index, 0) for index in indices], np.float64)
        of_aggregate, of_client = norms.at(rounds)
        return CanaryParticipations(
            canaries=canaries,
            rounds=rounds,
            cosines=np.concatenate([np.zeros(0), *(part[2] for part in parts)]),
            aggregate_lengths=of_aggregate,
            client_lengths=of_client,
            others=np.maximum(np.repeat(others, counts) - 1, 0),
            is_first=first[canaries] == rounds - shift,
            dim=dim,
            knows_tails=family in WITH_KNOWN_NULL,
            are_secret=are_secret,
        )

    canary_check = check_canaries(
        participations(True, 0),
        participations(False, 0),
        {shift: participations(True, shift) for shift in _SHIFTS},
        false_alarm,
    )
    return _with_unscored_rounds(canary_check, own, included, scored)


def _with_unscored_rounds(
    canary_check: CanaryCheck, own: OwnRounds, included: npt.NDArray[np.bool_], scored: IntArray
) -> CanaryCheck:
    """The check, with a signal that is reduced for unscored rounds.

    The signal of a sum over a share of a canary's rounds is the full one times that share's root.
    """
    canaries = np.flatnonzero(included)
    rounds = [own.of_canary[canary] for canary in canaries]
    counts = np.array([len(of_canary) for of_canary in rounds], np.int64)
    is_scored = np.isin(np.concatenate([np.zeros(0, np.int64), *rounds]), scored)
    owners = np.repeat(np.arange(len(canaries)), counts)
    parts = np.bincount(owners, is_scored, len(canaries)) / np.maximum(counts, 1)
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
) -> tuple[Mapping[tuple[bool, int], _Participations], IntArray]:
    """Participations by inclusion and by shift from a canary's own round; and the scored rounds."""
    collected: dict[tuple[bool, int], _Participations] = {
        key: [] for key in ((False, 0), *((True, shift) for shift in (0, *_SHIFTS)))
    }
    members_of = own.members()
    scored: list[int] = []
    for index, row in rows:
        scored.append(index)
        for (is_in, shift), presences in collected.items():
            members = members_of[index - shift]
            if shift:
                members = np.setdiff1d(members, members_of[index])
            canaries = members[included[members] == is_in]
            presences.append((index, canaries, row[canaries].astype(np.float64)))
    return collected, np.array(scored, np.int64)


def log_canary_check(log: SeenLog) -> CanaryCheck | None:
    """The canary check of a log; None if the log has no rounds, or states no rounds of canaries."""
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
    """The norms that a folder states; an aggregate's norm is the `measured` one, if known."""
    if not folder.round_lengths.exists():
        return RoundLengths(measured, np.full(len(measured), np.nan))
    stated = LengthLog.opened("r", folder.round_lengths, "rounds").values()
    rounds = np.arange(max(len(stated), len(measured)))
    of_aggregate, of_client = RoundLengths(*stated.T).at(rounds)
    known = np.flatnonzero(np.isfinite(measured))
    of_aggregate[known] = measured[known]
    return RoundLengths(of_aggregate, of_client)
