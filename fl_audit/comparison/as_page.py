"""The page of a comparison, as a single file."""

from typing import Any

from fl_audit.attacks.threat_models import title_of
from fl_audit.comparison import as_text
from fl_audit.comparison.comparison import Comparison
from fl_audit.comparison.plots import pattern_legend, tradeoff_panels
from fl_audit.comparison.ranking import (
    beyond_noise,
    compared_statistic,
    patterns_of,
)
from fl_audit.report.chart import EpsilonBars, bars_of
from fl_audit.report.page import render
from fl_audit.version import __version__


def render_comparison(comparison: Comparison) -> str:
    """Renders the page as HTML."""
    return render("fl_audit.comparison", "compare.html", _page(comparison))


def _page(comparison: Comparison) -> dict[str, Any]:
    """The template's values."""
    compared = compared_statistic(comparison)
    bars = {name: _bars(comparison, name) for name in comparison.statistics}
    return {
        "comparison": comparison,
        "text": as_text,
        "beyond_noise": beyond_noise(comparison),
        "patterns": patterns_of(comparison),
        "by_noise": len(comparison.noise_multipliers) > 1,
        "compared": compared,
        "sees": _sees(comparison, compared),
        "sampled": any(run.is_sampled for run in comparison.runs),
        "bars_by_statistic": {name: picture for name, picture in bars.items() if picture},
        "legend": pattern_legend(comparison.patterns) if len(comparison.patterns) > 1 else "",
        "tradeoffs": tradeoff_panels(comparison),
        "fl_audit_version": __version__,
    }


def _bars(comparison: Comparison, statistic: str) -> EpsilonBars | None:
    """A bar per setting, with its runs combined; None if no setting has a bar."""
    titles = {s: ", ".join(filter(None, [s.label, s.rounds_words])) for s in comparison.settings}
    named = [
        (title, headline) for s, title in titles.items() if (headline := s.headline(statistic))
    ]
    return bars_of(named, f"setting, on “{title_of(statistic)}”")


def _sees(comparison: Comparison, statistic: str | None) -> str:
    """What a statistic's attacker has, in words that follow "it has"; empty if unknown."""
    for run in comparison.runs:
        result = run.report.statistics.get(statistic or "")
        if result is not None and result.threat_model in run.report.threat_models:
            return run.report.view_of(result.threat_model).sees
    return ""
