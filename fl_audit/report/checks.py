"""The mechanism checks and the canary check of a run or folder, and words for both."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.measured_canary_check import (
    RoundLengths,
    canary_check_in_rounds,
    log_canary_check,
    logged_lengths,
)
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.canaries.canary_tables import Canaries
from fl_audit.checks import check_clip_norms, check_logged_clip_norms, check_rounds, read_mechanism
from fl_audit.checks.aggregate_checks import RunAggregates, check_aggregates
from fl_audit.checks.canary_check import CanaryCheck
from fl_audit.checks.check import Check, why_not_checked
from fl_audit.checks.measured_rounds import logged_aggregates, read_variables
from fl_audit.checks.replay.trial_rounds import read_replay
from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.errors import one_line
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import CosineLog
from fl_audit.formats.text_files import read_foreign, reading
from fl_audit.mechanisms import MECHANISMS, client_lengths
from fl_audit.number_words import count, significant
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.folder import AuditedFolder
from fl_audit.report.report import Checks
from fl_audit.verdict import ScoredStatistic, separation


@dataclass(frozen=True)
class _CheckWords:
    """The page's words on one check."""

    title: str
    meaning: str  # what a correct mechanism does, in a sentence
    worst: Callable[[Check], str]  # describes the worst result


def _norm(check: Check) -> str:
    causes = (
        "; possible causes: longer updates, or rounding to steps wider than the noise"
        if check.failed
        else ""
    )
    return f"{_at('the largest plausible norm')(check)}{causes}"


def _at(words: str) -> Callable[[Check], str]:
    """A function that describes a check's worst ratio, with the ratio's variable and round."""

    def words_of(check: Check) -> str:
        noise = check.detectable_ratio
        where = "whole model" if check.variable is None else f"variable {check.variable}"
        sensitivity = "" if noise is None else f"; {_detectable(noise, 'this check')}"
        return f"{significant(check.ratio)} × {words} ({where}, {_when(check)}){sensitivity}"

    return words_of


def _when(check: Check) -> str:
    return "all rounds together" if check.round is None else f"round {check.round}"


def _detectable(noise: float, checks: str) -> str:
    """Says which deficit of noise `checks` would find, rounded up to whole percent.

    `noise` is the largest share of the configured noise with which `checks` fail in 95 % of runs.
    """
    deficit = 100 - math.floor(100 * noise)  # in percent
    if deficit == 100:
        return f"with no noise at all, {checks} would pass too"
    return f"at {deficit} % less noise than configured, {checks} would fail in 95 % of runs"


def _fresh(check: Check) -> str:
    words = _OF_NOISE(check)
    if check.earlier_round is None:
        return words
    return f"{words}; round {check.earlier_round} has the same noise, perhaps negated or reversed"


def _spread(check: Check) -> str:
    return f"{significant(check.ratio)} × the expected number of large coordinates ({_when(check)})"


def _scarcity(check: Check) -> str:
    until = "" if check.round is None else f" (up to round {check.round})"
    return f"{significant(check.ratio)} × as many such coordinates as chance allows{until}"


def _outflow(check: Check) -> str:
    if check.round is None:
        return "zero in all rounds"
    return f"not zero in round {check.round} (variable {check.variable})"


_OF_NOISE = _at("the expected norm of the noise")

_WORDS = {
    "enough_noise": _CheckWords(
        "Enough noise",
        "Each variable of an aggregate has at least the norm of the configured noise, up to "
        "chance.",
        _OF_NOISE,
    ),
    "noise_everywhere": _CheckWords(
        "Noise everywhere",
        "No more coordinates change too little for some rounds than chance allows.",
        _scarcity,
    ),
    "frozen_variables": _CheckWords(
        "Frozen variables", "A frozen variable is zero in every aggregate.", _outflow
    ),
    "fresh_noise": _CheckWords(
        "Fresh noise",
        "An aggregate’s component orthogonal to earlier ones has at least the norm of the noise: "
        "noise is neither reused nor cancelled.",
        _fresh,
    ),
    "noise_distribution": _CheckWords(
        "Noise distribution",
        "Coordinates are large as often as Gaussian noise makes them.",
        _spread,
    ),
    "bounded_length": _CheckWords(
        "Bounded norm",
        "No norm exceeds what the cohort’s clipped updates and the noise allow.",
        _norm,
    ),
    "no_echo": _CheckWords(
        "No echo",
        "In no round do coordinates repeat the noise of others, even negated or reversed.",
        lambda check: f"strongest correlation {significant(check.ratio)} (round {check.round})",
    ),
    "count_noise": _CheckWords(
        "Noise of the clip’s count",
        "The counts that set an adaptive clip norm differ from whole numbers by noise of the "
        "configured size, fresh in each round.",
        lambda check: f"{significant(check.ratio)} × the expected distance from whole numbers",
    ),
    "once_a_round": _CheckWords(
        "Once a round",
        "No canary participates twice in a round.",
        lambda check: (
            "no canary twice" if check.round is None else f"a canary twice in round {check.round}"
        ),
    ),
}


