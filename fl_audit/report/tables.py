"""The tables of a report's page as rows of text, ready for the template."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fl_audit.accounting import Guarantee, Guarantees
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.attacks.threat_models import title_of
from fl_audit.estimators import AndersonDarling
from fl_audit.estimators.result import METHOD_GROUPS, MethodGroup, estimate_text
from fl_audit.estimators.threshold.null_choice import refuted_nulls
from fl_audit.number_words import (
    count,
    lower_bound_text,
    significant,
    upper_bound_text,
)
from fl_audit.report.report import (
    NOT_KNOWN,
    Efficiency,
    Report,
    SeenByAttacker,
    StatisticReport,
)


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
      statistics: Titles of the statistics of the threat model.
      included: How many included canaries participated in the rounds that the attacker sees.
      sees_all: Whether all included canaries participated in these rounds.
    """

    title: str
    sees: str
    statistics: tuple[str, ...]
    included: str
    sees_all: bool


def _titles_by_threat_model(statistics: Mapping[str, StatisticReport]) -> dict[str, list[str]]:
    titles: dict[str, list[str]] = {}
    for name, statistic in statistics.items():
        titles.setdefault(statistic.threat_model, []).append(title_of(name))
    return titles


def threat_model_rows(report: Report) -> list[ThreatModelRow]:
    """A row per threat model, in the order of the statistics."""
    titles = _titles_by_threat_model(report.statistics)
    return [
        _threat_model_row(report.threat_models.get(name, NOT_KNOWN), tuple(of_model), report)
        for name, of_model in titles.items()
    ]


def _threat_model_row(
    model: SeenByAttacker, statistics: tuple[str, ...], report: Report
) -> ThreatModelRow:
    in_rounds = model.num_included_in_rounds
    return ThreatModelRow(
        title=model.title,
        sees=model.sees,
        statistics=statistics,
        included="not known" if in_rounds is None else f"{in_rounds:,} of {report.num_included:,}",
        sees_all=in_rounds is None or in_rounds == report.num_included,
    )


@dataclass(frozen=True)
class NoiseRow:
    """One party's upper bound against the attacker of each statistic."""

    party: str
    epsilons: tuple[str, ...]


def noise_rows(report: Report) -> list[NoiseRow]:
    """The upper bounds for a canary and a client, in one row if they agree."""
    against = [
        bounds for name in report.statistics if (bounds := report.upper_bounds_against(name))
    ]
    if not against:
        return []
    canary = tuple(_upper_bound(bounds.canary.epsilon) for bounds in against)
    client = tuple(_upper_bound(bounds.client.epsilon) for bounds in against)
    if canary == client:
        return [NoiseRow("accounting", canary)]
    return [
        NoiseRow("accounting, for a canary", canary),
        NoiseRow("accounting, for a client", client),
    ]


def _upper_bound(epsilon: float | None) -> str:
    return "none known" if epsilon is None else f"≤ {upper_bound_text(epsilon)}"


@dataclass(frozen=True)
class RefutedRow:
    """A statistic whose closed-form null was rejected, and why."""

    statistic: str
    reason: str


def refuted_rows(statistics: Mapping[str, StatisticReport]) -> list[RefutedRow]:
    """A row per statistic whose known null the scores reject, by the statistic's name."""
    return [
        RefutedRow(name, reason)
        for name, statistic in statistics.items()
        for reason in refuted_nulls(estimate.details for estimate in statistic.estimates)
    ]


@dataclass(frozen=True)
class AttackRow:
    """How well one statistic separates included from excluded canaries."""

    statistic: str
    auc: str
    auc_interval: str
    true_positive_rates: tuple[str, ...]


def attack_rows(statistics: Mapping[str, StatisticReport]) -> list[AttackRow]:
    """A row per statistic that has scores of included and of excluded canaries."""
    return [
        AttackRow(
            statistic=title_of(name),
            auc=significant(roc.auc),
            auc_interval=f"{significant(roc.auc_interval.lower)} … "
            f"{significant(roc.auc_interval.upper)}",
            true_positive_rates=tuple(
                f"{significant(100 * point.true_positive_rate)} %" for point in roc.operating_points
            ),
        )
        for name, statistic in statistics.items()
        if (roc := statistic.roc) is not None
    ]


