"""Which settings leak more than others beyond noise: whose intervals do not overlap."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.comparison.comparison import FRONT_METHOD, Comparison
from fl_audit.comparison.settings import Setting
from fl_audit.number_words import epsilon_text
from fl_audit.report.headline import strongest_first


@dataclass(frozen=True)
class Group:
    """Settings that intervals do not tell apart, directly or by others between them.

    Attributes:
      labels: Labels of the settings.
      lower: The lowest end of their intervals.
      upper: The highest end.
    """

    labels: tuple[str, ...]
    lower: float
    upper: float


def beyond_noise(comparison: Comparison) -> str:
    """A sentence on the strongest attacker's estimates; empty with fewer than two intervals."""
    reports = {
        name: run.report.statistics[name]
        for name in comparison.statistics
        for run in comparison.runs
        if name in run.report.statistics
    }
    for name in strongest_first(reports):
        found = groups_apart(comparison.settings, name)
        if sum(len(group.labels) for group in found) > 1:
            return _sentence(title_of(name), found)
    return ""


def groups_apart(settings: Sequence[Setting], statistic: str) -> list[Group]:
    """The settings by their estimates on a statistic, from least to most.

    The interval of a setting covers those of its runs.
    """
    spans = sorted(
        (*interval, setting.label)
        for setting in settings
        if (interval := setting.interval(statistic, FRONT_METHOD)) is not None
    )
    groups: list[Group] = []
    for lower, upper, label in spans:
        if groups and lower <= groups[-1].upper:
            last = groups.pop()
            groups.append(Group((*last.labels, label), last.lower, max(last.upper, upper)))
        else:
            groups.append(Group((label,), lower, upper))
    return groups


def _sentence(title: str, groups: Sequence[Group]) -> str:
    if len(groups) == 1:
        return f"On “{title}” no setting leaks more than another beyond noise."
    parts = [
        f"{' and '.join(f'“{label}”' for label in group.labels)} "
        f"({epsilon_text(group.lower)} … {epsilon_text(group.upper)})"
        for group in groups
    ]
    is_tied = any(len(group.labels) > 1 for group in groups)
    are_tied = " Those named together are not told apart." if is_tied else ""
    return (
        f"On “{title}” settings differ beyond noise, from the least ε to the most: "
        f"{'; '.join(parts)}.{are_tied}"
    )
