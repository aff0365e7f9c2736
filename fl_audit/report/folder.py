"""A folder of scores, a log or a run: its parts, each read once, and its statistics."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.accounting.attacker_bounds import upload_shift
from fl_audit.attacks.compared_vectors import ComparedVectors, read_compared_vectors
from fl_audit.attacks.log_release import stated_uploads
from fl_audit.attacks.log_scores import score_log, statistics_of_logs
from fl_audit.attacks.logs import Progress, SeenLog, read_log
from fl_audit.attacks.statistics import RunFacts
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.canaries.canary_tables import family_of
from fl_audit.canaries.pool import read_pool
from fl_audit.config import Config
from fl_audit.config.file import load_recorded
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError, nearest
from fl_audit.estimators.null import Null, NullKind, NullSource
from fl_audit.estimators.scores import Inclusion
from fl_audit.formats.folders import LogFolder, RunFolder, ScoredFolder
from fl_audit.formats.participation_files import CanaryRow, check_scored, read_canaries
from fl_audit.formats.run_record import RunRecord, read_record
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.report.arms import ReportedArms, allowed_of_run, arms_of_log, unlike_canaries
from fl_audit.report.finished_run import (
    FinishedRun,
    check_together,
    read_finished_run,
    without_rounds,
)
from fl_audit.verdict import ScoredStatistic


@dataclass(frozen=True, eq=False)
class AuditedFolder:
    """A folder of scores, a log or a run."""

    path: Path  # the folder of a log (docs/logs.md), of a run of `fl-audit run`, or of scores alone
    progress: Progress = iter  # wraps the iteration over files of aggregates

    @functools.cached_property
    def log(self) -> SeenLog | None:
        """The log, if the folder holds one."""
        folder = LogFolder(self.path)
        return read_log(folder, self.progress) if folder.pool.exists() else None

    @functools.cached_property
    def run(self) -> FinishedRun | None:
        """The finished run; None for a log, for scores alone, or if only a run's scores remain."""
        folder = RunFolder(self.path)
        if self.log is not None or not folder.record.exists():
            return None
        try:
            return read_finished_run(folder)
        except InputError:
            return None

    @functools.cached_property
    def record(self) -> RunRecord | None:
        """The record of a run, if the folder holds one."""
        folder = RunFolder(self.path)
        return read_record(folder) if folder.record.exists() else None

    @functools.cached_property
    def config(self) -> Config | None:
        """The config of a run, if the folder holds one."""
        path = RunFolder(self.path).config
        return load_recorded(path) if path.exists() else None

    @property
    def audit(self) -> Audit:
        """The config's table [audit]; the default one without a config."""
        return Audit() if self.config is None else self.config.audit

    @property
    def delta(self) -> float | None:
        """The delta of a run's record, else of its config; None without either, or if not set."""
        return self.audit.delta if self.record is None else self.record.delta

    @property
    def is_stopped(self) -> bool:
        """Whether the folder holds a run that its scores stopped."""
        return self.record is not None and self.record.stopped_after is not None

    @property
    def family(self) -> str | None:
        """The family of the canaries, if known."""
        if self.log is not None:
            return self.log.pool.family
        return None if self.config is None else family_of(self.config.canaries)

    @property
    def num_rounds(self) -> int | None:
        """The number of scored rounds, if known."""
        if self.log is not None:
            return self.log.num_rounds or None
        return None if self.record is None else self.record.rounds_done

    @functools.cached_property
    def canaries(self) -> Mapping[str, CanaryRow]:
        """The rows of canaries.csv by `canary_id`; empty without the file."""
        path = ScoredFolder(self.path).canaries
        return read_canaries(path) if path.exists() else {}

    @functools.cached_property
    def scored(self) -> "_Scores":
        """The scores, from files that fit the log, or recomputed from it."""
        return _scores_of(self)


def check_holds_scores(path: Path) -> None:
    """Raises InputError unless the folder holds a log or scores."""
    if not (LogFolder(path).pool.exists() or _score_files(path)):
        raise _nothing_scored(path)


