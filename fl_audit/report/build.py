"""Builds a report from a finished run, or from the scores of any system.

`build_report` uses all facts of a run. `report_on_folder`, `report_on_statistics` and
`report_on_file` take an `EstimateRequest`, and a log, a folder or a file of scores.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from fl_audit.accounting import (
    Accounting,
    Guarantees,
    Release,
    analytical,
    noise_distribution_named,
    upper_bounds,
)
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.log_release import stated_rounds, stated_uploads, why_nothing_stated
from fl_audit.attacks.logs import SeenLog
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS, threat_models_of
from fl_audit.checks.canary_check import CanaryCheck
from fl_audit.checks.training_faults import TrainingCurves, TrainingFault, training_faults
from fl_audit.config_tables.audit import Audit
from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.errors import InputError
from fl_audit.estimators.methods import known_methods
from fl_audit.estimators.scores import check_confidence, check_delta
from fl_audit.formats.participation_files import read_participation
from fl_audit.formats.run_record import LiveRecord
from fl_audit.report.arms import arms_of_run, unlike_canaries
from fl_audit.report.background import background_of_log, background_of_run
from fl_audit.report.checks import (
    checks_of_run,
    failed_checks,
    folder_canary_check,
    folder_checks,
    run_canary_check,
    scores_alone,
)
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.folder import (
    AuditedFolder,
    folder_arms,
    folder_statistics,
    folder_unlike,
)
from fl_audit.report.report import (
    NOT_KNOWN,
    Checks,
    Efficiency,
    Report,
    ScoreSource,
    SeenByAttacker,
    StatisticReport,
)
from fl_audit.report.statistics import (
    after_stop,
    efficiency_of,
    estimates_on,
    statistic_of_run,
    with_checks,
)
from fl_audit.tasks.task_kinds import PythonTask
from fl_audit.verdict.accounting_basis import (
    Accounted,
    Source,
    accounted_of_log,
    accounted_of_run,
    after_accounting,
)
from fl_audit.verdict.by_parts import SampledCanaries
from fl_audit.verdict.chosen_tests import chosen_methods, chosen_tests, shared_confidence
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic
from fl_audit.verdict.claims import (
    Claim,
    ConfiguredClaim,
    CurveClaim,
    claim_to_test,
    configured_claim,
    sampled_claim,
)
from fl_audit.verdict.curve_claim_tests import UNSTATED_CONFIDENCE, curve_tests
from fl_audit.verdict.decision import after_checks, live_verdict, reach_verdict
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.record import Verdict
from fl_audit.verdict.scope import Scope, scope_of_log, scope_of_run, sees_uploads
from fl_audit.version import __version__

# The report of a finished run.


def build_report(run: FinishedRun, estimated: Report | None = None) -> Report:
    """A run's report, with estimates and verdict from `estimated` or, if None, as configured."""
    release = _release(run)
    checks = checks_of_run(run)
    canary_check = run_canary_check(run)
    if estimated is None:
        verdict = run_verdict(run, checks, canary_check)
        statistics = {s.name: statistic_of_run(run, s) for s in run.statistics}
    else:
        verdict, statistics = estimated.verdict, dict(estimated.statistics)
    if run.config.plugins:
        statistics = {name: _with_knowledge(statistic) for name, statistic in statistics.items()}
    arms = [run.arms[canary] for canary in np.flatnonzero(run.included)] if run.arms else []
    return Report(
        statistics=statistics,
        threat_models=_threat_models(run, statistics.values()),
        verdict=verdict,
        canary_check=canary_check,
        checks=checks,
        faults=faults_of(run),
        **_accounted(release, statistics, run.record.delta, run.config.audit.confidence),
        run=run.record,
        config=run.config,
        arms=arms_of_run(run),
        estimate_is_over=unlike_canaries(arms, run.canary_rounds),
        fl_audit_version=__version__,
    )


class _Accounted(TypedDict):
    """Fields of the report that come from accounting."""

    analytical: Accounting
    attackers: dict[str, Guarantees]
    efficiency: dict[str, Efficiency]


def _accounted(
    release: Release,
    statistics: Mapping[str, StatisticReport],
    delta: float,
    confidence: float,
    uploads: Release | None = None,
) -> _Accounted:
    """The upper bounds of a release, and the efficiency of statistics compared with these bounds.

    `uploads` is the release of single uploads, if a log states it separately.
    """
    bounds = upper_bounds(release, delta, uploads)
    return {
        "analytical": bounds.accounting,
        "attackers": {str(name): both for name, both in bounds.attackers.items()},
        "efficiency": efficiency_of(bounds.of_canary, statistics, delta, confidence),
    }


