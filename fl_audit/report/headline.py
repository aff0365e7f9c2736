"""The answer of an audit: three numbers and a sentence on one attacker."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from fl_audit.accounting import Accounting, Guarantee, Guarantees
from fl_audit.accounting.sampling import ADD_OR_REMOVE, ZERO_OUT
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS, Knowledge
from fl_audit.estimators import Estimate
from fl_audit.number_words import (
    count,
    epsilon_text,
    lower_bound_text,
    share_text,
    upper_bound_text,
)
from fl_audit.report.report import AS_THE_LOG_STATES, NOT_KNOWN, Report, StatisticReport
from fl_audit.verdict.scope import is_about_sampling

ESTIMATE = "shift_fit"
"""The method of the estimate."""

INDENT = 14
"""Width of the label column on the terminal."""

BOUNDS = ("live", "threshold_valid", "one_run_valid")
"""Methods of the lower bound by precedence: the first one valid at its confidence is shown."""


@dataclass(frozen=True)
class Combined:
    """A bound, or an estimate with its interval, over several runs; otherwise as `Estimate`."""

    epsilon: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Answer:
    """One of the three numbers in words."""

    label: str  # "upper bound", "lower bound" or "estimate"
    value: str  # the number with its relation, such as "ε ≤ 15.2", or "none"
    rest: str = ""  # the number's scope, with the mark that separates it from the value
    also: str = ""  # the upper bound for a client, on a line below; may be empty


@dataclass(frozen=True)
class Headline:
    """The answer of an audit. Empty strings mean that there is nothing to say.

    Attributes:
      upper_bound: The accounted epsilon of a canary against this attacker, possibly infinite; None
        if unknown.
      to_canary: The upper bound's party and source, in words that follow the number.
      to_client: The upper bound for a client, in words, if it differs from the canary's.
      why_unknown: Why the upper bound is unknown.
      lower_bound: A lower bound that is valid at its confidence; None without any.
      estimated: The estimate of the epsilon that the attack attains.
      sees: The attacker's view, in words that follow "the attacker has".
      hidden: The upper bound for a client whose rounds are secret, in words, if `upper_bound` is
        for known rounds.
      most_of: The number of canaries, if the attack made no error, so that the lower bound is the
        largest that its method allows with this number.
      estimate_is_over: The canaries over which the estimate is a mean, in words, if these canaries
        differ in arm or number of rounds; None if they are alike.
      turned_round: The lower bound of the negated scores, if included canaries score significantly
        below excluded ones.
      why_no_bound: Why there is no lower bound, in words that follow "because".
      why_no_estimate: Why there is no estimate, in words that follow "because".
    """

    upper_bound: float | None
    why_unknown: str
    lower_bound: Estimate | Combined | None
    estimated: Estimate | Combined | None
    confidence: float
    sees: str
    threat_model: str = ""
    to_canary: str = " for a canary"
    to_client: str = ""
    hidden: str = ""
    lower_bound_if: str = "for any mechanism"
    most_of: int | None = None
    turned_round: float | None = None
    estimate_is_over: str | None = None
    why_no_bound: str = "no valid method applies to these scores"
    why_no_estimate: str = f"{ESTIMATE} does not apply to these scores"

    def lines(self) -> list[str]:
        """The three numbers and the sentence, each after its label."""
        numbers = [
            line
            for answer in self.answers()
            for line in (
                f"{answer.label:<{INDENT}}{answer.value}{answer.rest}",
                f"{'':<{INDENT}}{answer.also}" if answer.also else "",
            )
            if line
        ]
        sentence = self.sentence()
        start = "Threat model "
        if sentence.startswith(start):
            sentence = f"{start.lower():<{INDENT}}{sentence.removeprefix(start)}"
        return [*numbers, sentence]

    def answers(self) -> tuple[Answer, ...]:
        """The upper bound from accounting, and the audit's lower bound and estimate."""
        return (
            Answer("upper bound", *self._guarantee(), self.to_client),
            Answer("lower bound", *self._proof()),
            Answer("estimate", *self._estimate()),
        )

    def sentence(self) -> str:
        """The attacker, the lower bound and the upper bound, in one sentence."""
        attacker = self.threat_model or "This attack"
        if self.sees:
            attacker = f"Threat model {attacker} (the attacker has {self.sees})"
        least = 0.0 if self.lower_bound is None else self.lower_bound.epsilon
        if least == 0 and self.turned_round is not None:
            return (
                f"{attacker}: included canaries score below excluded ones: wrong sign? The "
                f"negated scores show ε ≥ {lower_bound_text(self.turned_round)}."
            )
        if least == 0:
            untested = "without a lower bound, nothing is proven"
            found = untested if self.lower_bound is None else "no leakage was detected"
            return f"{attacker}: {found}."
        audited = f"{attacker}: audited ε ≥ {lower_bound_text(least)}"
        if self.upper_bound is None:
            return f"{audited}."
        if math.isinf(self.upper_bound):
            return f"{audited}; accounting gives no upper bound."
        most = upper_bound_text(self.upper_bound)
        if least > self.upper_bound:
            return (
                f"{audited}, above the upper bound {most}: the mechanism is not as configured, "
                f"with {100 * self.confidence:g} % confidence."
            )
        return f"{audited}, {share_text(least, self.upper_bound)} % of the upper bound {most}."

    def most(self) -> float:
        """The upper bound; infinite if unknown."""
        return math.inf if self.upper_bound is None else self.upper_bound

    def lower_bound_epsilon(self) -> float | None:
        return None if self.lower_bound is None else self.lower_bound.epsilon

    def _guarantee(self) -> tuple[str, str]:
        if self.upper_bound is None:
            return "unknown", f" ({self.why_unknown})"
        if math.isinf(self.upper_bound):
            return "none", ", because no noise is added"
        most = f"ε ≤ {upper_bound_text(self.upper_bound)}"
        if self.hidden:
            return self.hidden, f" for a client; {most}{self.to_canary}"
        return most, self.to_canary

    def _proof(self) -> tuple[str, str]:
        if self.lower_bound is None:
            return "none", f", because {self.why_no_bound}"
        most = (
            ""
            if self.most_of is None
            else f", the most that this method can prove with {self.most_of:,} canaries"
        )
        attacker = f" {_KNOWS}" if self.hidden else ""
        return (
            f"ε ≥ {lower_bound_text(self.lower_bound.epsilon)}",
            f" for a canary{attacker}, with {100 * self.confidence:g} % confidence, "
            f"{self.lower_bound_if}{most}",
        )

    def _estimate(self) -> tuple[str, str]:
        """The estimate and its interval, both capped at an upper bound inside the interval."""
        estimate = self.estimated
        if estimate is None or estimate.lower is None or estimate.upper is None:
            return "none", f", because {self.why_no_estimate}"
        within = self.estimate_within()
        if within is None:
            fit = epsilon_text(estimate.epsilon)
            return "none", (
                ": canaries differ too much for a one-parameter Gaussian fit (the best gives "
                f"{fit}, below the lower bound)"
            )
        lower, upper = self.interval_within() or (within, within)
        middle, start = f"ε ≈ {epsilon_text(within)}", f" ({epsilon_text(lower)} … "
        if lower > self.most():
            return middle, f"{start}{epsilon_text(upper)}), above the upper bound"
        is_capped = upper < estimate.upper
        end = f"{upper_bound_text(upper)}, capped at the upper bound" if is_capped else ""
        below = ", below the lower bound" if self.is_estimate_below else ""
        over = self.estimate_is_over
        mean = "" if over is None else f", a mean over {over}, not the ε of any single canary"
        ends = f"{start}{end or epsilon_text(upper)})"
        return middle, f"{ends}{mean}, if the noise is Gaussian{below}"

    @property
    def is_estimate_below(self) -> bool:
        """Whether the estimate is below a lower bound within its interval."""
        estimate, least = self.estimate_within(), self.lower_bound_epsilon() or 0.0
        return estimate is not None and estimate < least <= self.most()

    def estimate_within(self) -> float | None:
        """The estimate, capped at the upper bound unless its whole interval exceeds that bound.

        If the interval contains the upper bound, an estimate above it may be chance. None without
        an estimate, and if the lower bound is above the estimate's interval: canaries' shifts then
        differ so much that fitting one shift to all does not estimate epsilon.
        """
        estimate = self.estimated
        if estimate is None or (
            estimate.upper is not None and estimate.upper < (self.lower_bound_epsilon() or 0)
        ):
            return None
        if estimate.lower is None or self.upper_bound is None:
            return estimate.epsilon
        if estimate.lower > self.upper_bound:
            return estimate.epsilon
        return min(estimate.epsilon, self.upper_bound)

    def interval_within(self) -> tuple[float, float] | None:
        """The interval, capped as in `estimate_within`; None if interval or estimate is missing."""
        fit = self.estimated
        if fit is None or fit.lower is None or fit.upper is None or self.estimate_within() is None:
            return None
        return fit.lower, fit.upper if fit.lower > self.most() else min(fit.upper, self.most())


