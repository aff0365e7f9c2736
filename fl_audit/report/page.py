"""The page report.html, a single file, and the writing of report.html and report.json."""

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from fl_audit import number_words
from fl_audit.attacks.threat_models import meaning_of, title_of
from fl_audit.config.file import config_to_toml
from fl_audit.errors import InputError, lines_visible
from fl_audit.estimators import Gaussian
from fl_audit.estimators.roc.summary import REPORTED_RATES
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.number_words import significant
from fl_audit.report import arms, checks, shown_records, verdict_words
from fl_audit.report.build import build_report
from fl_audit.report.chart import (
    bars_by_attacker,
    epsilon_bars,
    has_range,
    score_histogram,
    training_curves,
)
from fl_audit.report.checks import canary_check_words, checks_words
from fl_audit.report.finished_run import FinishedRun, read_finished_run
from fl_audit.report.folder import AuditedFolder
from fl_audit.report.headline import headline
from fl_audit.report.report import Report, report_to_json
from fl_audit.report.words import canary_cost, canary_words, rounds_done, run_facts, scores_facts
from fl_audit.verdict import ScoredStatistic
from fl_audit.verdict.sentences import IN_SIMULATIONS, claim_clause, detectable_words

_SECTIONS = {
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


def render_html(
    report: Report,
    scored: Sequence[ScoredStatistic],
    run: FinishedRun | None = None,
    command: str = "fl-audit run config.toml --out DIR",
) -> str:
    """Renders the page of a report; without a run, the page says what it leaves out."""
    histograms = {
        name: _histogram(name, statistic)
        for name, statistic in zip(report.statistics, scored, strict=True)
        if has_range(statistic.scores)
    }
    context = {
        "report": report,
        "run": run,
        "name": "" if run is None else run.folder.path.resolve().name,
        "command": command,
        "histograms": histograms,
        "rates": [f"TPR at FPR {100 * rate:g} %" for rate in REPORTED_RATES],
    }
    return render("fl_audit.report", "report.html", context)


def sections(report: Report) -> dict[str, str]:
    """The titles of a report's sections, by their ids."""
    known = {
        "verdict": report.verdict is not None,
        "arms": report.arms is not None,
        "efficiency": report.analytical is not None,
        "checks": report.checks is not None and bool(report.checks.results),
        "training": report.run is not None,
        "accounting": report.analytical is not None,
    }
    return {id: title for id, title in _SECTIONS.items() if known.get(id, True)}


def states(report: Report, run: FinishedRun | None) -> dict[str, str]:
    """Checks, canaries and accuracy in words, if known."""
    words = {}
    if report.checks is not None:
        words["Mechanism checks"] = checks_words(report.checks)
    if report.verdict is not None and report.verdict.detectable is not None:
        noise = report.verdict.detectable.noise_multiplier
        least = detectable_words(report.verdict.detectable_epsilon, noise_multiplier=noise)
        words["Power of the canaries"] = f"{least} {IN_SIMULATIONS}"
    if report.canary_check is not None:
        words["Canary check"] = canary_check_words(report.canary_check)
    if report.run is not None:
        accuracy = significant(100 * report.run.accuracy)
        words["Accuracy"] = f"{accuracy} % after {rounds_done(report.run)}"
    return words if run is None else words | canary_cost(run)


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
    source: AuditedFolder, estimated: Report, scored: Sequence[ScoredStatistic], command: str
) -> str:
    """The page of estimates from a folder or file; for a finished run, with all facts of the run.

    `scored` has the scores of each statistic of `estimated`, in the same order; `command` estimated
    them.
    """
    is_reported = RunFolder(source.path).report_json.exists()
    run = source.run if is_reported and estimated.delta > 0 else None  # accounting needs a delta
    if run is None:
        return render_html(estimated, scored, command=command)
    config = run.config
    audit = msgspec.structs.replace(config.audit, confidence=estimated.confidence)
    as_asked = dataclasses.replace(
        run,
        record=dataclasses.replace(run.record, delta=estimated.delta),
        config=msgspec.structs.replace(config, audit=audit),
    )
    return render_html(build_report(as_asked, estimated), scored, run, command)


def render(package: str, name: str, context: Mapping[str, Any]) -> str:
    """Renders a template installed with a package; control characters become escapes."""
    return lines_visible(_environment(package).get_template(name).render(context))


_FILTERS: tuple[Callable[..., object], ...] = (
    *(number_words.count, number_words.delta_text, number_words.duration, number_words.significant),
    *(number_words.lower_bound_text, number_words.upper_bound_text),
    *(config_to_toml, meaning_of, title_of),
    *(headline, sections, states, run_facts, scores_facts, canary_words, claim_clause),
    *(verdict_words.meaning_of_verdict, verdict_words.unstated, verdict_words.next_steps),
    *(verdict_words.reasons, verdict_words.against_words, verdict_words.verdict_facts),
    *(checks.failed_checks, checks.finding_words, checks.title_of_check),
    *(arms.allowed_words, arms.arms_as_patterns, arms.arms_words, arms.difference_name),
    *(arms.interval_words, bars_by_attacker, epsilon_bars, training_curves),
    *(shown_records.accounting_rows, shown_records.if_gaussian, shown_records.upper_bound_rows),
    *(shown_records.attacker_risks, shown_records.estimate_by, shown_records.method_notes),
    *(shown_records.methods_by_group, shown_records.most_detected, shown_records.percent),
    *(shown_records.mu_words, shown_records.rho_words, shown_records.profile_words),
    *(shown_records.normality_tests, shown_records.normality_words, shown_records.ends_words),
    *(shown_records.refuted_statistics, shown_records.statistics_by_attacker),
)
"""Functions that templates apply to records and numbers, by the functions' names."""


@functools.cache
def _environment(package: str) -> jinja2.Environment:
    """A package's environment for templates, which caches the compiled ones."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda included: _text(package, included)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {function.__name__: function for function in _FILTERS}
    return environment


def _text(package: str, name: str) -> str:
    path = importlib.resources.files(package).joinpath(name)
    ours = importlib.resources.files(__package__).joinpath(name)
    return (path if path.is_file() else ours).read_text(encoding="utf-8")
