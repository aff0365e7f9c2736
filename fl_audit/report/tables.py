"""The tables of a report's page: rows of cells, for the template's macro `table`.

A privacy curve bounds the true positive rate of any attacker at a given false positive rate, such
as 0.1 %. The attack's rate at the same false positive rate, from the known null distribution or
from excluded canaries, exceeds that bound only by chance.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fl_audit.accounting import FullGuarantee, FullGuarantees, Guarantee, Guarantees
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.attacks.threat_models import title_of
from fl_audit.estimators import AndersonDarling
from fl_audit.estimators.result import METHOD_GROUPS, MethodGroup, estimate_text
from fl_audit.estimators.threshold.null_choice import refuted_nulls
from fl_audit.number_words import count, delta_text, lower_bound_text, significant, upper_bound_text
from fl_audit.report.headline import Note, strongest_first
from fl_audit.report.report import ATTACKERS, NOT_KNOWN, Efficiency, Report, StatisticReport


class Noted(NamedTuple):
    """A cell with a note below its text."""

    text: str
    note: str


Row = tuple[str | Noted, ...]


class MethodRow(NamedTuple):
    """One method's numbers, a cell per statistic; "–" if the method was left out."""

    method: str
    epsilons: tuple[str, ...]
    notes: tuple[Note, ...]


class GroupRows(NamedTuple):
    """The rows of one group of methods."""

    title: str
    meaning: str
    rows: tuple[MethodRow, ...]


def methods_by_group(statistics: Iterable[StatisticReport]) -> dict[MethodGroup, tuple[str, ...]]:
    """The methods used on any statistic, in groups: bounds first, estimates last."""
    estimates = {
        estimate.method: estimate for statistic in statistics for estimate in statistic.estimates
    }
    return {
        group: methods
        for group in METHOD_GROUPS
        if (
            methods := tuple(
                m for m, made in estimates.items() if group.has(made.kind, made.valid_for)
            )
        )
    }


