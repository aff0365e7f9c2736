"""A report's records as its tables show them, on the page and in the terminal.

A privacy curve bounds the true positive rate of any attacker at a given false positive rate, such
as 0.1 %. The attack's own true positive rate there, measured with a threshold from the known null
distribution or from excluded canaries, exceeds the bound only by chance if the mechanism is
correct.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fl_audit.accounting import FullGuarantee, FullGuarantees, Guarantee
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES, AccountedEpsilon
from fl_audit.accounting.noise_distributions import HOW_OFTEN_UNKNOWN
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.attacks.threat_models import title_of
from fl_audit.estimators import AndersonDarling
from fl_audit.estimators.counts.confusion_counts import Interval
from fl_audit.estimators.result import METHOD_GROUPS, MethodGroup, estimate_text
from fl_audit.estimators.threshold.null_choice import refuted_nulls
from fl_audit.number_words import count, delta_text, lower_bound_text, significant, upper_bound_text
from fl_audit.report.headline import strongest_first
from fl_audit.report.report import (
    GaussianEfficiency,
    Report,
    SeenByAttacker,
    StatisticReport,
)


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


def estimate_by(statistic: StatisticReport, method: str) -> str:
    """The estimate by a method; "–" if it was left out."""
    estimate = statistic.estimate_by(method)
    return "–" if estimate is None else estimate_text(estimate)


def method_notes(statistics: Mapping[str, StatisticReport], method: str) -> dict[str, str]:
    """A method's guarantee, assumptions and source, and why it was left out, each by a label.

    A label names the statistics that its text applies to, unless it applies to all.
    """
    notes: dict[str, str] = {}
    for label, key in (("Guarantee", "guarantee"), ("Assumes", "assumes"), ("Source", "source")):
        made = {name: statistic.estimate_by(method) for name, statistic in statistics.items()}
        texts = {name: getattr(found, key) for name, found in made.items() if found is not None}
        notes |= _labelled(label, texts, len(statistics))
    left_out = {name: statistic.left_out.get(method) for name, statistic in statistics.items()}
    reasons = {name: reason for name, reason in left_out.items() if reason is not None}
    return notes | _labelled("Left out", reasons, len(statistics))


def _labelled(label: str, texts: Mapping[str, str], num_statistics: int) -> dict[str, str]:
    titles: dict[str, list[str]] = {}
    for name, text in texts.items():
        titles.setdefault(text, []).append(title_of(name))
    return {
        label if len(of) == num_statistics else f"{label} ({', '.join(of)})": f"{text.rstrip('.')}."
        for text, of in titles.items()
    }


def statistics_by_attacker(report: Report) -> list[tuple[SeenByAttacker, list[str]]]:
    """The view of each threat model, with the names of the model's statistics in order."""
    names: dict[str, list[str]] = {}
    for name, statistic in report.statistics.items():
        names.setdefault(statistic.threat_model, []).append(name)
    return [(report.view_of(model), of_model) for model, of_model in names.items()]


def upper_bound_rows(report: Report) -> list[tuple[str, ...]]:
    """The upper bounds against each statistic's attacker by party; one row if parties are equal."""
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


def refuted_statistics(statistics: Mapping[str, StatisticReport]) -> list[tuple[str, str]]:
    """The statistics whose scores reject their known null, and why."""
    return [
        (name, reason)
        for name, statistic in statistics.items()
        for reason in refuted_nulls(estimate.details for estimate in statistic.estimates)
    ]


def normality_tests(
    statistics: Mapping[str, StatisticReport],
) -> Iterator[tuple[str, str, int, AndersonDarling]]:
    """Statistic, group of canaries, their number and their Anderson-Darling test, if defined."""
    for name, statistic in statistics.items():
        tests = statistic.anderson_darling
        if tests.included is not None:
            yield name, "included", statistic.num_included, tests.included
        if tests.excluded is not None:
            yield name, "excluded", statistic.num_excluded, tests.excluded


def normality_words(test: AndersonDarling) -> str:
    """What the Anderson-Darling test says at its critical values."""
    if test.statistic > test.critical_values[0.01]:
        return "not Gaussian (1 %)"
    return "in doubt (15 %)" if test.statistic > test.critical_values[0.15] else "may be Gaussian"


def accounted_parties(report: Report) -> dict[str, Guarantee]:
    """The upper bounds of a client and a canary, and those of single attackers if different."""
    if report.analytical is None:
        return {}
    plain = {"Real client": report.analytical.client, "Included canary": report.analytical.canary}
    by_attacker = {
        f"{party}, attacker {Attacker(name).words}": bound
        for name, bounds in report.attackers.items()
        for party, bound in zip(plain, (bounds.client, bounds.canary), strict=True)
        if bound != plain[party]
    }
    return plain | by_attacker


def accounting_rows(report: Report) -> list[tuple[str | tuple[str, str], ...]]:
    """The upper bounds by party and accountant: party, rounds, accountant with a note, epsilon."""
    return [
        (
            party,
            _rounds_words(bound),
            (
                ACCOUNTANT_TITLES.get(by.accountant, by.accountant),
                by.reason or _at_least_words(bound, by),
            ),
            "–" if by.accountant == "none_known" else upper_bound_text(by.epsilon),
        )
        for party, bound in accounted_parties(report).items()
        for by in bound.by_accountant
    ]


def _rounds_words(bound: Guarantee) -> str:
    """The largest number of a party's rounds; "random" if they are secret."""
    if bound.participations is not None:
        return count(bound.participations, "round")
    is_unknown = any(by.reason == HOW_OFTEN_UNKNOWN for by in bound.by_accountant)
    return "not stated" if is_unknown else "random"