def _nothing_scored(path: Path) -> InputError:
    pool = LogFolder(path).pool.name
    return InputError(f"{path}: holds neither {pool} (a log) nor scores_STATISTIC.csv")


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores by statistic, with facts (None if unknown) on which null distributions depend."""

    scores: Mapping[str, ScoreFile]
    compared: Mapping[str, ComparedVectors]
    dim: int | None
    family: str | None


def folder_statistics(
    folder: AuditedFolder,
    dim: int | None = None,
    null: NullKind | None = None,
    family: str | None = None,
) -> list[ScoredStatistic]:
    """Reads a folder's score files, or scores its log; options of None take the folder's values."""
    path = folder.path
    scored = folder.scored
    for option, given, recorded in (
        ("--dim", dim, scored.dim),
        ("--canaries", family, scored.family),
    ):
        if given is not None and recorded is not None and given != recorded:
            raise InputError(
                f"{option}: must be {recorded}, as {path} says, or left out; got {given}"
            )
    facts = _facts(folder, scored, dim, family)
    source: NullSource = "argument" if scored.dim is None else "design"
    order = tuple(STATISTICS)
    return [
        _scored(name, scored.scores[name], facts, null, source)
        for name in sorted(scored.scores, key=lambda name: ([*order, name].index(name), name))
    ]


def _facts(
    folder: AuditedFolder, scored: _Scores, dim: int | None = None, family: str | None = None
) -> RunFacts:
    """The facts on which null distributions depend; `dim` and `family` if the folder lacks them."""
    return RunFacts(
        folder.audit,
        scored.dim or dim,
        scored.family or family,
        scored.compared,
        _upload_shift(folder),
    )


def _upload_shift(folder: AuditedFolder) -> float | None:
    """How far a canary shifts scores of uploads, from the run's record or the log's statement."""
    release = None if folder.record is None else folder.record.release
    if folder.log is not None:
        release = stated_uploads(folder.log)
    if release is None:
        return None
    return upload_shift(release.noise, release.canary.sampling.most_drawn)


def folder_arms(folder: AuditedFolder, delta: float, confidence: float) -> ReportedArms | None:
    """The arms of a folder's canaries; None without two arms that can be compared.

    None also for a stopped run: canaries were assigned to rounds that never ran.
    """
    if folder.is_stopped or not any(row.arm for row in folder.canaries.values()):
        return None
    facts, release, run = _facts(folder, folder.scored), None, folder.run
    if run is not None and run.config.dropouts is None:
        release = run.record.release
    scores = folder.scored.scores
    found = arms_of_log(folder.canaries, scores, facts, release, (delta, confidence))
    if run is None or found is None:
        return found
    return dataclasses.replace(found, allowed=allowed_of_run(run, found))


def folder_unlike(folder: AuditedFolder) -> str | None:
    """How the included canaries of a folder differ (`unlike_canaries`)."""
    included = [row for row in folder.canaries.values() if row.included]
    rounds = [row.rounds for row in included if row.rounds is not None]
    if folder.record is not None:
        done = folder.record.rounds_done
        rounds = [own[own < done] for own in rounds]
    return unlike_canaries([row.arm for row in included], rounds)


def check_statistic(path: Path, name: str | None) -> None:
    """Refuses, before a log is scored, a statistic that neither its files nor its log can give."""
    if name is not None:
        is_log = LogFolder(path).pool.exists()
        of_log = statistics_of_logs() if is_log else ()
        _check_known(name, {*_score_files(path), *(s.name for s in of_log)}, path)


def _check_known(name: str, known: Collection[str], path: Path) -> None:
    if name not in known:
        raise InputError(f"--statistic: {path} has no {name!r}; {nearest(name, known)}")


def chosen_statistic(
    path: Path, statistics: Sequence[ScoredStatistic], name: str | None
) -> list[ScoredStatistic]:
    """The requested statistic of a folder; all if `name` is None."""
    if name is None:
        return [*statistics]
    _check_known(name, [str(statistic.name) for statistic in statistics], path)
    return [statistic for statistic in statistics if statistic.name == name]


def _scored(
    name: str, scores: ScoreFile, facts: RunFacts, kind: NullKind | None, source: NullSource
) -> ScoredStatistic:
    null = dataclasses.replace(_null(name, facts, kind), source=source)
    return ScoredStatistic(name, scores.canary_scores(), null)


def _null(name: str, facts: RunFacts, kind: NullKind | None) -> Null:
    """The requested null distribution, else the statistic's; empirical for unknown statistics."""
    statistic = STATISTICS.get(name)
    if kind == "closed_form" and (
        statistic is None or statistic.null_of(facts).kind == "empirical"
    ):
        raise InputError(
            f"--null: the distribution of an excluded canary's {name} has no closed form; "
            "leave out --null to use what is known of each statistic"
        )
    if statistic is None or kind == "empirical":
        return Null("empirical", dim=facts.dim)
    known = statistic.null(facts)
    return known if kind is None else dataclasses.replace(known, kind=kind)


def _score_files(path: Path) -> list[str]:
    """The statistics that have a score file in a folder."""
    return [file.stem.removeprefix("scores_") for file in path.glob("scores_*.csv")]