@dataclass(frozen=True)
class NoAudit(Headline):
    """The headline of a run without canaries."""

    def sentence(self) -> str:
        return "This run had no canaries, so nothing was audited."

    def _proof(self) -> tuple[str, str]:
        return "none", ", because the run had no canaries"

    _estimate = _proof


def headline(report: Report) -> Headline:
    """The headline on the strongest attacker (under sampling, of those who do not know cohorts)."""
    if not report.statistics:
        return _without_canaries(report)
    name = strongest_first(report.statistics, report.is_sampled)[0]
    against = report.upper_bounds_against(name)
    view = report.view_of(report.statistics[name].threat_model)
    is_known = view.title != NOT_KNOWN.title
    made = dataclasses.replace(
        headline_on(report, name),
        sees=view.sees if is_known else "",
        threat_model=view.title if is_known else "",
        estimate_is_over=report.estimate_is_over,
    )
    if against is None:
        return dataclasses.replace(made, why_unknown=report.why_not_accounted)
    canary = against.canary
    return dataclasses.replace(
        made,
        to_canary=_to_canary(against, report),
        to_client=_to_client(against, report),
        hidden=_hidden(against, report),
        why_unknown=str(canary.by_accountant[0].reason) if canary.epsilon is None else "",
    )


def _without_canaries(report: Report) -> NoAudit:
    """The headline of a run without canaries, with the upper bound for a client."""
    made = NoAudit(None, report.why_not_accounted, None, None, report.confidence, "")
    if report.analytical is None:
        return made
    client = report.analytical.client
    other = _by_attacker(Guarantees(client, report.analytical.canary), report)
    by = f"from accounting{_relation(report.analytical)}"
    return dataclasses.replace(
        made,
        upper_bound=client.epsilon,
        why_unknown=str(client.by_accountant[0].reason) if client.epsilon is None else "",
        to_canary=f" for a client{_rounds(client)}{other}, {by}",
    )