_REPLAY = "replay_"
"""Prefix of the names of a replay's checks."""


def title_of_check(name: str) -> str:
    """The title of a check for a heading; for an unknown check, the name itself."""
    if name.startswith(_REPLAY):
        return f"Replay: {name.removeprefix(_REPLAY).replace('_', ' ')}"
    return _WORDS[name].title if name in _WORDS else name


def folder_checks(folder: AuditedFolder) -> Checks | None:
    """The mechanism checks of a log or a run; None for a folder of scores alone."""
    if folder.log is not None:
        return _log_checks(folder.log)
    return None if folder.run is None else checks_of_run(folder.run)


def _log_checks(log: SeenLog) -> Checks:
    for _ in log.cosines.rows():  # reads and measures the aggregates, once
        pass
    stated = read_mechanism(log.folder)
    # What a scorer measured is in its chain; files of aggregates may have been added since.
    logged = logged_aggregates(log.folder, log.pool.dim)
    aggregates = log.cosines.measured_aggregates() if logged is None else logged
    by_lengths = None if aggregates is not None or stated is None else _by_lengths(log, stated)
    measured = aggregates or by_lengths
    results = [] if measured is None else check_aggregates(measured)
    if stated is not None:
        of_count = check_logged_clip_norms(log.folder, stated[:, 1])
        results += [] if of_count is None else [of_count]
    return Checks(
        not_checked="; ".join(_left_out(log, stated, measured, by_lengths)) or None,
        results=tuple(map(_with_meaning, results)),
    )


def _by_lengths(log: SeenLog, stated: FloatArray) -> RunAggregates | None:
    """Input for checks from norms of aggregates; None without norms or under correlated noise."""
    lengths = logged_lengths(log.folder, np.zeros(0)).of_aggregate[: len(stated)]
    if not np.isfinite(lengths).any() or log.folder.noise_correlation.exists():
        return None
    measured, dim = np.full((len(lengths), 1, 2), np.nan), log.pool.dim
    measured[:, 0, 0] = lengths**2
    variables = read_variables(log.folder, dim)
    dim -= sum(variables.sizes[number - 1] for number in variables.frozen)
    stddev, norm_bound = stated[: len(lengths)].T
    return RunAggregates([dim], stddev, norm_bound, measured)


def _left_out(
    log: SeenLog,
    stated: FloatArray | None,
    aggregates: RunAggregates | None,
    by_lengths: RunAggregates | None,
) -> Iterator[str]:
    """The reasons why some or all aggregates of a log are not checked."""
    num_rounds = log.num_rounds
    if num_missing := len(log.missing_rounds):
        yield f"{num_missing} of {count(num_rounds + num_missing, 'round')} are not in the log"
    if aggregates is None:
        is_stated = stated is not None and np.isfinite(stated[:, 0]).any()
        unknown = "the noise’s standard deviation is unknown; hand over noise_stddev"
        yield "the log has no aggregates" if is_stated else unknown
        return
    if by_lengths is not None:
        yield "the log has only the norms of aggregates; hand over the aggregates"
    if len(aggregates.stddev) < num_rounds:
        missing = num_rounds - len(aggregates.stddev)
        yield f"the noise’s standard deviation is unknown in {missing} of {num_rounds} rounds"
    if np.isnan(aggregates.norm_bound).any():
        yield "the largest norm of an aggregate is unknown; hand over norm_bound"
    if (
        stated is not None
        and _clip_norm_moves(log, stated)
        and not log.folder.adaptive_clip.exists()
    ):
        yield "the clip norm changes by an unknown rule; hand over adaptive_clip"


def _clip_norm_moves(log: SeenLog, stated: FloatArray) -> bool:
    """Whether a log's clip norm changes, as far as its stated norms show."""
    if not log.folder.round_lengths.exists():
        return False
    of_client = logged_lengths(log.folder, np.zeros(0)).of_client[: len(stated)]
    bounds = stated[: len(of_client), 1]
    known = np.isfinite(of_client) & np.isfinite(bounds)
    # A fixed clip norm divided by each round's participants gives equal norm bounds.
    parts = (of_client[known], bounds[known])
    return known.any() and all(np.ptp(part) > _SAME_NORM * part.max() for part in parts)


