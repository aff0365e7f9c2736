"""The page report.html, a single file, and the writing of both reports."""

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from fl_audit.attacks.threat_models import meaning_of, title_of
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError, lines_visible
from fl_audit.estimators import Gaussian
from fl_audit.estimators.roc.summary import REPORTED_RATES
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.number_words import delta_text, duration, significant
from fl_audit.report import tables
from fl_audit.report.arms import arm_rows, arms_as_patterns, arms_words, difference_rows
from fl_audit.report.build import build_report
from fl_audit.report.chart import epsilon_bars, has_range, score_histogram, training_curves
from fl_audit.report.checks import canary_check_words, check_rows, checks_words, failed_checks
from fl_audit.report.finished_run import FinishedRun, read_finished_run
from fl_audit.report.folder import AuditedFolder
from fl_audit.report.headline import headline, verdict_banner
from fl_audit.report.report import (
    AS_THE_LOG_STATES,
    NOT_KNOWN,
    Checks,
    Report,
    ScoreSource,
    report_to_json,
)
from fl_audit.report.tables import attacker_risks
from fl_audit.report.words import canary_cost, rounds_done, run_facts, scores_facts
from fl_audit.verdict import Claim, ScoredStatistic, Verdict
from fl_audit.verdict.sentences import IN_SIMULATIONS, curve_detectable_words

_CONTENTS = {
    "verdict": "How the verdict was reached",
    "estimates": "Estimates",
    "run": "The run",
    "attackers": "Threat models",
    "arms": "Arms of canaries",
    "efficiency": "What this audit could show",
    "checks": "Mechanism checks",
    "scores": "Scores",
    "normality": "Are the scores Gaussian?",
    "training": "Training",
    "accounting": "Accounting",
    "limits": "Limits of this report",
    "reproduce": "How to reproduce",
}
"""Titles of the sections after the answer, in the page's order."""

_OF_RUNS = ("efficiency", "training", "accounting")
"""Sections that a report of scores alone lacks."""

_OF_STATED_NOISE = ("efficiency", "accounting")
"""Sections of `_OF_RUNS` that a log with stated noise has."""


def render_html(
    report: Report,
    scored: Sequence[ScoredStatistic],
    run: FinishedRun | None = None,
    command: str = "fl-audit run config.toml --out DIR",
) -> str:
    """Renders the page of a report; without a run it says what is left out."""
    statistics = report.statistics
    answer = headline(report)
    context = {
        **_heading(report, run),
        "contents": _contents(report),
        "verdict": verdict_banner(report),
        "sentence": answer.sentence(),
        "numbers": (*answer.answers()[1:], answer.answers()[0]),
        "states": _states(report, run),
        **_checks(report.checks),
        "faults": report.faults,
        "bars": epsilon_bars(report),
        "statistics": {name: _shown(name, report) for name in statistics},
        "refuted": tables.refuted_rows(statistics),
        "groups": tables.group_rows(statistics),
        "noise": tables.noise_rows(report),
        "threat_models": tables.threat_model_rows(report),
        "efficiency": tables.efficiency_rows(report.efficiency),
        "histograms": {
            name: _histogram(name, statistic)
            for name, statistic in zip(statistics, scored, strict=True)
            if has_range(statistic.scores)
        },
        "attack": tables.attack_rows(statistics),
        "rate_heads": [(f"TPR at FPR {100 * rate:g} %", "number") for rate in REPORTED_RATES],
        "normality": tables.normality_rows(statistics),
        "null_checks": tables.null_rows(statistics),
        "curves": {}
        if run is None
        else training_curves(run.rounds, are_secret=run.record.schedule_secret is not None),
        "analytical": report.analytical,
        "stated": f", {AS_THE_LOG_STATES}" if report.is_stated_by_log else "",
        "accounting": tables.accounting_rows(report),
        "risks": attacker_risks(report),
        "arms": report.arms,
        "arm_rows": [] if report.arms is None else arm_rows(report.arms),
        "difference_rows": [] if report.arms is None else difference_rows(report.arms),
        **arms_as_patterns(report.arms).context(),
        "arms_words": "" if report.arms is None else arms_words(report.arms),
        "delta": delta_text(report.delta),
        "confidence": f"{100 * report.confidence:g}",
        "command": command,
        "record": report.run,
        "config_toml": "" if run is None else config_to_toml(run.config),
        "fl_audit_version": report.fl_audit_version,
    }
    return render("fl_audit.report", "report.html", context)


def _heading(report: Report, run: FinishedRun | None) -> dict[str, Any]:
    """The audited training, in a few words and in sentences."""
    if run is None:
        source = report.source or ScoreSource("scores")
        return {"task": source.name, "name": "", "date": "", "facts": scores_facts(report, source)}
    name = run.folder.path.resolve().name
    date, _, _ = run.record.finished.partition("T")  # in UTC
    return {"task": run.record.task, "name": name, "date": date, "facts": run_facts(run)}


