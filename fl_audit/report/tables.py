"""The report's tables as rows of text, ready for a template."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.estimators.method_groups import METHOD_GROUPS, MethodGroup
from fl_audit.number_words import count, epsilon_text, significant
from fl_audit.report.model import AnalyticalReport
from fl_audit.report.statistic_model import (
    EstimateReport,
    NormalityReport,
    StatisticReport,
)
from fl_audit.report.words import ACCOUNTANT_TITLES


@dataclass(frozen=True)
class Note:
    """What a number guarantees, assumes or stems from."""

    label: str
    text: str


@dataclass(frozen=True)
class MethodRow:
    """One method on every statistic.

    Attributes:
      method: its name.
      epsilons: one per statistic, "–" where the method was left out.
      notes: what the numbers guarantee, assume and stem from.
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
    """The methods found on any statistic, from what may be relied on to what is an estimate."""
    found = {made.method: made for statistic in statistics for made in statistic.estimates}
    grouped = (
        GroupedMethods(group, tuple(name for name, made in found.items() if _is_of(group, made)))
        for group in METHOD_GROUPS
    )
    return [of_group for of_group in grouped if of_group.methods]


def _is_of(group: MethodGroup, estimate: EstimateReport) -> bool:
    return (estimate.kind, estimate.details.valid_for) in group.kinds


def method_groups(statistics: Mapping[str, StatisticReport]) -> list[GroupRows]:
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
    """An epsilon as a cell of a table has it: a bound with its sign, an interval by its ends."""
    if estimate.kind == "lower_bound":
        return f"≥ {epsilon_text(estimate.epsilon)}"
    if estimate.kind == "interval":
        return f"{epsilon_text(estimate.lower)} … {epsilon_text(estimate.upper)}"
    return epsilon_text(estimate.epsilon)


def _notes(label: str, text_by_statistic: Mapping[str, str], num_statistics: int) -> list[Note]:
    """One note per text, with the statistics that it is about unless all share it."""
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


@dataclass(frozen=True)
class NoiseRow:
    """What the noise guarantees to somebody."""

    party: str
    epsilon: str


def noise_rows(analytical: AnalyticalReport) -> list[NoiseRow]:
    """The analytical epsilon to a canary and to a real client, once where they agree."""
    canary, client = analytical.canary.epsilon, analytical.client.epsilon
    if canary == client:
        return [NoiseRow("analytical", _upper_bound(canary))]
    return [
        NoiseRow("analytical, to a canary", _upper_bound(canary)),
        NoiseRow("analytical, to a real client", _upper_bound(client)),
    ]


def _upper_bound(epsilon: float | None) -> str:
    return "none known" if epsilon is None else f"≤ {epsilon_text(epsilon)}"


@dataclass(frozen=True)
class AttackRow:
    """How well one statistic tells included from excluded canaries."""

    statistic: str
    auc: str
    auc_interval: str
    true_positive_rates: tuple[str, ...]


def attack_rows(statistics: Mapping[str, StatisticReport]) -> list[AttackRow]:
    """A row per statistic that has scores of both kinds."""
    return [
        AttackRow(
            statistic=title_of(name),
            auc=significant(roc.auc),
            auc_interval=" … ".join(significant(end) for end in roc.auc_interval),
            true_positive_rates=tuple(
                f"{significant(100 * point.true_positive_rate)} %" for point in roc.operating_points
            ),
        )
        for name, statistic in statistics.items()
        if (roc := statistic.roc) is not None
    ]


@dataclass(frozen=True)
class NormalityRow:
    """An Anderson-Darling test."""

    statistic: str
    group: str
    num: int
    value: str
    at_15_percent: str
    at_1_percent: str
    reading: str


def normality_rows(statistics: Mapping[str, StatisticReport]) -> list[NormalityRow]:
    """A row per statistic and group of canaries, where the test is defined."""
    return [
        _normality_row(name, group, num, test)
        for name, statistic in statistics.items()
        for group, num, test in (
            ("included", statistic.num_included, statistic.anderson_darling.included),
            ("excluded", statistic.num_excluded, statistic.anderson_darling.excluded),
        )
        if test is not None
    ]


def _normality_row(name: str, group: str, num: int, test: NormalityReport) -> NormalityRow:
    value = test.statistic
    lenient, strict = test.critical_values["0.15"], test.critical_values["0.01"]
    if value > strict:
        reading = "not Gaussian (1 %)"
    else:
        reading = "in doubt (15 %)" if value > lenient else "may be Gaussian"
    return NormalityRow(
        statistic=title_of(name),
        group=group,
        num=num,
        value=significant(value),
        at_15_percent=significant(lenient),
        at_1_percent=significant(strict),
        reading=reading,
    )


@dataclass(frozen=True)
class NullRow:
    """A moment of excluded scores beside the null law's."""

    statistic: str
    moment: str
    value: str
    expected: str
    deviation: str


def null_rows(statistics: Mapping[str, StatisticReport]) -> list[NullRow]:
    """Mean and variance of excluded scores, for statistics whose null has a closed form."""
    return [
        row
        for name, statistic in statistics.items()
        if (check := statistic.null_check) is not None
        for row in (
            _null_row(name, "mean", check.mean, check.mean_expected, check.mean_standard_error),
            _null_row(
                name,
                "variance",
                check.variance,
                check.variance_expected,
                check.variance_standard_error,
            ),
        )
    ]


def _null_row(
    name: str, moment: str, value: float, expected: float, standard_error: float
) -> NullRow:
    deviation = f"{(value - expected) / standard_error:+.1f}"
    return NullRow(
        statistic=title_of(name),
        moment=moment,
        value=significant(value),
        expected=f"{significant(expected)} ± {significant(standard_error, 2)}",
        deviation=deviation.replace("-", "−"),
    )


@dataclass(frozen=True)
class AccountingRow:
    """Epsilon of one party by one accountant."""

    party: str
    participations: str
    accountant: str
    epsilon: str
    reason: str | None


def accounting_rows(analytical: AnalyticalReport) -> list[AccountingRow]:
    """A row per party and accountant."""
    return [
        AccountingRow(
            party=party,
            participations=_participations(guarantee.participations),
            accountant=ACCOUNTANT_TITLES[by.accountant],
            epsilon="–" if by.accountant == "none_known" else epsilon_text(by.epsilon),
            reason=by.reason,
        )
        for party, guarantee in (
            ("Real client", analytical.client),
            ("Included canary", analytical.canary),
        )
        for by in guarantee.by_accountant
    ]


def _participations(number: int | None) -> str:
    return "random" if number is None else count(number, "round")
