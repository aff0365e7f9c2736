"""The page of a comparison, which refers to no other file."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fl_audit.attacks.threat_models import meaning_of, title_of
from fl_audit.comparison import as_text
from fl_audit.comparison.comparison import FRONT_METHOD, SHOWN_METHODS, Comparison
from fl_audit.comparison.order import beyond_noise, compared_statistic
from fl_audit.comparison.patterns import NOTE, PATTERN_HEAD, pattern_rows, pattern_sentence
from fl_audit.comparison.settings import Setting, rounds_words
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
    bars = {name: _bars(comparison, name) for name in comparison.statistics}
    return {
        "title": as_text.title(comparison),
        "warnings": comparison.warnings,
        "beyond_noise": pattern_sentence(comparison) or beyond_noise(comparison),
        "pattern_head": PATTERN_HEAD,
        "pattern_note": NOTE,
        "patterns": pattern_rows(comparison),
        "has_repetitions": as_text.has_repetitions(comparison),
        "has_verdicts": as_text.has_verdicts(comparison),
        "has_faults": as_text.has_faults(comparison),
        "settings": [_setting_row(comparison, setting) for setting in comparison.settings],
        "titles": {name: title_of(name) for name in comparison.statistics},
        "meanings": {name: meaning_of(name) for name in comparison.statistics},
        "by_noise": len(comparison.noise_multipliers) > 1,
        "front_method": FRONT_METHOD,
        "shown_methods": SHOWN_METHODS,
        "compared": compared,
        "sees": _sees(comparison, compared),
        "sampled": any(run.is_sampled for run in comparison.runs),
        "bars_by_statistic": {name: picture for name, picture in bars.items() if picture},
        "has_plots": _HAS_MATPLOTLIB,
        **_plots(comparison),
        "full": {name: list(_full_table(comparison, name)) for name in comparison.statistics},
        "fl_audit_version": __version__,
    }


_HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def _bars(comparison: Comparison, statistic: str) -> EpsilonBars | None:
    """A bar per setting; several runs of a setting are combined."""
    titles = {s: ", ".join(filter(None, [s.label, rounds_words(s)])) for s in comparison.settings}
    named = [
        (title, headline) for s, title in titles.items() if (headline := s.headline(statistic))
    ]
    return bars_of(named, f"setting, on “{title_of(statistic)}”")


def _sees(comparison: Comparison, statistic: str | None) -> str:
    """The view of a statistic's attacker, in words that follow "an attacker who sees"."""
    for run in comparison.runs:
        result = run.report.statistics.get(statistic or "")
        if result is not None and result.threat_model in run.report.threat_models:
            return run.report.threat_models[result.threat_model].sees
    return ""


def _plots(comparison: Comparison) -> dict[str, Any]:
    """The plots of privacy against accuracy, with their legend; empty without Matplotlib."""
    if not _HAS_MATPLOTLIB:
        return {"legend": Markup(""), "tradeoffs": {}}
    from fl_audit.comparison.plots import pattern_legend, tradeoff_panels

    legend = pattern_legend(comparison.patterns) if len(comparison.patterns) > 1 else ""
    return {"legend": legend, "tradeoffs": tradeoff_panels(comparison)}


@dataclass(frozen=True)
class _SettingRow:
    """A setting in the page's first tables.

    Attributes:
      participations: Mean number of rounds in which a canary participates.
      cohort: Expected number of clients and canaries in a round.
      client: Upper bound from accounting for a client.
      canary: Upper bound from accounting for a canary.
      verdict: Verdicts on the claims of the runs.
      faults: Faults of their training.
      epsilons: A cell by statistic and shown method.
    """

    label: str
    num_runs: int
    rounds: str
    participations: str
    cohort: str
    accuracy: str
    client: str
    canary: str
    verdict: str
    faults: str
    epsilons: dict[str, dict[str, str]]
    folders: tuple[str, ...]


def _setting_row(comparison: Comparison, setting: Setting) -> _SettingRow:
    return _SettingRow(
        label=setting.label,
        num_runs=len(setting.runs),
        rounds=as_text.rounds_cell(setting),
        participations=as_text.participations_cell(setting),
        cohort=as_text.cohort_cell(setting),
        accuracy=as_text.accuracy_cell(setting),
        client=as_text.guarantee_cell(setting, "client"),
        canary=as_text.guarantee_cell(setting, "canary"),
        verdict=as_text.verdict_cell(setting),
        faults=as_text.fault_cell(setting),
        epsilons={
            name: {method: as_text.epsilon_cell(setting, name, method) for method in SHOWN_METHODS}
            for name in comparison.statistics
        },
        folders=tuple(str(run.folder) for run in setting.runs),
    )


@dataclass(frozen=True)
class _MethodGroupRows:
    """The methods of one group on one statistic, with a cell per setting."""

    title: str
    cells: dict[str, list[str]]


def _full_table(comparison: Comparison, statistic: str) -> Iterator[_MethodGroupRows]:
    reports = [run.report for run in comparison.runs if statistic in run.report.statistics]
    for present in methods_by_group(report.statistics[statistic] for report in reports):
        cells = {
            method: [
                as_text.epsilon_cell(setting, statistic, method) for setting in comparison.settings
            ]
            for method in present.methods
        }
        yield _MethodGroupRows(present.group.title, cells)
