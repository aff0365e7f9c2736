"""The report's table of estimates: a row per method, in groups, ready for the template."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.estimators.method_groups import METHOD_GROUPS, MethodGroup
from fl_audit.number_words import epsilon_text, lower_bound_text
from fl_audit.report.statistic_model import EstimateReport, StatisticReport


@dataclass(frozen=True)
class Note:
    """A remark on a number: its guarantee, its assumptions or its source."""

    label: str
    text: str


@dataclass(frozen=True)
class MethodRow:
    """One method's numbers on every statistic.

    Attributes:
      method: Name of the method.
      epsilons: One cell per statistic, "–" where the method was left out.
      notes: What the numbers guarantee and assume, and their source.
    """

    method: str
    epsilons: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class GroupRows:
    """The rows of methods whose numbers may be relied on to the same degree."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


@dataclass(frozen=True)
class GroupedMethods:
    """The names of the methods of one group."""

    group: MethodGroup
    methods: tuple[str, ...]


def methods_by_group(statistics: Iterable[StatisticReport]) -> list[GroupedMethods]:
    """The methods found on any statistic, in groups: bounds that hold first, estimates last."""
    found = {made.method: made for statistic in statistics for made in statistic.estimates}
    grouped = [
        GroupedMethods(
            group,
            tuple(m for m, made in found.items() if group.has(made.kind, made.details.valid_for)),
        )
        for group in METHOD_GROUPS
    ]
    return [of_group for of_group in grouped if of_group.methods]


def group_rows(statistics: Mapping[str, StatisticReport]) -> list[GroupRows]:
    """The rows of the methods, in their groups."""
    return [
        GroupRows(
            found.group.title,
            found.group.meaning,
            tuple(_method_row(name, statistics) for name in found.methods),
        )
        for found in methods_by_group(statistics.values())
    ]


def _method_row(method: str, statistics: Mapping[str, StatisticReport]) -> MethodRow:
    found = {
        name: made
        for name, statistic in statistics.items()
        if (made := statistic.estimate_by(method)) is not None
    }
    epsilons = tuple(estimate_cell(found[name]) if name in found else "–" for name in statistics)
    left_out = {
        name: statistic.left_out[method]
        for name, statistic in statistics.items()
        if method in statistic.left_out
    }
    texts = (
        ("Guarantee", {name: made.details.guarantee for name, made in found.items()}),
        ("Assumes", {name: made.details.assumes for name, made in found.items()}),
        ("Source", {name: made.details.source for name, made in found.items()}),
        ("Left out", left_out),
    )
    notes = [note for label, text in texts for note in _notes(label, text, len(statistics))]
    return MethodRow(method, epsilons, tuple(notes))


def estimate_cell(estimate: EstimateReport) -> str:
    """The cell of a table for one epsilon: a bound with its sign, an interval by its ends."""
    if estimate.kind == "lower_bound":
        return f"≥ {lower_bound_text(estimate.epsilon)}"
    if estimate.kind == "interval":
        return f"{epsilon_text(estimate.lower)} … {epsilon_text(estimate.upper)}"
    return epsilon_text(estimate.epsilon)


def _notes(label: str, text_by_statistic: Mapping[str, str], num_statistics: int) -> list[Note]:
    """One note per distinct text, which names its statistics unless the text is about all."""
    titles_by_text: dict[str, list[str]] = {}
    for name, text in text_by_statistic.items():
        titles_by_text.setdefault(text, []).append(title_of(name))
    return [
        Note(
            label if len(titles) == num_statistics else f"{label} ({', '.join(titles)})",
            f"{text.rstrip('.')}.",
        )
        for text, titles in titles_by_text.items()
    ]
