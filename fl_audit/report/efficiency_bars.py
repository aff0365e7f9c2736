"""The section of the page on how good the audit is: a small bar per statistic."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from fl_audit.attacks.statistics import title_of
from fl_audit.number_words import epsilon_text
from fl_audit.report.efficiency_model import EfficiencyReport
from fl_audit.report.model import Report
from fl_audit.report.template import render

_WIDTH = 260


@dataclass(frozen=True)
class EfficiencyBar:
    """One statistic's bar, as wide as the guarantee, in pixels.

    Attributes:
      title: Title of the statistic.
      proven: What was proven, in words.
      provable: What could have been proven, in words.
      guaranteed: What is guaranteed, in words.
      widths: Widths of what was proven and of what could have been; None without a bar, where the
        guarantee is infinite or not known.
      width: Width of the guarantee.
      note: What bounds for Gaussian mechanisms proved, in words; empty where they are none.
    """

    title: str
    proven: str
    provable: str
    guaranteed: str
    widths: tuple[float, float] | None
    width: int
    note: str


def efficiency_section(report: Report) -> Markup:
    """The section; empty for a report without any such numbers."""
    bars = [_bar(name, made) for name, made in report.efficiency.items()]
    return (
        Markup(render("fl_audit.report", "efficiency.html", {"bars": bars})) if bars else Markup()
    )


def _bar(name: str, made: EfficiencyReport) -> EfficiencyBar:
    gaussian = made.gaussian
    return EfficiencyBar(
        title=title_of(name),
        proven=_words(made.proven, "none"),
        provable=_words(made.provable, "not known"),
        guaranteed=_words(made.guaranteed, "none known"),
        widths=_widths(made),
        width=_WIDTH,
        note=""
        if gaussian is None
        else f"if Gaussian: {_words(gaussian.proven, 'none')} of {epsilon_text(gaussian.provable)}",
    )


def _words(epsilon: float | None, otherwise: str) -> str:
    return otherwise if epsilon is None else epsilon_text(epsilon)


def _widths(made: EfficiencyReport) -> tuple[float, float] | None:
    limit = made.guaranteed
    if limit is None or not 0 < limit < math.inf:
        return None
    shares = [min((value or 0.0) / limit, 1.0) for value in (made.proven, made.provable)]
    return round(_WIDTH * shares[0], 1), round(_WIDTH * shares[1], 1)
