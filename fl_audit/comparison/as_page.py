"""The page of a comparison, as a single file."""

from collections.abc import Iterator
from typing import Any

from fl_audit.attacks.threat_models import meaning_of, title_of
from fl_audit.comparison import as_text
from fl_audit.comparison.comparison import FRONT_METHOD, SHOWN_METHODS, Comparison
from fl_audit.comparison.order import (
    beyond_noise,
    compared_statistic,
    patterns_of,
)
from fl_audit.comparison.plots import pattern_legend, tradeoff_panels
from fl_audit.comparison.settings import Setting
from fl_audit.report.chart import EpsilonBars, bars_of
from fl_audit.report.page import render
from fl_audit.report.tables import methods_by_group
from fl_audit.version import __version__


def render_comparison(comparison: Comparison) -> str:
    """Renders the page as HTML."""
    return render("fl_audit.comparison", "compare.html", _page(comparison))


def _page(comparison: Comparison) -> dict[str, Any]:
    """The template's values."""
    compared = compared_statistic(comparison)
    names = comparison.statistics
    bars = {name: _bars(comparison, name) for name in comparison.statistics}
    return {
        "title": as_text.title(comparison),
        "warnings": comparison.warnings,
        "beyond_noise": beyond_noise(comparison),
        **patterns_of(comparison).context(),
        "has_repetitions": as_text.has_repetitions(comparison),
        "setting_heads": _setting_heads(comparison),
        "settings": [_setting_cells(comparison, setting) for setting in comparison.settings],
        "attacker_heads": [("Setting", ""), *((title_of(n), "number") for n in names)],
        "attackers": [
            (s.label, *([as_text.epsilon_cell(s, name, m) for m in _CELL] for name in names))
            for s in comparison.settings
        ],
        "folders": [
            ("" if number else setting.label, str(run.folder))
            for setting in comparison.settings
            for number, run in enumerate(setting.runs)
        ],
        "titles": {name: title_of(name) for name in comparison.statistics},
        "meanings": {name: meaning_of(name) for name in comparison.statistics},
        "by_noise": len(comparison.noise_multipliers) > 1,
        "compared": compared,
        "sees": _sees(comparison, compared),
        "sampled": any(run.is_sampled for run in comparison.runs),
        "bars_by_statistic": {name: picture for name, picture in bars.items() if picture},
        "legend": pattern_legend(comparison.patterns) if len(comparison.patterns) > 1 else "",
        "tradeoffs": tradeoff_panels(comparison),
        "method_heads": [("Method", ""), *((s.label, "number") for s in comparison.settings)],
        "full": {name: list(_full_table(comparison, name)) for name in names},
        "fl_audit_version": __version__,
    }


def _bars(comparison: Comparison, statistic: str) -> EpsilonBars | None:
    """A bar per setting; several runs of a setting are combined."""
    titles = {s: ", ".join(filter(None, [s.label, s.rounds_words])) for s in comparison.settings}
    named = [
        (title, headline) for s, title in titles.items() if (headline := s.headline(statistic))
    ]
    return bars_of(named, f"setting, on “{title_of(statistic)}”")


def _sees(comparison: Comparison, statistic: str | None) -> str:
    """The view of a statistic's attacker, in words that follow "it has"."""
    for run in comparison.runs:
        result = run.report.statistics.get(statistic or "")
        if result is not None and result.threat_model in run.report.threat_models:
            return run.report.threat_models[result.threat_model].sees
    return ""


_CELL = (FRONT_METHOD, *(method for method in SHOWN_METHODS if method != FRONT_METHOD))
"""The methods of a cell of the table by attacker, from top to bottom."""


def _setting_heads(comparison: Comparison) -> list[tuple[str, str]]:
    numbers = ("Runs", "Rounds", "Rounds per canary", "Cohort", "Accuracy")
    bounds = ("Upper bound, client", "Upper bound, canary")
    heads = [("Setting", ""), *((head, "number") for head in (*numbers, *bounds))]
    if as_text.has_verdicts(comparison):
        heads.append(("Claim and verdict", ""))
    if as_text.has_faults(comparison):
        heads.append(("Faults of training", ""))
    return heads


def _setting_cells(comparison: Comparison, setting: Setting) -> tuple[str, ...]:
    """A setting's cells, one for each of `_setting_heads`."""
    return (
        setting.label,
        str(len(setting.runs)),
        as_text.rounds_cell(setting),
        as_text.participations_cell(setting),
        as_text.cohort_cell(setting),
        as_text.accuracy_cell(setting),
        as_text.guarantee_cell(setting, "client"),
        as_text.guarantee_cell(setting, "canary"),
        *([as_text.verdict_cell(setting)] if as_text.has_verdicts(comparison) else []),
        *([as_text.fault_cell(setting)] if as_text.has_faults(comparison) else []),
    )


def _full_table(
    comparison: Comparison, statistic: str
) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """The groups of methods on one statistic: a title, and a row per method."""
    reports = [run.report for run in comparison.runs if statistic in run.report.statistics]
    present = methods_by_group(report.statistics[statistic] for report in reports)
    for group, methods in present.items():
        yield (
            group.title,
            [
                (method, *(as_text.epsilon_cell(s, statistic, method) for s in comparison.settings))
                for method in methods
            ],
        )