def _with_knowledge(statistic: StatisticReport) -> StatisticReport:
    """The report on a statistic, with `knows` set if its threat model is registered."""
    model = THREAT_MODELS.get(statistic.threat_model)
    return statistic if model is None else dataclasses.replace(statistic, knows=int(model.knows))


def _threat_models(
    run: FinishedRun, statistics: Iterable[StatisticReport]
) -> dict[str, SeenByAttacker]:
    """The views, by name, of the config's threat models and of further statistics' ones."""
    audit, record = run.config.audit, run.record
    of_config = (model.name for model in threat_models_of(audit))
    views = {}
    for name in dict.fromkeys([*of_config, *(one.threat_model for one in statistics)]):
        model = THREAT_MODELS.get(name)
        rounds = range(record.rounds) if model is None else model.rounds(audit, record.rounds)
        if rounds.start < record.rounds_done:
            rounds = rounds[: record.rounds_done - rounds.start]
        views[name] = dataclasses.replace(
            _seen_by(name, audit),
            first_round=rounds.start + 1,
            last_round=rounds.stop,
            num_included_in_rounds=(
                record.num_included if model is None else run.included_in(rounds)
            ),
        )
    return views


def _release(run: FinishedRun) -> Release:
    try:
        analytical.check_positive_delta(run.record.delta)
        release = run.record.release
        noise_distribution_named(release.noise.distribution)
    except ValueError as error:
        raise InputError(f"{run.folder.record}: {error}") from error
    return release


def run_verdict(run: FinishedRun, checks: Checks, canary_check: CanaryCheck) -> Verdict | None:
    """The verdict on the config's claim or, without one, the configured noise; else None."""
    audit, delta = run.config.audit, run.record.delta
    chosen = chosen_tests(run.config, run.record.release.client.participations)
    claim = claim_to_test(audit, run.record.release, delta, chosen.asked)
    if claim is None:
        return None
    live = run.record.live
    if run.record.stopped_after is not None and live is not None and claim.is_stated:
        return _live_verdict(run, claim, live)
    scope = _scope_of(run)
    scored = {statistic: run.scored(statistic) for statistic in run.statistics}
    verdict = _verdict_on(
        claim,
        [scored[statistic] for statistic in chosen.statistics],
        [scored[statistic] for statistic in chosen.asked],
        [one for statistic, one in scored.items() if statistic not in chosen.statistics],
        methods=chosen.methods,
        confidence=chosen.confidence,
        scope=scope,
        canary_check=canary_check,
        background=background_of_run(run),
        source="configured",
    )
    verdict = after_accounting(verdict, accounted_of_run(run.record.release, scope))
    return after_checks(verdict, failed_checks(checks), checks.not_checked)


def _live_verdict(run: FinishedRun, claim: Claim | CurveClaim, live: LiveRecord) -> Verdict:
    """The verdict on a run that its scores stopped."""
    verdict = live_verdict(claim, run.record, live, shared_confidence(run.config.audit))
    return after_accounting(verdict, accounted_of_run(run.record.release, _scope_of(run)))


def _verdict_on(
    claim: Claim | CurveClaim,
    chosen: Sequence[ScoredStatistic],
    asked: Sequence[ScoredStatistic],
    others: Sequence[ScoredStatistic],
    *,
    methods: Sequence[str],
    confidence: float,
    scope: Scope,
    canary_check: CanaryCheck,
    background: Background | None,
    source: Source,
) -> Verdict:
    """The verdict on a claim, from the statistics chosen among those that the user asked for.

    The noise as configured or stated is tested on all that the user asked for, for a canary.
    """
    own = next((one for one in asked if one.name == OWN_ROUNDS.name), None)
    if isinstance(claim, ConfiguredClaim):
        chosen, others, scope = asked, (), Scope(whom="for a canary")
        confidence = confidence if claim.is_stated else UNSTATED_CONFIDENCE
    return reach_verdict(
        claim,
        ClaimTests(chosen, confidence, methods)
        if isinstance(claim, Claim)
        else curve_tests(claim, chosen, confidence),
        scope,
        canary_check=canary_check,
        others=[one for one in others if scope.covers(one.name)],
        background=background,
        canaries=None
        if own is None or background is None
        else SampledCanaries(source, own, background),
    )