def group_rows(statistics: Mapping[str, StatisticReport]) -> list[GroupRows]:
    return [
        GroupRows(group.title, group.meaning, tuple(_method_row(m, statistics) for m in methods))
        for group, methods in methods_by_group(statistics.values()).items()
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


class ThreatModelRow(NamedTuple):
    """The view of one attacker, with the included canaries that participated in its rounds."""

    title: str
    sees: str
    statistics: str
    included: str
    sees_all: bool
    num_statistics: int


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
        words = model.title, model.sees, ", ".join(of_model), included
        rows.append(ThreatModelRow(*words, sees_all, len(of_model)))
    return rows


def noise_rows(report: Report) -> list[tuple[str, ...]]:
    """The upper bounds against each statistic's attacker; one row if both parties have the same."""
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
    """The statistics whose scores reject their closed-form null, and why."""
    return [
        (name, reason)
        for name, statistic in statistics.items()
        for reason in refuted_nulls(estimate.details for estimate in statistic.estimates)
    ]


def attack_rows(statistics: Mapping[str, StatisticReport]) -> list[Row]:
    """AUC, its interval and true positive rates, if there are included and excluded canaries."""
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
    """Accounting's lower bound on epsilon, next to the tightest upper bound; else empty."""
    if guarantee.at_least is None or epsilon is None or epsilon != guarantee.epsilon:
        return ""
    return f"at least {lower_bound_text(guarantee.at_least)}, by a lower bound against one attacker"


def _by_attacker(
    attackers: Mapping[str, Guarantees], plain: Guarantees
) -> Iterator[tuple[str, Guarantee]]:
    """Upper bounds against single attackers that differ from the plain ones."""
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


class CurveRow(NamedTuple):
    """One party's curve in words: μ, ρ, and epsilon at several deltas, or why none is known."""

    party: str
    mu: str
    rho: str
    profile: str
    is_known: bool


class RiskRow(NamedTuple):
    """True positive rates at one false positive rate: upper bounds, and this audit's attack."""

    false_alarms: str
    client: str
    canary: str
    rate_found: str


@dataclass(frozen=True)
class AttackerRisk:
    """The privacy curves against one attacker."""

    title: str
    curves: tuple[CurveRow, ...]
    attack: str | None  # title of the statistic that represents the attacker, if any
    risks: tuple[RiskRow, ...]  # a row per false positive rate; empty if no curve is known


def attacker_risks(report: Report) -> list[AttackerRisk]:
    """The privacy curves by attacker; one entry for attackers who face the same curves."""
    distinct: dict[str, FullGuarantees] = {}
    for name, against in report.attackers.items():
        if against.in_full is not None and against.in_full not in distinct.values():
            distinct[name] = against.in_full
    return [_risk(report, name, in_full, len(distinct) == 1) for name, in_full in distinct.items()]


def _risk(report: Report, name: str, in_full: FullGuarantees, is_alone: bool) -> AttackerRisk:
    statistic = _leading_of(report, tuple(ATTACKERS) if is_alone else (name,))
    measured = None if statistic is None else report.statistics[statistic]
    rates = in_full.client.found or in_full.canary.found
    return AttackerRisk(
        title="Any attacker" if is_alone else f"An {ATTACKERS[name]}",
        curves=tuple(_curves(in_full)),
        attack=None if statistic is None else title_of(statistic),
        risks=tuple(
            RiskRow(
                false_alarms=f"{100 * rate.false_positive_rate:g} %",
                client=_at_most(in_full.client, index),
                canary=_at_most(in_full.canary, index),
                rate_found="–"
                if measured is None
                else _detection_rate(measured, rate.false_positive_rate),
            )
            for index, rate in enumerate(rates)
        ),
    )


def _leading_of(report: Report, attackers: tuple[str, ...]) -> str | None:
    """The first statistic of the strongest of `attackers`, chosen without the scores, if any."""
    efficiency = report.efficiency
    names = (name for name in strongest_first(report.statistics) if name in efficiency)
    return next((name for name in names if efficiency[name].attacker in attackers), None)


def _curves(in_full: FullGuarantees) -> Iterator[CurveRow]:
    if in_full.client == in_full.canary:
        yield _curve("Client or canary", in_full.client)
        return
    yield _curve("Real client", in_full.client)
    yield _curve("Included canary", in_full.canary)


def _curve(party: str, full: FullGuarantee) -> CurveRow:
    return CurveRow(party, mu_words(full), rho_words(full), profile_words(full), bool(full.profile))


def mu_words(full: FullGuarantee) -> str:
    """The mu of an upper bound, with the smaller one that holds except with a small probability."""
    if full.mu is None:
        return "none known"
    mu = upper_bound_text(full.mu)
    if full.approximate_mu is None or full.tail is None:
        return mu
    approximate = upper_bound_text(full.approximate_mu)
    return f"{mu}, or {approximate} except with probability {delta_text(full.tail)}"


def rho_words(full: FullGuarantee) -> str:
    return "none known" if full.rho is None else upper_bound_text(full.rho)


def profile_words(full: FullGuarantee) -> str:
    """Epsilon at several deltas; the reason if none is known."""
    points = (f"{upper_bound_text(p.epsilon)} at {delta_text(p.delta)}" for p in full.profile)
    return ", ".join(points) or str(full.unknown)


def _at_most(full: FullGuarantee, index: int) -> str:
    if not full.found:
        return "unknown"
    return f"≤ {upper_bound_text(100 * full.found[index].true_positive_rate)} %"


def _detection_rate(statistic: StatisticReport, false_positive_rate: float) -> str:
    """The attack's true positive rate, with its interval."""
    by_null = next(
        (point for point in statistic.found if point.false_positive_rate == false_positive_rate),
        None,
    )
    if by_null is not None:
        ends = f"{significant(100 * by_null.lower)} … {significant(100 * by_null.upper)}"
        return f"{significant(100 * by_null.true_positive_rate)} % ({ends})"
    points = () if statistic.roc is None else statistic.roc.operating_points
    operating_point = next(
        (point for point in points if point.false_positive_rate == false_positive_rate), None
    )
    if operating_point is None or operating_point.interval is None:
        return f"too few excluded ({statistic.num_excluded:,}) to tell"
    interval = operating_point.interval
    ends = f"{significant(100 * interval.lower)} … {significant(100 * interval.upper)}"
    return f"{significant(100 * operating_point.true_positive_rate)} % ({ends})"


def risk_sentence(risk: AttackerRisk, row: RiskRow) -> str:
    """Upper bound and measured rate at one false positive rate."""
    upper_bound = (
        f"false positive rate {row.false_alarms}: true positive rate {row.client} for clients"
    )
    canary = "" if row.canary == row.client else f", {row.canary} for canaries"
    by_attack = "" if risk.attack is None else f"; measured by {risk.attack}: {row.rate_found}"
    return f"{upper_bound}{canary}{by_attack}"


def risk_lines(report: Report) -> list[str]:
    """The privacy curves, a line per party and per false positive rate."""
    lines = []
    for risk in attacker_risks(report):
        lines += ["", f"upper bounds in full: {risk.title[0].lower()}{risk.title[1:]}"]
        for party, mu, rho, profile, is_known in risk.curves:
            curve = f"μ {mu}, ρ {rho}, ε ≤ {profile} (δ)" if is_known else f"none ({profile})"
            lines.append(f"  {party.lower()}: {curve}")
        lines += [f"  {risk_sentence(risk, row)}" for row in risk.risks]
    return lines
