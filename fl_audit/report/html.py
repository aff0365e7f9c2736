"""The page report.html, which refers to no other file."""

from typing import Any

from markupsafe import Markup

from fl_audit.config.file import config_to_toml
from fl_audit.estimators import Gaussian
from fl_audit.estimators.roc.summary import REPORTED_RATES
from fl_audit.number_words import significant
from fl_audit.report.checks import check_rows, failed_checks
from fl_audit.report.findings import findings
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.histogram import score_histogram
from fl_audit.report.method_table import group_rows
from fl_audit.report.model import Report
from fl_audit.report.tables import (
    accounting_rows,
    attack_rows,
    noise_rows,
    normality_rows,
    null_rows,
    refuted_rows,
    threat_model_rows,
)
from fl_audit.report.template import render
from fl_audit.report.training_curve import training_curves
from fl_audit.report.verdict_banner import verdict_banner
from fl_audit.report.words import description


def render_html(report: Report, run: FinishedRun) -> str:
    """Renders the page.

    Args:
      report: The report of the run.
      run: The run that the report is about.
    """
    return render("fl_audit.report", "report.html", _page(report, run))


def _page(report: Report, run: FinishedRun) -> dict[str, Any]:
    """The values of the names in the template."""
    statistics, record = report.statistics, run.record
    return {
        "task": record.task,
        "verdict": verdict_banner(report),
        "findings": findings(report),
        "checks": check_rows(report.checks),
        "failed_checks": failed_checks(report.checks),
        "not_checked": report.checks.not_checked,
        "false_alarm": significant(report.checks.false_alarm, 1),
        "description": description(run),
        "statistics": {s.name: s for s in run.statistics},
        "nulls": {name: made.null for name, made in statistics.items()},
        "bounds_nulls": {name: made.bounds_null for name, made in statistics.items()},
        "refuted": refuted_rows(statistics),
        "threat_models": threat_model_rows(report),
        "titles": {
            name: report.threat_models[statistic.threat_model].title
            for name, statistic in statistics.items()
        },
        "groups": group_rows(statistics),
        "noise": noise_rows(report.analytical),
        "analytical": report.analytical,
        "accounting": accounting_rows(report.analytical),
        "histograms": _histograms(run),
        "attack": attack_rows(statistics),
        "reported_rates": [f"{100 * rate:g} %" for rate in REPORTED_RATES],
        "normality": normality_rows(statistics),
        "null_checks": null_rows(statistics),
        "curves": training_curves(run.rounds),
        "delta": significant(record.delta),
        "confidence": f"{100 * report.confidence:g}",
        "record": record,
        "training_time": _duration(record.training_seconds),
        "scoring_time": _duration(record.scoring_seconds),
        "config_toml": config_to_toml(run.config),
        "fl_audit_version": report.fl_audit_version,
    }


def _histograms(run: FinishedRun) -> dict[str, Markup]:
    null = Gaussian(0.0, run.record.dim**-0.5)
    return {
        s.name: score_histogram(
            s.name,
            run.scores[s.name].canary_scores(),
            null if s.null(run.facts).kind == "closed_form" else None,
        )
        for s in run.statistics
    }


def _duration(seconds: float) -> str:
    """A duration as people say it.

    >>> _duration(3.21), _duration(754.0), _duration(7384.0)
    ('3.2 s', '12 min 34 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