def _scope_of(run: FinishedRun) -> Scope:
    """What a run's canaries represent; uploads too if all tested statistics see single uploads."""
    tested = chosen_tests(run.config, run.record.release.client.participations).statistics
    return scope_of_run(
        run.record,
        run.rounds_of_canaries,
        run.included,
        covers_uploads=all(map(sees_uploads, tested)),
    )


def faults_of(run: FinishedRun) -> tuple[TrainingFault, ...]:
    """Training faults, from the curves of the rounds."""
    rounds = len(run.rounds.participants)
    present = np.concatenate([*run.canary_rounds, np.zeros(0, np.int64)])
    # A stopped run's canaries were assigned to rounds that never ran.
    canaries = np.bincount(present, minlength=rounds)[:rounds].astype(np.float64)
    curves = TrainingCurves(
        clip_norm=run.rounds.clip_norm,
        train_loss=run.rounds.train_loss,
        accuracy=run.rounds.accuracy,
        clients=run.rounds.participants - canaries,
        canaries=canaries,
    )
    return training_faults(curves, _num_classes(run), run.record.release.denominator)


def _num_classes(run: FinishedRun) -> int | None:
    """Number of classes from the model's last bias; None for regression or one output.

    None also for a model of the user's, whose weights may have any order.
    """
    record = run.record
    if isinstance(run.config.task, PythonTask | RecordedTable) or not record.variable_sizes:
        return None
    outputs = record.variable_sizes[-1]
    return outputs if outputs > 1 and record.labels == "classes" else None


# The report of scores from other systems.


@dataclass(frozen=True)
class EstimateRequest:
    """The parameters of estimates from scores; InputError if a parameter is invalid."""

    delta: float  # the delta of differential privacy, in [0, 1)
    confidence: float = 0.95  # confidence of every bound, in (0, 1)
    methods: Sequence[str] | None = None  # names of methods; None for all that the scores allow
    claim: Claim | CurveClaim | None = None  # None: configured or logged noise is tested

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_confidence(self.confidence)
        if self.methods is not None:
            known_methods(self.methods)


def threat_model_of(statistic: str, audit: Audit) -> str:
    """A statistic's threat model; empty if unknown, or if keys that `audit` lacks define it."""
    known = STATISTICS.get(statistic)
    model = None if known is None else THREAT_MODELS.get(known.threat_model)
    if model is None or (model.keys and model.name not in audit.threat_models):
        return ""
    return model.name


def _seen_by(threat_model: str, audit: Audit) -> SeenByAttacker:
    model = THREAT_MODELS.get(threat_model)
    return NOT_KNOWN if model is None else SeenByAttacker(model.title, model.sees(audit))


def report_on_file(path: Path, statistic: ScoredStatistic, request: EstimateRequest) -> Report:
    """The report of a file of scores.

    The page names the statistic if the file is called scores_NAME.csv, with NAME a known statistic.
    """
    name = path.stem.removeprefix("scores_")
    label = name if STATISTICS.get(name) is not None else "score"
    result = estimates_on(statistic, request.delta, request.confidence, request.methods)
    statistic_report = with_checks(result, statistic, threat_model_of(label, Audit()))
    verdict = None
    if request.claim is not None:
        canary_check = scores_alone([statistic])
        verdict = _verdict_asked(request.claim, request, [statistic], Scope(), canary_check)
    source = ScoreSource(path.name)
    return _scores_report({label: statistic_report}, Audit(), source, verdict=verdict)