def headline_on(report: Report, name: str) -> Headline:
    """The headline on a statistic; words on the statistic's attacker are left empty."""
    statistic, against = report.statistics[name], report.upper_bounds_against(name)
    bounds = filter(None, map(statistic.estimate_by, BOUNDS))
    lower_bound = next((bound for bound in bounds if bound.valid_for is not None), None)
    is_most = lower_bound is not None and lower_bound.is_without_error
    tried = {*statistic.left_out, *(estimate.method for estimate in statistic.estimates)}
    why_none = {}
    if tried.isdisjoint(BOUNDS):
        why_none["why_no_bound"] = "--methods leaves out every valid method"
    if ESTIMATE not in tried:
        why_none["why_no_estimate"] = f"--methods leaves out {ESTIMATE}"
    return Headline(
        upper_bound=None if against is None else against.canary.epsilon,
        why_unknown="",
        lower_bound=lower_bound,
        lower_bound_if=_lower_bound_if(lower_bound),
        most_of=statistic.num_included + statistic.num_excluded if is_most else None,
        turned_round=statistic.turned_round,
        estimated=statistic.estimate_by(ESTIMATE),
        confidence=report.confidence,
        sees="",
        **why_none,
    )


_KNOWS = f"against an attacker {Attacker.KNOWS_ROUNDS.words}"


def _to_canary(against: Guarantees, report: Report) -> str:
    """The upper bound's parties (a client too if the bound is equal) and its source."""
    assert report.analytical is not None  # `against` is of accounting
    canary, client = against.canary, against.client
    stated = f" {AS_THE_LOG_STATES}" if report.is_stated_by_log else ""
    by = f", from accounting{stated}{_relation(report.analytical)}"
    known = _against_both(report)
    is_same = client.epsilon is not None and client.epsilon == canary.epsilon
    if known is not None and against == known[1]:
        whom = _KNOWS if is_same else f"for a canary{_rounds(canary)} {_KNOWS}"
        return f" {whom}{by}"
    whom = f" for a canary, and for a client{_rounds(client)}" if is_same else ""
    whom = whom or f" for a canary{_rounds(canary)}"
    return f"{whom}{_by_attacker(against, report) if is_same else ''}{by}"


