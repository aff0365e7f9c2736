"""What became of the included canaries of a finished run, from what its folder holds."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl_audit.accounting.noise_laws import SKELLAM
from fl_audit.array_types import FloatArray
from fl_audit.attacks.arrivals import RoundLengths, arrival_in_rounds
from fl_audit.attacks.log_arrival import log_arrival
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.canaries.tables import Canaries
from fl_audit.checks import Arrival
from fl_audit.errors import InputError, one_line
from fl_audit.formats.round_logs import CosineLog
from fl_audit.mechanisms import MECHANISMS
from fl_audit.number_words import count
from fl_audit.report.audited_folder import AuditedFolder
from fl_audit.report.finished_run import FinishedRun
from fl_audit.verdict import ScoredStatistic, separation

_CLIP = "a run that clips: nothing limits what a client sends, which may be longer than a canary"

_WHO_WHEN = "the rounds of every canary (canary_rounds, or canaries.csv) and its length in each"


def folder_arrival(folder: AuditedFolder, statistics: Sequence[ScoredStatistic]) -> Arrival:
    """What became of the included canaries of a log, a run, or a folder of scores alone.

    Args:
      folder: The folder.
      statistics: All statistics of the folder, which tell what nothing else does.

    Raises:
      InputError: A file of a log is damaged.
    """
    if folder.log is not None:
        seen = log_arrival(folder.log)
        found = seen or dataclasses.replace(separation(statistics), lacks=_WHO_WHEN)
        return _with_faults(folder.log.folder.faults, found)
    try:
        return scores_alone(statistics) if folder.run is None else run_arrival(folder.run)
    except InputError:  # of a run of which only scores were kept, those alone tell
        return scores_alone(statistics)


def _with_faults(path: Path, found: Arrival) -> Arrival:
    """The arrival as it was found; not seen to be whole where the audit itself had faults."""
    if found.state != "arrived" or not path.exists():
        return found
    faults = path.read_text(encoding="utf-8", errors="replace").splitlines()
    reason = (
        f"{found.reason}; but the audit is incomplete, as {path.name} says: "
        f"{count(len(faults), 'fault')}, the first: {one_line(faults[0]) if faults else ''}"
    )
    return dataclasses.replace(found, state="cannot_tell", reason=reason)


def scores_alone(statistics: Sequence[ScoredStatistic]) -> Arrival:
    """What scores alone tell of the included canaries: never that all of them arrived.

    Args:
      statistics: The scores, at least one statistic of them.
    """
    lacks = f"the folder of the run, or of a log with {_WHO_WHEN}"
    return dataclasses.replace(separation(statistics), lacks=lacks)


def run_arrival(run: FinishedRun) -> Arrival:
    """What became of a run's included canaries.

    Where every canary's cosine with every aggregate was logged, it is told by those; else, as where
    canaries hold examples, by the scores alone.

    Raises:
      InputError: The log of cosines is damaged.
    """
    path = run.folder.round_cosines
    if not path.exists():
        return separation([run.scored(statistic) for statistic in run.statistics])
    log = CosineLog.read(path, run.record.num_canaries)
    canaries = run.config.canaries
    arrival = arrival_in_rounds(
        numbered_rows(log),
        OwnRounds(run.rounds_of_canaries),
        run.included,
        lambda: _lengths(run),
        dim=run.record.dim,
        family=canaries.family if isinstance(canaries, Canaries) else None,
    )
    if np.isinf(run.rounds.clip_norm).any():
        return dataclasses.replace(arrival, lacks=_CLIP)
    return dataclasses.replace(arrival, lacks=None)  # the program itself made and sent them


def _lengths(run: FinishedRun) -> RoundLengths:
    """The lengths of a run's rounds: as measured, and as clip norm and denominator allow a client.

    Where nothing clips, a client's length has no limit, and that of canaries stands in for it.
    """
    kind = MECHANISMS.of(run.config.mechanism)
    fixed = kind.canary_norm(run.config.mechanism) or math.nan
    clip_norm = np.where(np.isinf(run.rounds.clip_norm), fixed, run.rounds.clip_norm)
    # Distributed noise is on a mean over those who took part, other noise on one over the expected.
    takes_actual = kind.noise_law is SKELLAM
    denominator = np.maximum(run.rounds.participants, 1) if takes_actual else run.record.denominator
    return RoundLengths(_measured(run), clip_norm / denominator)


def _measured(run: FinishedRun) -> FloatArray:
    """The lengths of aggregates as logged; NaN where they were not."""
    if run.aggregates is None:
        return run.rounds.aggregate_norm
    return np.asarray(np.sqrt(run.aggregates.measured[:, :, 0].sum(axis=1)))