def report_on_statistics(
    folder: AuditedFolder,
    statistics: Sequence[ScoredStatistic],
    request: EstimateRequest,
    others: Sequence[ScoredStatistic] = (),
) -> Report:
    """The report on some of a folder's statistics, at least one, from `folder_statistics`.

    `others` are the folder's remaining statistics, which the canary check and the verdict use too.
    """
    log, run, audit = folder.log, folder.run, folder.audit
    reports = {}
    for statistic in statistics:
        try:
            reports[str(statistic.name)] = _estimated(folder, statistic, request)
        except InputError as error:
            raise InputError(f"{folder.path}, statistic {statistic.name}: {error}") from error
    canary_check = folder_canary_check(folder, [*statistics, *others])
    checks = folder_checks(folder)
    verdict = None
    if folder.is_stopped:
        verdict = _verdict_of_stopped(folder, request)
    elif (claim := request.claim or _configured(folder, request.delta, statistics)) is not None:
        scope = _folder_scope(folder)
        verdict = _verdict_asked(
            claim,
            request,
            statistics,
            scope,
            canary_check,
            others=others,
            background=_background(folder),
            source="configured" if log is None else "stated",
        )
        verdict = after_accounting(verdict, _accounted_of_folder(folder, scope))
        verdict = after_checks(
            verdict,
            () if checks is None else failed_checks(checks),
            None if checks is None else checks.not_checked,
            of_log=log is not None and checks is not None and bool(checks.results),
            missing_rounds=() if log is None else log.missing_rounds,
        )
    source = ScoreSource(
        folder.path.resolve().name,
        folder.family,
        folder.num_rounds,
        has_record=folder.record is not None,
        says_client_rounds=_says_client_rounds(folder),
    )
    report = _scores_report(
        reports, audit, source, canary_check=canary_check, checks=checks, verdict=verdict
    )
    arms = folder_arms(folder, request.delta, request.confidence)
    if run is not None and request.delta > 0:
        accounted = _accounted(_release(run), reports, request.delta, request.confidence)
        report = dataclasses.replace(report, **accounted)
    if log is not None and request.delta > 0:
        report = _with_stated(report, log, request)
    return dataclasses.replace(report, arms=arms, estimate_is_over=folder_unlike(folder))


def _says_client_rounds(folder: AuditedFolder) -> bool:
    """Whether a run or a log says how often clients, and which rounds' canaries, participate."""
    log = folder.log
    if log is None or log.listed.own_rounds is None:
        return folder.run is not None
    stated = read_participation(log.folder.participation)
    return stated is not None and (stated.sampling != "none" or stated.client_rounds is not None)


def _with_stated(report: Report, log: SeenLog, request: EstimateRequest) -> Report:
    """The report of a log, with accounting of the noise and rounds that it states."""
    rounds, uploads = stated_rounds(log), stated_uploads(log)
    release = uploads if rounds is None else rounds.release
    if release is None:
        return dataclasses.replace(report, why_not_accounted=why_nothing_stated(log))
    accounted = _accounted(release, report.statistics, request.delta, request.confidence, uploads)
    return dataclasses.replace(report, **accounted, is_stated_by_log=True)


def _accounted_of_folder(folder: AuditedFolder, scope: Scope) -> tuple[Accounted, ...]:
    """The accounting of a run, or of noise and rounds stated by a log; empty for scores alone."""
    if folder.run is not None:
        return accounted_of_run(_release(folder.run), scope)
    if folder.log is None:
        return ()
    rounds = stated_rounds(folder.log)
    participation = read_participation(folder.log.folder.participation)
    return accounted_of_log(
        None if rounds is None else rounds.release,
        stated_uploads(folder.log),
        None if participation is None else participation.client_weight,
        scope,
        most_noise=None if rounds is None else rounds.most_noise,
    )


def report_on_folder(folder: AuditedFolder, request: EstimateRequest) -> Report:
    """The report on all statistics of a folder; writes nothing."""
    return report_on_statistics(folder, folder_statistics(folder), request)


def _scores_report(
    statistics: Mapping[str, StatisticReport],
    audit: Audit,
    source: ScoreSource,
    *,
    verdict: Verdict | None,
    canary_check: CanaryCheck | None = None,
    checks: Checks | None = None,
) -> Report:
    """The report of scores; `audit` describes their attackers."""
    names = dict.fromkeys(statistic.threat_model for statistic in statistics.values())
    return Report(
        statistics=statistics,
        threat_models={name: _seen_by(name, audit) for name in names},
        verdict=verdict,
        canary_check=canary_check,
        checks=checks,
        source=source,
        fl_audit_version=__version__,
    )


def _estimated(
    folder: AuditedFolder, scored: ScoredStatistic, request: EstimateRequest
) -> StatisticReport:
    name, audit, record = str(scored.name), folder.audit, folder.record
    result = estimates_on(scored, request.delta, request.confidence, request.methods)
    if record is not None and record.stopped_after is not None:
        is_as_run = folder.config is not None and (
            (request.delta, request.confidence) == (record.delta, audit.confidence)
        )
        result = after_stop(result, record.live if is_as_run else None, name)
    return with_checks(result, scored, threat_model_of(name, audit))


