"""The tables of a report's page: rows of cells, which the template's macro `table` lays out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fl_audit.accounting import Guarantee, Guarantees
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.attacks.threat_models import title_of
from fl_audit.estimators import AndersonDarling
from fl_audit.estimators.result import METHOD_GROUPS, MethodGroup, estimate_text
from fl_audit.estimators.threshold.null_choice import refuted_nulls
from fl_audit.number_words import count, lower_bound_text, significant, upper_bound_text
from fl_audit.report.report import ATTACKERS, NOT_KNOWN, Efficiency, Report, StatisticReport


class Noted(NamedTuple):
    """A cell with a note below its text."""

    text: str
    note: str


Row = tuple[str | Noted, ...]


@dataclass(frozen=True)
class Note:
    """A remark on a number: its guarantee, its assumptions or its source."""

    label: str
    text: str


@dataclass(frozen=True)
class MethodRow:
    """One method's numbers, a cell per statistic; "–" if the method was left out."""

    method: str
    epsilons: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group of methods."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


@dataclass(frozen=True)
class GroupedMethods:
    """The names of the methods of one group."""

    group: MethodGroup
    methods: tuple[str, ...]


def methods_by_group(statistics: Iterable[StatisticReport]) -> list[GroupedMethods]:
    """The methods used on any statistic, in groups: bounds first, estimates last."""
    estimates = {
        estimate.method: estimate for statistic in statistics for estimate in statistic.estimates
    }
    grouped = [
        GroupedMethods(
            group,
            tuple(
                m
                for m, estimate in estimates.items()
                if group.has(estimate.kind, estimate.valid_for)
            ),
        )
        for group in METHOD_GROUPS
    ]
    return [of_group for of_group in grouped if of_group.methods]


def group_rows(statistics: Mapping[str, StatisticReport]) -> list[GroupRows]:
    return [
        GroupRows(
            grouped.group.title,
            grouped.group.meaning,
            tuple(_method_row(name, statistics) for name in grouped.methods),
        )
        for grouped in methods_by_group(statistics.values())
    ]


def _method_row(method: str, statistics: Mapping[str, StatisticReport]) -> MethodRow:
    estimates = {
        name: estimate
        for name, statistic in statistics.items()
        if (estimate := statistic.estimate_by(method)) is not None
    }
    epsilons = tuple(
        estimate_text(estimates[name]) if name in estimates else "–" for name in statistics
    )
    left_out = {
        name: statistic.left_out[method]
        for name, statistic in statistics.items()
        if method in statistic.left_out
    }
    texts = (
        ("Guarantee", {name: estimate.guarantee for name, estimate in estimates.items()}),
        ("Assumes", {name: estimate.assumes for name, estimate in estimates.items()}),
        ("Source", {name: estimate.source for name, estimate in estimates.items()}),
        ("Left out", left_out),
    )
    notes = [note for label, text in texts for note in _notes(label, text, len(statistics))]
    return MethodRow(method, epsilons, tuple(notes))


def _notes(label: str, text_by_statistic: Mapping[str, str], num_statistics: int) -> list[Note]:
    """One note per distinct text, with its statistics unless it applies to all."""
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
class ThreatModelRow:
    """What one attacker sees.

    Attributes:
      included: How many included canaries participated in the rounds that the attacker sees.
      sees_all: Whether all included canaries participated in these rounds.
    """

    title: str
    sees: str
    statistics: tuple[str, ...]
    included: str
    sees_all: bool


def threat_model_rows(report: Report) -> list[ThreatModelRow]:
    """A row per threat model, in the order of the statistics."""
    titles: dict[str, list[str]] = {}
    for name, statistic in report.statistics.items():
        titles.setdefault(statistic.threat_model, []).append(title_of(name))
    rows = []
    for name, of_model in titles.items():
        model = report.threat_models.get(name, NOT_KNOWN)
        number, among = model.num_included_in_rounds, report.num_included
        included = "not known" if number is None else f"{number:,} of {among:,}"
        sees_all = number is None or number == among
        rows.append(ThreatModelRow(model.title, model.sees, tuple(of_model), included, sees_all))
    return rows


def noise_rows(report: Report) -> list[tuple[str, ...]]:
    """The upper bounds against each statistic's attacker; one row if a client's are a canary's."""
    against = [
        bounds for name in report.statistics if (bounds := report.upper_bounds_against(name))
    ]
    if not against:
        return []
    canary = tuple(_upper_bound(bounds.canary.epsilon) for bounds in against)
    client = tuple(_upper_bound(bounds.client.epsilon) for bounds in against)
    if canary == client:
        return [("accounting", *canary)]
    return [("accounting, for a canary", *canary), ("accounting, for a client", *client)]


def _upper_bound(epsilon: float | None) -> str:
    return "none known" if epsilon is None else f"≤ {upper_bound_text(epsilon)}"


