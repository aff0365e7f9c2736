"""Guarantees in full and what they mean, beside what the attack found: rows and lines.

An attacker who may take one in a thousand of those who did not participate for a participant finds
at most so many of the participants: that is read from the curve of the guarantee. Beside it stands
what the attack of this audit found at the same false alarm rate, by the known null distribution or
by the excluded canaries: no more, but for chance.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from fl_audit.accounting import FullGuarantee
from fl_audit.attacks.threat_models import title_of
from fl_audit.number_words import delta_text, significant, upper_bound_text
from fl_audit.report.headline import strongest_first
from fl_audit.report.report import FullGuarantees, Report, StatisticReport

_ATTACKERS = {
    "knows_rounds": "An attacker who knows the participation schedule",
    "does_not_know_rounds": "An attacker who does not know the participation schedule",
    "sees_uploads": "An attacker who sees single uploads",
}


@dataclass(frozen=True)
class CurveRow:
    """The curve of the guarantee to one party.

    Attributes:
      party: The party.
      mu: The mu of Gaussian differential privacy, in words.
      rho: The rho of zero-concentrated differential privacy, in words.
      profile: Epsilon at several deltas, in words; the reason where nothing is known.
      is_known: Whether epsilon is known at any delta.
    """

    party: str
    mu: str
    rho: str
    profile: str
    is_known: bool = True

    @property
    def line(self) -> str:
        """The row as a line of text."""
        if not self.is_known:
            return f"{self.party.lower()}: none ({self.profile})"
        return f"{self.party.lower()}: μ {self.mu}, ρ {self.rho}, ε ≤ {self.profile} (δ)"


@dataclass(frozen=True)
class RiskRow:
    """What an attacker finds at a share of false alarms: at most, and in this audit.

    Attributes:
      false_alarms: The share of false alarms, in words.
      client: The share of participating clients that is found at most, in words.
      canary: The same share of canaries.
      rate_found: The share of included canaries that this audit's attack found, in words.
    """

    false_alarms: str
    client: str
    canary: str
    rate_found: str


@dataclass(frozen=True)
class AttackerRisk:
    """The guarantees in full against one attacker.

    Attributes:
      title: Who the attacker is.
      curves: A row per party.
      attack: The title of the statistic that stands for the attacker; None where there is none.
      risks: A row per share of false alarms; none where nothing is known.
    """

    title: str
    curves: tuple[CurveRow, ...]
    attack: str | None
    risks: tuple[RiskRow, ...]

    @property
    def curve_cells(self) -> list[tuple[str, ...]]:
        """The cells of the table of curves, by row."""
        return [(row.party, row.mu, row.rho, row.profile) for row in self.curves]

    @property
    def risk_cells(self) -> list[tuple[str, ...]]:
        """The cells of the table of shares, by row."""
        return [dataclasses.astuple(row) for row in self.risks]


def attacker_risks(report: Report) -> list[AttackerRisk]:
    """The guarantees in full by attacker; one where both attackers face the same ones."""
    distinct: dict[str, FullGuarantees] = {}
    for name, against in report.attackers.items():
        if against.in_full is not None and against.in_full not in distinct.values():
            distinct[name] = against.in_full
    return [_risk(report, name, in_full, len(distinct) == 1) for name, in_full in distinct.items()]


def _risk(report: Report, name: str, in_full: FullGuarantees, is_alone: bool) -> AttackerRisk:
    statistic = _leading_of(report, tuple(_ATTACKERS) if is_alone else (name,))
    measured = None if statistic is None else report.statistics[statistic]
    rates = in_full.client.found or in_full.canary.found
    return AttackerRisk(
        title="Any attacker" if is_alone else _ATTACKERS[name],
        curves=tuple(_curves(in_full)),
        attack=None if statistic is None else title_of(statistic),
        risks=tuple(
            RiskRow(
                false_alarms=f"{100 * at.false_positive_rate:g} %",
                client=_at_most(in_full.client, index),
                canary=_at_most(in_full.canary, index),
                rate_found="–"
                if measured is None
                else _detection_rate(measured, at.false_positive_rate),
            )
            for index, at in enumerate(rates)
        ),
    )


def _leading_of(report: Report, attackers: tuple[str, ...]) -> str | None:
    """The first statistic of the strongest such attacker, whatever the scores; None without any."""
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
    """The mu of a guarantee, with the one that holds except with a part of delta."""
    if full.mu is None:
        return "none known"
    mu = upper_bound_text(full.mu)
    if full.approximate_mu is None or full.tail is None:
        return mu
    approximate = upper_bound_text(full.approximate_mu)
    return f"{mu}, or {approximate} except with probability {delta_text(full.tail)}"


def rho_words(full: FullGuarantee) -> str:
    """The rho of a guarantee."""
    return "none known" if full.rho is None else upper_bound_text(full.rho)


def profile_words(full: FullGuarantee) -> str:
    """Epsilon at several deltas; the reason where nothing is known."""
    points = (f"{upper_bound_text(p.epsilon)} at {delta_text(p.delta)}" for p in full.profile)
    return ", ".join(points) or str(full.unknown)


def _at_most(full: FullGuarantee, index: int) -> str:
    if not full.found:
        return "unknown"
    return f"≤ {upper_bound_text(100 * full.found[index].true_positive_rate)} %"


def _detection_rate(statistic: StatisticReport, false_positive_rate: float) -> str:
    """What the attack found at a share of false alarms, with its interval."""
    known = next((p for p in statistic.found if p.false_positive_rate == false_positive_rate), None)
    if known is not None:
        ends = f"{significant(100 * known.lower)} … {significant(100 * known.upper)}"
        return f"{significant(100 * known.true_positive_rate)} % ({ends})"
    points = () if statistic.roc is None else statistic.roc.operating_points
    at = next((p for p in points if p.false_positive_rate == false_positive_rate), None)
    if at is None or at.interval is None:
        return f"too few excluded ({statistic.num_excluded:,}) to tell"
    ends = f"{significant(100 * at.interval.lower)} … {significant(100 * at.interval.upper)}"
    return f"{significant(100 * at.true_positive_rate)} % ({ends})"


def risk_sentence(risk: AttackerRisk, row: RiskRow) -> str:
    """What a guarantee means at a share of false alarms, beside what the attack found."""
    most = f"false positive rate {row.false_alarms}: true positive rate {row.client} for clients"
    canary = "" if row.canary == row.client else f", {row.canary} for canaries"
    by_attack = "" if risk.attack is None else f"; measured by {risk.attack}: {row.rate_found}"
    return f"{most}{canary}{by_attack}"


def risk_lines(report: Report) -> list[str]:
    """The guarantees in full, a line per party and per share of false alarms."""
    lines = []
    for risk in attacker_risks(report):
        lines += ["", f"upper bounds in full: {risk.title[0].lower()}{risk.title[1:]}"]
        lines += [f"  {row.line}" for row in risk.curves]
        lines += [f"  {risk_sentence(risk, row)}" for row in risk.risks]
    return lines
