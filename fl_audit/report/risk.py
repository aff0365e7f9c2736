"""Privacy curves of the upper bounds, in words, with the attack's measured rates.

The curve bounds the true positive rate of any attacker at a given false positive rate, such as
0.1 %. The attack's rate at the same false positive rate, by the known null distribution or by the
excluded canaries, exceeds that bound by chance only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fl_audit.accounting import FullGuarantee, FullGuarantees
from fl_audit.attacks.threat_models import title_of
from fl_audit.number_words import delta_text, significant, upper_bound_text
from fl_audit.report.headline import strongest_first
from fl_audit.report.report import ATTACKERS, Report, StatisticReport


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
    """The privacy curves against one attacker.

    Attributes:
      attack: Title of the statistic that represents the attacker, if any.
      risks: A row per false positive rate; empty if no curve is known.
    """

    title: str
    curves: tuple[CurveRow, ...]
    attack: str | None
    risks: tuple[RiskRow, ...]


def attacker_risks(report: Report) -> list[AttackerRisk]:
    """The privacy curves by attacker; one entry if both attackers face the same curves."""
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
    """The first statistic of the strongest such attacker, whatever the scores, if any."""
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
    """The mu of an upper bound, with the smaller one that holds up to a part of delta."""
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