@dataclass(frozen=True)
class NormalityRow:
    """The Anderson-Darling test of one group of scores."""

    statistic: str
    group: str
    num: int
    value: str
    at_15_percent: str
    at_1_percent: str
    reading: str


def normality_rows(statistics: Mapping[str, StatisticReport]) -> list[NormalityRow]:
    """A row per statistic and group of canaries, if the test is defined."""
    return [
        _normality_row(name, group, num, test)
        for name, statistic in statistics.items()
        for group, num, test in (
            ("included", statistic.num_included, statistic.anderson_darling.included),
            ("excluded", statistic.num_excluded, statistic.anderson_darling.excluded),
        )
        if test is not None
    ]


def _normality_row(name: str, group: str, num: int, test: AndersonDarling) -> NormalityRow:
    value = test.statistic
    lenient, strict = test.critical_values[0.15], test.critical_values[0.01]
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
    """A moment of excluded scores, and that of the null distribution."""

    statistic: str
    moment: str
    value: str
    expected: str
    deviation: str


def null_rows(statistics: Mapping[str, StatisticReport]) -> list[NullRow]:
    """Mean and variance of excluded scores, for statistics with a closed-form null."""
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


def accounting_rows(report: Report) -> list[AccountingRow]:
    """A row per party and accountant; none without accounting."""
    if report.analytical is None:
        return []
    plain = Guarantees(report.analytical.client, report.analytical.canary)
    parties = (("Real client", plain.client), ("Included canary", plain.canary))
    return [
        AccountingRow(
            party=party,
            participations=_participations(guarantee.participations),
            accountant=ACCOUNTANT_TITLES.get(by.accountant, by.accountant),
            epsilon="–" if by.accountant == "none_known" else upper_bound_text(by.epsilon),
            reason=by.reason or _accounted_lower_bound(guarantee, by.epsilon),
        )
        for party, guarantee in (*parties, *_by_attacker(report.attackers, plain))
        for by in guarantee.by_accountant
    ]


def _accounted_lower_bound(guarantee: Guarantee, epsilon: float | None) -> str | None:
    """The accounting's lower bound on epsilon, shown with the tightest upper one; else None."""
    if guarantee.at_least is None or epsilon is None or epsilon != guarantee.epsilon:
        return None
    return f"at least {lower_bound_text(guarantee.at_least)} by what one attacker learns"


def _by_attacker(
    attackers: Mapping[str, Guarantees], plain: Guarantees
) -> Iterator[tuple[str, Guarantee]]:
    """Upper bounds that depend on whether the attacker knows the rounds."""
    for name, words in (
        ("knows_rounds", "attacker knows its rounds"),
        ("does_not_know_rounds", "attacker does not know its rounds"),
        ("sees_uploads", "attacker sees its uploads"),
    ):
        if (attacker := attackers.get(name)) is None:
            continue
        if attacker.client != plain.client:
            yield f"Real client, {words}", attacker.client
        if attacker.canary != plain.canary:
            yield f"Included canary, {words}", attacker.canary


def _participations(number: int | None) -> str:
    return "random" if number is None else count(number, "round")


@dataclass(frozen=True)
class EfficiencyRow:
    """The efficiency of the audit on one statistic, in words.

    Attributes:
      note: On bounds for Gaussian mechanisms; empty if they do not apply.
    """

    title: str
    lower_bound: str
    reachable: str
    upper_bound: str
    note: str


def efficiency_rows(efficiency: Mapping[str, Efficiency]) -> list[EfficiencyRow]:
    return [_row(name, row) for name, row in efficiency.items()]


def _row(name: str, efficiency: Efficiency) -> EfficiencyRow:
    gaussian = efficiency.gaussian
    return EfficiencyRow(
        title=title_of(name),
        lower_bound=_words(efficiency.lower_bound, lower_bound_text, "none"),
        reachable=_words(efficiency.reachable, lower_bound_text, "unknown"),
        upper_bound=_words(efficiency.upper_bound, upper_bound_text, "none known"),
        note=""
        if gaussian is None
        else "if the mechanism is Gaussian: lower bound "
        f"{_words(gaussian.lower_bound, lower_bound_text, 'none')}, reachable "
        f"{lower_bound_text(gaussian.reachable)}",
    )


def _words(epsilon: float | None, text: Callable[[float], str], otherwise: str) -> str:
    return otherwise if epsilon is None else text(epsilon)