def _to_client(against: Guarantees, report: Report) -> str:
    """The upper bound for a client, if it differs from that for a canary."""
    client = against.client
    if client.epsilon is None or client.epsilon == against.canary.epsilon:
        return ""
    known = _against_both(report)
    if known is not None and against == known[1]:
        return f"ε ≤ {upper_bound_text(client.epsilon)} for a client {_KNOWS}"
    most = f"ε ≤ {upper_bound_text(client.epsilon)} for a client{_rounds(client)}"
    return f"{most}{_by_attacker(against, report)}"


def _against_both(report: Report) -> tuple[Guarantees, Guarantees] | None:
    """Upper bounds without and with knowledge of who was sampled; None unless a client's differ."""
    hidden = report.attackers.get(Attacker.DOES_NOT_KNOW_ROUNDS)
    known = report.attackers.get(Attacker.KNOWS_ROUNDS)
    if hidden is None or known is None:
        return None
    to_clients = hidden.client.epsilon, known.client.epsilon
    return None if None in to_clients or to_clients[0] == to_clients[1] else (hidden, known)


def _by_attacker(against: Guarantees, report: Report) -> str:
    """Words that follow a client's upper bound: the bound against another attacker, if unequal."""
    uploads = report.attackers.get(Attacker.SEES_UPLOADS)
    sums = report.attackers.get(Attacker.KNOWS_ROUNDS)
    if against == uploads and sums is not None:
        of_sums = f"ε ≤ {upper_bound_text(sums.client.epsilon)} for a client"
        against_uploads = f"against an attacker {Attacker.SEES_UPLOADS.words}"
        return f" {against_uploads}; {of_sums} against an attacker who sees sums"
    both = _against_both(report)
    return "" if both is None else f"; ε ≤ {upper_bound_text(both[1].client.epsilon)} {_KNOWS}"


def _hidden(against: Guarantees, report: Report) -> str:
    """A client's upper bound for secret rounds, if `against` is for known rounds; else empty."""
    both = _against_both(report)
    if both is None or against != both[1]:
        return ""
    return f"ε ≤ {upper_bound_text(both[0].client.epsilon)}"


def _relation(analytical: Accounting) -> str:
    """The neighbouring relation of accounting in a few words; may be empty."""
    name = {ADD_OR_REMOVE: "add or remove one", ZERO_OUT: "zero-out"}.get(analytical.neighbours)
    return "" if name is None else f" (neighbours: {name})"


def _rounds(party: Guarantee) -> str:
    """The largest number of a party's rounds, in words; empty if secret or unknown."""
    if party.participations is None:
        return ""
    rounds = party.participations
    return " in one round" if rounds == 1 else f" in up to {count(rounds, 'round')}"


def _lower_bound_if(lower_bound: Estimate | None) -> str:
    if lower_bound is not None and lower_bound.valid_for == "independent scores":
        return "if canaries’ scores are independent"
    return "for any mechanism"


def strongest_first(
    statistics: Mapping[str, StatisticReport], is_sampled: bool = False
) -> list[str]:
    """The first statistic of every threat model, strongest attacker first.

    If clients are sampled (`is_sampled`), attackers who know the sampled cohort bypass the
    sampling, and are left out if other attackers remain.
    """
    hidden = {n: s for n, s in statistics.items() if not is_sampled or _hides(n, s)}
    first: dict[str, str] = {}
    for name, statistic in (hidden or statistics).items():
        first.setdefault(statistic.threat_model, name)
    return sorted(first.values(), key=lambda name: _place(statistics[name]))


def _place(statistic: StatisticReport) -> int:
    """Sort key of a statistic's attacker, strongest first; unknown attackers last.

    It must not depend on scores: a bound selected by its value would not hold.
    """
    model = THREAT_MODELS.get(statistic.threat_model)
    return -(statistic.knows or 0) if model is None else -model.knows


def _hides(name: str, statistic: StatisticReport) -> bool:
    known = STATISTICS.get(name)
    if known is None:
        return statistic.knows != Knowledge.EVERY_ROUND_AND_SCHEDULE
    return is_about_sampling(known)