_SAME_NORM = 1e-3
"""Norms with at most this relative difference count as equal."""


def checks_of_run(run: FinishedRun) -> Checks:
    """Runs the mechanism checks on a run."""
    of_aggregates = [] if run.aggregates is None else check_aggregates(run.aggregates)
    checks = [*of_aggregates, *_clip_norm_checks(run), check_rounds(run.canary_rounds)]
    replayed = read_replay(run.folder.replay)
    return Checks(
        not_checked=why_not_checked(run.config.mechanism) or _not_kept(run),
        results=(*map(_with_meaning, checks), *map(_of_first_round, replayed)),
    )


def _clip_norm_checks(run: FinishedRun) -> Iterator[Check]:
    """Checks the noisy count that moves an adaptive clip norm, if the clip norms reveal it."""
    table, release = run.config.mechanism, run.record.release
    if isinstance(table, RecordedTable):
        return
    rule = MECHANISMS.kind_of(table).adaptive_clip
    if rule is None or why_not_checked(table) or not release.noise.count_noise_stddev:
        return
    if promise := rule(table, release.noise, release.denominator.expected):
        yield check_clip_norms(run.rounds.clip_norm, run.rounds.participants, promise)


def _not_kept(run: FinishedRun) -> str | None:
    """Why some aggregates under a checkable mechanism are not checked; None if all can be."""
    if run.aggregates is None:
        return None
    if np.isnan(run.aggregates.norm_bound).any() and np.isfinite(run.rounds.clip_norm).all():
        return "the largest norm of an aggregate is unknown: earlier rounds were not kept"
    return None


def _of_first_round(check: Check) -> Check:
    """A replay's check, as a check of the run's first round."""
    meaning = f"{check.meaning[0].upper()}{check.meaning[1:]}."
    return dataclasses.replace(check, name=f"{_REPLAY}{check.name}", meaning=meaning, round=1)


def _with_meaning(check: Check) -> Check:
    return dataclasses.replace(check, meaning=_WORDS[check.name].meaning)


def failed_checks(checks: Checks) -> list[str]:
    """The titles of the checks that failed."""
    return [title_of_check(check.name) for check in checks.results if check.failed]


def checks_words(checks: Checks) -> str:
    """Whether the checks passed, in a few words."""
    if failed := failed_checks(checks):
        chance = significant(checks.false_alarm, 1)
        return (
            f"FAILED: {', '.join(failed)} (the mechanism is not as configured; a correct one fails "
            f"with probability {chance} at most)"
        )
    num_checks = len(checks.results)
    num_conclusive = sum(check.was_made for check in checks.results)
    passed = f"passed, {num_conclusive} of {num_checks}" if num_conclusive else "not made"
    noise = [
        check.detectable_ratio
        for check in checks.results
        if check.detectable_ratio is not None and not check.name.startswith(_REPLAY)
    ]
    remarks = []
    if num_conclusive < num_checks:
        remarks.append(f"{num_checks - num_conclusive} could not be tested")
    if noise:
        remarks.append(_detectable(max(noise), "they"))
    if checks.not_checked is not None:
        what = "not all checked" if noise else "aggregates not checked"
        remarks.append(f"{what}: {checks.not_checked}")
    return f"{passed} ({'; '.join(remarks)})" if remarks else passed


def finding_words(check: Check) -> str:
    """A check's worst result in words, with the round and variable if known."""
    if check.measured is not None:
        return check.measured
    if check.num_tests == 0:
        return "nothing to test"
    if check.name not in _WORDS:  # a check of another version of fl_audit
        return f"ratio {significant(check.ratio)}"
    return _WORDS[check.name].worst(check)


_CLIP = "a run that clips: without a clip, a client’s update may be longer than a canary"

_CANARY_ROUNDS_AND_NORMS = (
    "every canary’s rounds (canary_rounds, or canaries.csv) and expected norm (canary_length, or "
    "round_lengths.npy)"
)


def folder_canary_check(
    folder: AuditedFolder, statistics: Sequence[ScoredStatistic]
) -> CanaryCheck:
    """The canary check of a log, a run, or a folder of scores alone.

    `statistics` are all statistics of the folder, used only if no other record shows more.
    """
    if folder.log is not None:
        canary_check = log_canary_check(folder.log) or dataclasses.replace(
            separation(statistics), lacks=_CANARY_ROUNDS_AND_NORMS
        )
        return _unless_audit_had_faults(
            folder.log.folder.faults, _unless_terms_changed(folder.log.folder, canary_check)
        )
    return scores_alone(statistics) if folder.run is None else run_canary_check(folder.run)


