"""The page's table on how good the audit is: a row per statistic."""

from collections.abc import Mapping
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.number_words import epsilon_text
from fl_audit.report.efficiency_model import EfficiencyReport


@dataclass(frozen=True)
class EfficiencyRow:
    """How good the audit is on one statistic.

    Attributes:
      title: Title of the statistic.
      proven: What was proven, in words.
      provable: What could have been proven, in words.
      guaranteed: What is guaranteed, in words.
      note: What bounds for Gaussian mechanisms proved, in words; empty where they are none.
    """

    title: str
    proven: str
    provable: str
    guaranteed: str
    note: str


def efficiency_rows(efficiency: Mapping[str, EfficiencyReport]) -> list[EfficiencyRow]:
    """A row per statistic, by its name; none for a report without such numbers."""
    return [_row(name, made) for name, made in efficiency.items()]


def _row(name: str, made: EfficiencyReport) -> EfficiencyRow:
    gaussian = made.gaussian
    return EfficiencyRow(
        title=title_of(name),
        proven=_words(made.proven, "none"),
        provable=_words(made.provable, "not known"),
        guaranteed=_words(made.guaranteed, "none known"),
        note=""
        if gaussian is None
        else f"if Gaussian: {_words(gaussian.proven, 'none')} of {epsilon_text(gaussian.provable)}",
    )


def _words(epsilon: float | None, otherwise: str) -> str:
    return otherwise if epsilon is None else epsilon_text(epsilon)