def _read_scores(folder: AuditedFolder) -> _Scores | None:
    """The scores in the folder's score files; None without any."""
    path = folder.path
    names = _score_files(path)
    if not names:
        return None
    scores = {name: read_score_file(ScoredFolder(path).scores(name)) for name in names}
    compared = read_compared_vectors(LogFolder(path).compared_vectors)
    pool_path, run = LogFolder(path).pool, RunFolder(path)
    if pool_path.exists():
        pool = read_pool(pool_path)
        _check_agreement(folder, scores, (pool_path.name, pool.inclusion))
        return _Scores(scores, compared, pool.dim, pool.family)
    record, config = folder.record, folder.config
    if record is not None:
        check_together(run, record)
    stated = None if config is None else (run.config.name, config.canaries.inclusion)
    _check_agreement(folder, scores, stated)
    if record is not None and record.schedule_secret is not None:
        scores = without_rounds(scores)
    return _Scores(scores, compared, None if record is None else record.dim, folder.family)


def _check_agreement(
    folder: AuditedFolder, scores: Mapping[str, ScoreFile], stated: tuple[str, Inclusion] | None
) -> None:
    """Raises InputError if score files contradict other files about the inclusion of canaries.

    `stated` is the name of another file that states the inclusion design, and this design.
    """
    files = ScoredFolder(folder.path)
    first = next(iter(scores))
    source, inclusion = stated or (files.scores(first).name, scores[first].inclusion)
    for name, file in scores.items():
        if file.inclusion != inclusion:
            raise InputError(
                f"{files.scores(name)}: its canaries were included by {file.inclusion!r} (column "
                f"inclusion; 'coins' without this column), but by {inclusion!r} according to "
                f"{source}; must be the same"
            )
        if folder.canaries:
            check_scored(files.scores(name), file.flags, folder.canaries)


def _scores_of(folder: AuditedFolder) -> _Scores:
    """Scores that fit the folder's log, from score files or recomputed from the log.

    Scores of statistics that cannot be recomputed come from files, if no file contradicts the log.
    """
    scored = _read_scores(folder)
    if scored is None:
        return _score(folder)
    log = folder.log
    if log is None:
        return scored
    chain = log.folder.checked_chain()
    changed, other_terms = list[str](), list[str]()
    if chain is not None:
        terms = log.folder.terms()
        other_terms = chain.changed_terms(folder.path, terms)
        apart = {*log.folder.side_files(), *terms}
        changed = [name for name in chain.changed(folder.path) if name not in apart]
    is_whole = bool(chain and chain.scored_rounds) and not log.folder.aggregates.exists()
    are_of_log = not changed and (is_whole or log.is_empty)
    if are_of_log and (log.is_empty or not other_terms):
        return scored
    nothing = dataclasses.replace(scored, scores={}, compared={})
    rescored = nothing if log.is_empty else _score(folder)
    given = set(scored.scores) - set(rescored.scores)
    if other_terms:
        given -= {one.name for one in STATISTICS.values() if "final_model" not in one.needs}
    misfits = changed or [
        log.folder.scores(name).name
        for name, scores in scored.scores.items()
        if not are_of_log
        and name in rescored.scores
        and not _agree(scores, rescored.scores[name], log.pool.dim)
    ]
    if given and misfits:
        names = " and ".join(log.folder.scores(name).name for name in sorted(given))
        raise InputError(
            f"{folder.path}: {names} cannot be computed from the log, and may be older than the "
            f"log, as {misfits[0]} does not match the log; call RoundScorer.finish again, or "
            f"delete {names}"
        )
    given_scores = {name: scored.scores[name] for name in given}
    facts = {name: fact for name, fact in scored.compared.items() if name in given}
    return dataclasses.replace(
        rescored,
        scores={**rescored.scores, **given_scores},
        compared={**rescored.compared, **facts},
    )


def _agree(this: ScoreFile, other: ScoreFile, dim: int) -> bool:
    """Whether scores agree up to rounding, at most 1 % of an excluded score's deviation."""
    if this.flags != other.flags:
        return False
    by_canary = dict(zip(this.canary_id, this.score.tolist(), strict=True))
    scores = np.array([by_canary[canary] for canary in other.canary_id])
    return bool(np.abs(scores - other.score).max() <= 0.01 * dim**-0.5)


def _score(folder: AuditedFolder) -> _Scores:
    if folder.log is None:
        raise _nothing_scored(folder.path)
    scored = score_log(folder.log)
    return _Scores(scored.scores, scored.compared, scored.pool.dim, scored.pool.family)