def refuted_rows(statistics: Mapping[str, StatisticReport]) -> list[tuple[str, str]]:
    """The statistics whose scores reject their closed-form null, by name, and why."""
    return [
        (name, reason)
        for name, statistic in statistics.items()
        for reason in refuted_nulls(estimate.details for estimate in statistic.estimates)
    ]


def attack_rows(statistics: Mapping[str, StatisticReport]) -> list[Row]:
    """AUC, its interval and true positive rates, where canaries are included and excluded."""
    return [
        (
            title_of(name),
            significant(roc.auc),
            f"{significant(roc.auc_interval.lower)} … {significant(roc.auc_interval.upper)}",
            *(f"{significant(100 * at.true_positive_rate)} %" for at in roc.operating_points),
        )
        for name, statistic in statistics.items()
        if (roc := statistic.roc) is not None
    ]


def normality_rows(statistics: Mapping[str, StatisticReport]) -> list[Row]:
    """The Anderson-Darling test by statistic and group of canaries, if it is defined."""
    return [
        (title_of(name), group, str(num), *_normality(test))
        for name, statistic in statistics.items()
        for group, num, test in (
            ("included", statistic.num_included, statistic.anderson_darling.included),
            ("excluded", statistic.num_excluded, statistic.anderson_darling.excluded),
        )
        if test is not None
    ]


def _normality(test: AndersonDarling) -> tuple[str, ...]:
    value, lenient, strict = test.statistic, test.critical_values[0.15], test.critical_values[0.01]
    if value > strict:
        reading = "not Gaussian (1 %)"
    else:
        reading = "in doubt (15 %)" if value > lenient else "may be Gaussian"
    return significant(value), significant(lenient), significant(strict), reading


def null_rows(statistics: Mapping[str, StatisticReport]) -> list[Row]:
    """Mean and variance of excluded scores, for statistics with a closed-form null."""
    return [
        (
            title_of(name),
            moment,
            significant(value),
            f"{significant(expected)} ± {significant(error, 2)}",
            f"{(value - expected) / error:+.1f}".replace("-", "−"),
        )
        for name, statistic in statistics.items()
        if (check := statistic.null_check) is not None
        for moment, value, expected, error in (
            ("mean", check.mean, check.mean_expected, check.mean_standard_error),
            ("variance", check.variance, check.variance_expected, check.variance_standard_error),
        )
    ]


def accounting_rows(report: Report) -> list[Row]:
    """Party, rounds, accountant and its epsilon; none without accounting."""
    if report.analytical is None:
        return []
    plain = Guarantees(report.analytical.client, report.analytical.canary)
    parties = (("Real client", plain.client), ("Included canary", plain.canary))
    return [
        (
            party,
            "random" if (n := guarantee.participations) is None else count(n, "round"),
            Noted(
                ACCOUNTANT_TITLES.get(by.accountant, by.accountant),
                by.reason or _accounted_lower_bound(guarantee, by.epsilon),
            ),
            "–" if by.accountant == "none_known" else upper_bound_text(by.epsilon),
        )
        for party, guarantee in (*parties, *_by_attacker(report.attackers, plain))
        for by in guarantee.by_accountant
    ]


def _accounted_lower_bound(guarantee: Guarantee, epsilon: float | None) -> str:
    """The accounting's lower bound on epsilon, shown with the tightest upper one; else empty."""
    if guarantee.at_least is None or epsilon is None or epsilon != guarantee.epsilon:
        return ""
    return f"at least {lower_bound_text(guarantee.at_least)} by what one attacker learns"


def _by_attacker(
    attackers: Mapping[str, Guarantees], plain: Guarantees
) -> Iterator[tuple[str, Guarantee]]:
    """Upper bounds that depend on whether the attacker knows the rounds."""
    for name, words in ATTACKERS.items():
        if (attacker := attackers.get(name)) is None:
            continue
        if attacker.client != plain.client:
            yield f"Real client, {words}", attacker.client
        if attacker.canary != plain.canary:
            yield f"Included canary, {words}", attacker.canary


def efficiency_rows(efficiency: Mapping[str, Efficiency]) -> list[Row]:
    """Lower bound, reachable one and upper bound of each statistic."""
    return [
        (
            Noted(title_of(name), _if_gaussian(row)),
            _words(row.lower_bound, lower_bound_text, "none"),
            _words(row.reachable, lower_bound_text, "unknown"),
            _words(row.upper_bound, upper_bound_text, "none known"),
        )
        for name, row in efficiency.items()
    ]


def _if_gaussian(efficiency: Efficiency) -> str:
    """The bounds for Gaussian mechanisms; empty if they do not apply."""
    if (bounds := efficiency.gaussian) is None:
        return ""
    lower_bound = _words(bounds.lower_bound, lower_bound_text, "none")
    reachable = lower_bound_text(bounds.reachable)
    return f"if the mechanism is Gaussian: lower bound {lower_bound}, reachable {reachable}"


def _words(epsilon: float | None, text: Callable[[float], str], otherwise: str) -> str:
    return otherwise if epsilon is None else text(epsilon)
