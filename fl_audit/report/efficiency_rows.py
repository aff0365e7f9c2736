"""The page's table on how good the audit is: a row per statistic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.number_words import lower_bound_text, upper_bound_text
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
        proven=_words(made.proven, lower_bound_text, "none"),
        provable=_words(made.provable, lower_bound_text, "not known"),
        guaranteed=_words(made.guaranteed, upper_bound_text, "none known"),
        note=""
        if gaussian is None
        else f"if Gaussian: {_words(gaussian.proven, lower_bound_text, 'none')} of "
        f"{lower_bound_text(gaussian.provable)}",
    )


def _words(epsilon: float | None, text: Callable[[float], str], otherwise: str) -> str:
    return otherwise if epsilon is None else text(epsilon)