@dataclass(frozen=True)
class _Shown:
    """A statistic in words: its title, meaning and attacker, and its null distributions."""

    title: str
    meaning: str
    attacker: str
    null: str
    bounds_null: str


def _shown(name: str, report: Report) -> _Shown:
    statistic = report.statistics[name]
    attacker = report.threat_models.get(statistic.threat_model, NOT_KNOWN).title
    return _Shown(title_of(name), meaning_of(name), attacker, statistic.null, statistic.bounds_null)


def _checks(checks: Checks | None) -> dict[str, Any]:
    """The template's values for the mechanism checks."""
    if checks is None:
        return {"checks": [], "failed_checks": []}
    return {
        "checks": check_rows(checks),
        "failed_checks": failed_checks(checks),
        "not_checked": checks.not_checked,
        "false_alarm": significant(checks.false_alarm, 1),
    }


def _contents(report: Report) -> dict[str, str]:
    """The titles of the report's sections, by their ids."""
    without = () if report.run is not None else _OF_RUNS
    if report.is_stated_by_log:
        without = tuple(name for name in without if name not in _OF_STATED_NOISE)
    without += () if report.checks is not None and report.checks.results else ("checks",)
    without += () if report.verdict is not None else ("verdict",)
    without += () if report.arms is not None else ("arms",)
    return {name: title for name, title in _CONTENTS.items() if name not in without}


def _states(report: Report, finished: FinishedRun | None) -> dict[str, str]:
    """Checks, canaries and accuracy in words, if known."""
    canaries = (
        {}
        if report.canary_check is None
        else {"Canary check": canary_check_words(report.canary_check)}
    )
    checks, run = report.checks, report.run
    states = {} if checks is None else {"Mechanism checks": checks_words(checks)}
    states |= _power_of_canaries(report.verdict)
    if run is None:
        return {**states, **canaries}
    accuracy = f"{significant(100 * run.accuracy)} % after {rounds_done(run)}"
    cost = {} if finished is None else canary_cost(finished)
    return {**states, **canaries, "Accuracy": accuracy, **cost}


def _power_of_canaries(verdict: Verdict | None) -> dict[str, str]:
    """The power of the canaries against a claimed curve, if known."""
    if verdict is None or isinstance(verdict.claim, Claim) or verdict.detectable is None:
        return {}
    words = curve_detectable_words(verdict.claim, verdict.detectable)
    return {"Power of the canaries": f"{words} {IN_SIMULATIONS}"}


def _histogram(name: str, scored: ScoredStatistic) -> Markup:
    dim = scored.null.dim
    known = scored.null.kind == "closed_form" and dim is not None
    null = Gaussian(0.0, float(dim or 1) ** -0.5) if known else None
    return score_histogram(name, scored.scores, null)


def write_report(folder: RunFolder) -> Report:
    """Writes report.html and then report.json, whose presence marks a finished run.

    The same run folder gives the same bytes. Raises InputError if two files contradict each other.
    """
    run = read_finished_run(folder)
    report = build_report(run)
    fields = report_to_json(report)
    try:
        text = json.dumps(fields, indent=2, allow_nan=False)
    except ValueError as error:
        raise InputError(f"{folder.record}: holds a number that is not finite") from error
    write_text(folder.report_html, page_of_run(report, run))
    write_text(folder.report_json, text + "\n")
    return report


def page_of_run(report: Report, run: FinishedRun) -> str:
    """The text of a run's report.html."""
    return render_html(report, [run.scored(statistic) for statistic in run.statistics], run)


def render_estimates(
    source: AuditedFolder, estimated: Report, scored: Sequence[ScoredStatistic]
) -> str:
    """The page of estimates from a folder or file; a finished run's page has all its facts.

    `scored` are the scores of the estimates, by statistic, in the same order.
    """
    is_reported = RunFolder(source.path).report_json.exists()
    run = source.run if is_reported else None
    if run is None:
        command = f"fl-audit estimate {source.path} --delta {estimated.delta:g}"
        return render_html(estimated, scored, command=command)
    config = run.config
    audit = msgspec.structs.replace(config.audit, confidence=estimated.confidence)
    as_asked = dataclasses.replace(
        run,
        record=dataclasses.replace(run.record, delta=estimated.delta),
        config=msgspec.structs.replace(config, audit=audit),
    )
    return render_html(build_report(as_asked, estimated), scored, run)


def render(package: str, name: str, context: Mapping[str, Any]) -> str:
    """Renders a template installed with a package; control characters become escapes."""
    style = Markup(_text(__package__, "page.css"))
    return lines_visible(_environment(package).get_template(name).render(context, style=style))


@functools.cache
def _environment(package: str) -> jinja2.Environment:
    """The template environment of a package, which caches compiled templates."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda included: _text(package, included)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["duration"] = duration
    return environment


def _text(package: str, name: str) -> str:
    path = importlib.resources.files(package).joinpath(name)
    ours = importlib.resources.files(__package__).joinpath(name)
    return (path if path.is_file() else ours).read_text(encoding="utf-8")