def _at_least_words(guarantee: Guarantee, by: AccountedEpsilon) -> str:
    """Accounting's lower bound on epsilon, if `by` is the tightest upper bound; else empty."""
    if guarantee.at_least is None or by.epsilon is None or by.epsilon != guarantee.epsilon:
        return ""
    return f"at least {lower_bound_text(guarantee.at_least)}, by a lower bound against one attacker"


def if_gaussian(bounds: GaussianEfficiency | None) -> str:
    """The bounds for Gaussian mechanisms; empty if they do not apply."""
    if bounds is None:
        return ""
    least = "none" if bounds.lower_bound is None else lower_bound_text(bounds.lower_bound)
    reachable = lower_bound_text(bounds.reachable)
    return f"if the mechanism is Gaussian: lower bound {least}, reachable {reachable}"


@dataclass(frozen=True)
class AttackerRisk:
    """The privacy curves against one attacker, and the statistic that represents it, if any."""

    title: str
    curves: FullGuarantees
    attack: str | None  # the statistic's title
    measured: StatisticReport | None

    @property
    def parties(self) -> dict[str, FullGuarantee]:
        """The curve of each party; one entry if both curves are equal."""
        if self.curves.client == self.curves.canary:
            return {"Client or canary": self.curves.client}
        return {"Real client": self.curves.client, "Included canary": self.curves.canary}

    @property
    def rates(self) -> list[float]:
        """The false positive rates with a bound; empty if no curve is known."""
        return [
            at.false_positive_rate for at in self.curves.client.found or self.curves.canary.found
        ]

    def found(self, false_positive_rate: float) -> str:
        """The attack's true positive rate with its interval, in words; or why it is not known."""
        if self.measured is None:
            return "–"
        for by_null in self.measured.found:
            if by_null.false_positive_rate == false_positive_rate:
                return _with_ends(by_null.true_positive_rate, by_null.lower, by_null.upper)
        points = () if self.measured.roc is None else self.measured.roc.operating_points
        point = {at.false_positive_rate: at for at in points}.get(false_positive_rate)
        if point is None or point.interval is None:
            return f"too few excluded ({self.measured.num_excluded:,}) to tell"
        return _with_ends(point.true_positive_rate, point.interval.lower, point.interval.upper)

    def sentence(self, rate: float) -> str:
        """Upper bound and measured rate at one false positive rate."""
        client, canary = (
            most_detected(full, rate) for full in (self.curves.client, self.curves.canary)
        )
        canaries = "" if canary == client else f", {canary} for canaries"
        by_attack = (
            "" if self.attack is None else f"; measured by {self.attack}: {self.found(rate)}"
        )
        return (
            f"false positive rate {100 * rate:g} %: true positive rate {client} for clients"
            f"{canaries}{by_attack}"
        )


def attacker_risks(report: Report) -> list[AttackerRisk]:
    """The privacy curves by attacker; one entry for attackers who face the same curves."""
    distinct: dict[str, FullGuarantees] = {}
    for name, against in report.attackers.items():
        if against.in_full is not None and against.in_full not in distinct.values():
            distinct[name] = against.in_full
    risks = []
    for name, in_full in distinct.items():
        is_alone = len(distinct) == 1
        statistic = _leading_of(report, [*Attacker] if is_alone else [name])
        title = "Any attacker" if is_alone else f"An attacker {Attacker(name).words}"
        attack = None if statistic is None else title_of(statistic)
        measured = report.statistics.get(statistic or "")
        risks.append(AttackerRisk(title, in_full, attack, measured))
    return risks


def _leading_of(report: Report, attackers: Iterable[str]) -> str | None:
    """The first statistic of the strongest of `attackers`, whatever the scores, if any."""
    efficiency, known = report.efficiency, set(attackers)
    names = (name for name in strongest_first(report.statistics) if name in efficiency)
    return next((name for name in names if efficiency[name].attacker in known), None)


def most_detected(full: FullGuarantee, false_positive_rate: float) -> str:
    """The largest true positive rate that a privacy curve allows any attacker, in words."""
    share = {at.false_positive_rate: at.true_positive_rate for at in full.found}
    rate = share.get(false_positive_rate)
    return "unknown" if rate is None else f"≤ {upper_bound_text(100 * rate)} %"


def percent(share: float) -> str:
    return f"{significant(100 * share)} %"


def ends_words(interval: Interval) -> str:
    return f"{significant(interval.lower)} … {significant(interval.upper)}"


def _with_ends(rate: float, lower: float, upper: float) -> str:
    return f"{percent(rate)} ({significant(100 * lower)} … {significant(100 * upper)})"


def mu_words(full: FullGuarantee) -> str:
    """The mu of an upper bound, and any smaller mu that holds except with a small probability."""
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
    """Epsilon at several deltas; if none is known, the reason."""
    points = (f"{upper_bound_text(p.epsilon)} at {delta_text(p.delta)}" for p in full.profile)
    return ", ".join(points) or str(full.unknown)


def risk_lines(report: Report) -> list[str]:
    """The privacy curves, a line per party and per false positive rate."""
    lines = []
    for risk in attacker_risks(report):
        lines += ["", f"upper bounds in full: {risk.title[0].lower()}{risk.title[1:]}"]
        for party, full in risk.parties.items():
            profile = profile_words(full)
            curve = f"μ {mu_words(full)}, ρ {rho_words(full)}, ε ≤ {profile} (δ)"
            lines.append(f"  {party.lower()}: {curve if full.profile else f'none ({profile})'}")
        lines += [f"  {risk.sentence(rate)}" for rate in risk.rates]
    return lines