def _verdict_of_stopped(folder: AuditedFolder, request: EstimateRequest) -> Verdict | None:
    """The live verdict on a requested claim; InputError if the run was not stopped by this one."""
    if request.claim is None:
        return None
    run = folder.run
    if run is not None and run.record.live is not None:
        audit, record = run.config.audit, run.record
        claim = claim_to_test(audit, record.release, record.delta, run.statistics)
        if claim == request.claim and audit.confidence == request.confidence:
            return _live_verdict(run, claim, run.record.live)
    raise InputError(
        f"{folder.path}: was stopped by its scores, so that only its own verdict holds; leave out "
        "the claim, or state the config's claim at its delta and confidence"
    )


def _verdict_asked(
    claim: Claim | CurveClaim,
    request: EstimateRequest,
    statistics: Sequence[ScoredStatistic],
    scope: Scope,
    canary_check: CanaryCheck,
    *,
    others: Sequence[ScoredStatistic] = (),
    background: Background | None = None,
    source: Source = "configured",
) -> Verdict:
    """The verdict on a claim by the methods and at the confidence of a request."""
    return _verdict_on(
        claim,
        [one for one in statistics if scope.covers(one.name)] or statistics,
        statistics,
        others,
        methods=chosen_methods(request.methods, statistics[0].scores.inclusion),
        confidence=request.confidence,
        scope=scope,
        canary_check=canary_check,
        background=background,
        source=source,
    )


def _configured(
    folder: AuditedFolder, delta: float, statistics: Sequence[ScoredStatistic]
) -> ConfiguredClaim | None:
    """The folder's configured or logged noise as an unstated claim, if testable and wanted."""
    if delta == 0:
        return None
    if folder.log is not None:
        return _claim_of_log(folder.log, delta, statistics)
    run = folder.run
    if run is None or run.config.audit.claim == "none":
        return None
    names = {one.name for one in statistics}
    tested = [statistic for statistic in run.statistics if statistic.name in names]
    return configured_claim(run.record.release, delta, tested, is_stated=False)


def _claim_of_log(
    log: SeenLog, delta: float, statistics: Sequence[ScoredStatistic]
) -> ConfiguredClaim | None:
    """A log's noise, on uploads or in rounds, as a claim; None if neither can be tested.

    Noise in rounds can be tested if the log says how rounds act together (by sampling or correlated
    noise), or if canaries have one round.
    """
    of_vectors = [*filter(None, (STATISTICS.get(str(one.name)) for one in statistics))]
    uploads = stated_uploads(log)
    of_uploads = None
    if uploads is not None:
        of_uploads = configured_claim(uploads, delta, of_vectors, is_stated=False)
    of_rounds = _claim_of_rounds(log, delta, of_vectors)
    if of_rounds is None or of_uploads is None:
        return of_rounds or of_uploads
    return dataclasses.replace(
        of_uploads,
        curves={**of_rounds.curves, **of_uploads.curves},
        noises={**of_rounds.noises, **of_uploads.noises},
    )


def _claim_of_rounds(
    log: SeenLog, delta: float, statistics: Sequence[Statistic]
) -> ConfiguredClaim | None:
    stated = stated_rounds(log)
    if stated is None:
        return None
    if stated.says_all_rounds:
        return sampled_claim(stated.release, delta, statistics)
    is_one_round = stated.release.canary.participations == 1
    if is_one_round and not log.folder.noise_correlation.exists():
        return configured_claim(stated.release, delta, [OWN_ROUNDS], is_stated=False)
    return None


def _background(folder: AuditedFolder) -> Background | None:
    """The background of a folder's canaries; None for scores alone."""
    if folder.log is not None:
        return background_of_log(folder.log)
    return None if folder.run is None else background_of_run(folder.run)


def _folder_scope(folder: AuditedFolder) -> Scope:
    """What the folder's canaries represent when a claim is tested."""
    log = folder.log
    if log is not None:
        path = log.folder.participation
        own = log.listed.own_rounds
        return scope_of_log(
            read_participation(path),
            None if own is None else own.of_canary,
            log.listed.included,
            [index for index, _ in log.cosines.numbered_rows()],
            path.name,
        )
    return Scope(counts_on_sampling=None) if folder.run is None else _scope_of(folder.run)