def _unless_audit_had_faults(path: Path, canary_check: CanaryCheck) -> CanaryCheck:
    """The canary check, made inconclusive if the audit left a file listing the audit's faults."""
    if canary_check.state != "arrived" or not path.exists():
        return canary_check
    with reading(path):
        faults = read_foreign(path).decode("utf-8", errors="replace").splitlines()
    # A link may lead to a private file.
    is_quoted = bool(faults) and not path.is_symlink()
    reason = (
        f"{canary_check.reason}; but the audit is incomplete, as {path.name} says: "
        f"{count(len(faults), 'fault')}{f', the first: {one_line(faults[0])}' if is_quoted else ''}"
    )
    return dataclasses.replace(canary_check, state="cannot_tell", reason=reason)


def _unless_terms_changed(folder: LogFolder, canary_check: CanaryCheck) -> CanaryCheck:
    """The canary check, made inconclusive if a file of `terms` changed after scoring."""
    chain = folder.checked_chain()
    if canary_check.state != "arrived" or chain is None or not chain.scored_rounds:
        return canary_check
    changed = chain.changed_terms(folder.path, folder.terms())
    if not changed:
        return canary_check
    reason = (
        f"{canary_check.reason}; but {changed[0]} has changed since canaries were scored, so "
        "that it may have been chosen by looking at the scores"
    )
    return dataclasses.replace(canary_check, state="cannot_tell", reason=reason)


CANARY_STATES = {"arrived": "passed", "not_arrived": "FAILED", "cannot_tell": "not conclusive"}
"""Words for the outcome of the canary check, by the state in JSON."""


def canary_check_words(canary_check: CanaryCheck) -> str:
    """The canary check in a few words, with any fault and any unscored included canaries."""
    words = CANARY_STATES[canary_check.state]
    if canary_check.state != "arrived":
        return f"{words}: {canary_check.reason}"
    norm = f": measured norm {canary_check.ratio or 0:.2f} × expected"
    ratio = "" if canary_check.ratio is None else norm
    fault = "" if canary_check.fault is None else f"; FAULT: {canary_check.fault}"
    return f"{words}{ratio}{_unscored(canary_check)}{fault}"


def _unscored(canary_check: CanaryCheck) -> str:
    """How many included canaries have a scored round, if some have no scored round; else empty."""
    scored, included = canary_check.num_scored, canary_check.num_included
    if scored is None or included is None or scored == included:
        return ""
    return f"; {scored:,} of {included:,} included canaries have a scored round"


def scores_alone(statistics: Sequence[ScoredStatistic]) -> CanaryCheck:
    """The canary check from scores alone, which never shows that all canaries arrived."""
    lacks = f"the folder of the run, or of a log with {_CANARY_ROUNDS_AND_NORMS}"
    return dataclasses.replace(separation(statistics), lacks=lacks)


def run_canary_check(run: FinishedRun) -> CanaryCheck:
    """The canary check of a run.

    The check uses every canary's cosine with every aggregate if cosines were logged, else only
    scores (as for canaries that hold examples).
    """
    path = run.folder.round_cosines
    if not path.exists():
        return separation([run.scored(statistic) for statistic in run.statistics])
    log = CosineLog.read(path, run.record.num_canaries)
    canaries = run.config.canaries
    canary_check = canary_check_in_rounds(
        numbered_rows(log),
        OwnRounds(run.rounds_of_canaries),
        run.included,
        lambda: run_lengths(run),
        dim=run.record.dim,
        family=canaries.family if isinstance(canaries, Canaries) else None,
        are_secret=run.record.schedule_secret is not None,
    )
    # fl_audit itself made and sent the canaries.
    lacks = _CLIP if np.isinf(run.rounds.clip_norm).any() else None
    return dataclasses.replace(canary_check, lacks=lacks)


def run_lengths(run: FinishedRun) -> RoundLengths:
    """The measured norms of a run's aggregates, and the largest norm of a client, by round."""
    if isinstance(run.config.mechanism, RecordedTable):  # a plugin's denominator is not known
        measured = _measured(run)
        return RoundLengths(measured, np.full(len(measured), math.nan))
    of_client = client_lengths(
        run.config.mechanism,
        run.record.release.denominator,
        run.rounds.clip_norm,
        run.rounds.participants,
    )
    return RoundLengths(_measured(run), of_client)


def _measured(run: FinishedRun) -> FloatArray:
    """The norms of aggregates, as measured for the checks if possible, else as in metrics.csv."""
    if run.aggregates is None or run.record.release.correlation is not None:
        return run.rounds.aggregate_norm
    return np.asarray(np.sqrt(run.aggregates.measured[:, :, 0].sum(axis=1)))
