"""The answer of an audit: three numbers and a sentence about one attacker, and the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fl_audit.accounting import Guarantee
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS, Knowledge, title_of
from fl_audit.estimators import Estimate
from fl_audit.number_words import (
    count,
    epsilon_text,
    lower_bound_text,
    share_text,
    significant,
    upper_bound_text,
)
from fl_audit.report.report import NOT_KNOWN, Guarantees, Report, StatisticReport
from fl_audit.report.tables import Note
from fl_audit.verdict import Claim, Verdict
from fl_audit.verdict.decision import AgainstAttacker, AsCurve, detectable_words
from fl_audit.verdict.power import ENOUGH_POWER
from fl_audit.verdict.scope import is_about_sampling

ESTIMATE = "shift_fit"
"""The method of the estimate."""

INDENT = 14
"""The width of a label in front of an answer on the terminal."""

BOUNDS = ("live", "threshold_valid", "one_run_valid")
"""The methods of the bound: the first that was made and holds at its confidence."""


class Numbers(Protocol):
    """An estimate with its interval, or a bound."""

    @property
    def epsilon(self) -> float:
        """The value to report first."""

    @property
    def lower(self) -> float | None:
        """Lower end of a bound or interval; None for a point estimate."""

    @property
    def upper(self) -> float | None:
        """Upper end of an interval; None for other kinds."""


@dataclass(frozen=True)
class Answer:
    """One of the three numbers in words.

    Attributes:
      label: What the number is: "upper bound", "lower bound" or "estimate".
      value: The number with its relation, such as "ε ≤ 15.2", or "none".
      rest: What it holds for, with the mark that separates it from the value.
    """

    label: str
    value: str
    rest: str = ""


@dataclass(frozen=True)
class Headline:
    """The answer of an audit.

    Attributes:
      guaranteed: What the noise guarantees a canary against this attacker, possibly infinite; None
        where not known.
      to_parties: Whom the guarantee is for, and what a client has who takes part more often, in
        words that follow the number; empty where it is not known.
      why_unknown: Why the guarantee is not known, in words; empty where it is.
      proven: A lower bound that holds for any mechanism at its confidence; None where the scores
        allow none.
      estimated: The estimate of what the attack attains; None where the scores allow none.
      confidence: Confidence of the bound and of the estimate's interval.
      sees: What the attacker sees, in words that follow "attacker with"; empty where it is not
        known.
      proven_if: What the bound assumes, in a few words.
    """

    guaranteed: float | None
    why_unknown: str
    proven: Numbers | None
    estimated: Numbers | None
    confidence: float
    sees: str
    to_parties: str = " for a canary"
    proven_if: str = "for any mechanism"

    def lines(self) -> list[str]:
        """The three numbers and the sentence."""
        numbers = [f"{made.label:<{INDENT}}{made.value}{made.rest}" for made in self.answers()]
        return [*numbers, self.sentence()]

    def answers(self) -> tuple[Answer, ...]:
        """The upper bound from accounting, the lower bound of the audit, and its estimate."""
        return (
            Answer("upper bound", *self._guarantee()),
            Answer("lower bound", *self._proof()),
            Answer("estimate", *self._estimate()),
        )

    def sentence(self) -> str:
        """The audited epsilon of the attacker, beside the upper bound, in one sentence."""
        attacker = f"Attacker with {self.sees}" if self.sees else "This attack"
        least = 0.0 if self.proven is None else self.proven.epsilon
        if least == 0:
            return f"{attacker}: no leakage was detected."
        audited = f"{attacker}: audited ε ≥ {lower_bound_text(least)}"
        if self.guaranteed is None:
            return f"{audited}."
        if math.isinf(self.guaranteed):
            return f"{audited}; accounting gives no upper bound."
        most = upper_bound_text(self.guaranteed)
        if least > self.guaranteed:
            return (
                f"{audited}, above the upper bound {most}: the mechanism is not as configured, "
                f"with {100 * self.confidence:g} % confidence."
            )
        return f"{audited}, {share_text(least, self.guaranteed)} % of the upper bound {most}."

    def most(self) -> float:
        """The epsilon that is guaranteed; infinite where nothing is known."""
        return math.inf if self.guaranteed is None else self.guaranteed

    def proven_epsilon(self) -> float | None:
        """The epsilon that is proven; None without a bound."""
        return None if self.proven is None else self.proven.epsilon

    def _guarantee(self) -> tuple[str, str]:
        if self.guaranteed is None:
            return "unknown", f" ({self.why_unknown})"
        if math.isinf(self.guaranteed):
            return "none", ", because no noise is added"
        most = f"ε ≤ {upper_bound_text(self.guaranteed)}"
        return most, f"{self.to_parties}, from accounting"

    def _proof(self) -> tuple[str, str]:
        if self.proven is None:
            return "none", ", because no valid method applies to these scores"
        return (
            f"ε ≥ {lower_bound_text(self.proven.epsilon)}",
            f" with {100 * self.confidence:g} % confidence, {self.proven_if}",
        )

    def _estimate(self) -> tuple[str, str]:
        """The estimate and its interval, cut off at a guarantee that the interval contains."""
        made = self.estimated
        if made is None or made.lower is None or made.upper is None:
            return "none", f", because {ESTIMATE} does not apply to these scores"
        within = self.estimate_within()
        if within is None:
            fit = epsilon_text(made.epsilon)
            return "none", (
                f": the Gaussian fit ({fit}) is below the lower bound, because canary scores vary "
                "too much"
            )
        middle = f"ε ≈ {epsilon_text(within)}"
        most = self.most()
        if made.lower > most:
            ends = f"{epsilon_text(made.lower)} … {epsilon_text(made.upper)}"
            return middle, f" ({ends}), above the upper bound"
        end = f"{upper_bound_text(most)}, capped at the upper bound" if made.upper > most else ""
        end = end or epsilon_text(made.upper)
        return middle, f" ({epsilon_text(made.lower)} … {end}), if the noise is Gaussian"

    def estimate_within(self) -> float | None:
        """The estimate; the guarantee where it is above, and its interval reaches below that.

        What is above the guarantee is then chance, as the mechanism may be as configured. None
        without an estimate, and where the bound exceeds its interval: canaries' shifts then differ
        so much that a fit of one shift to all is no estimate of the epsilon.
        """
        made = self.estimated
        if made is None or (made.upper is not None and made.upper < (self.proven_epsilon() or 0)):
            return None
        if made.lower is None or self.guaranteed is None:
            return made.epsilon
        if made.lower > self.guaranteed:
            return made.epsilon
        return min(made.epsilon, self.guaranteed)


@dataclass(frozen=True)
class NoAudit(Headline):
    """The headline of a run without canaries."""

    def sentence(self) -> str:
        """That nothing was audited."""
        return "This run had no canaries, so nothing was audited."


def headline(report: Report) -> Headline:
    """The headline of an audit, about the strongest attacker against whom its guarantee holds."""
    if not report.statistics:
        return NoAudit(None, "the run had no canaries", None, None, report.confidence, "")
    name, made = leading(report.statistics, report.is_sampled)
    against = report.guaranteed_against(name)
    model = report.threat_models.get(made.threat_model)
    sees = "" if model is None or model.title == NOT_KNOWN.title else model.sees
    if against is None:
        unknown = "the noise is not known"
        return headline_on(
            made, guaranteed=None, why_unknown=unknown, confidence=report.confidence, sees=sees
        )
    canary = against.canary
    return headline_on(
        made,
        guaranteed=canary.epsilon,
        to_parties=_to_parties(against),
        why_unknown=str(canary.by_accountant[0].reason) if canary.epsilon is None else "",
        confidence=report.confidence,
        sees=sees,
    )


def headline_on(
    made: StatisticReport,
    *,
    guaranteed: float | None,
    confidence: float,
    to_parties: str = " for a canary",
    why_unknown: str = "",
    sees: str = "",
) -> Headline:
    """The headline about one statistic.

    Args:
      made: What was estimated on the statistic.
      guaranteed: What the noise guarantees a canary; None where it is not known.
      confidence: Confidence of bounds and intervals.
      to_parties: Whom the guarantee is for, in words that follow the number.
      why_unknown: Why the guarantee is not known, in words.
      sees: What the attacker sees, in words that follow "attacker with".
    """
    bounds = filter(None, map(made.estimate_by, BOUNDS))
    proven = next((bound for bound in bounds if bound.valid_for is not None), None)
    return Headline(
        guaranteed=guaranteed,
        to_parties=to_parties,
        why_unknown=why_unknown,
        proven=proven,
        proven_if=_proven_if(proven),
        estimated=made.estimate_by(ESTIMATE),
        confidence=confidence,
        sees=sees,
    )


def _to_parties(against: Guarantees) -> str:
    """Whom a guarantee is for; also what a client has, where that is another number."""
    canary, client = against.canary, against.client
    if client.epsilon is None or client.epsilon == canary.epsilon:
        return f" for a canary{_rounds(canary)}"
    return (
        f" for a canary{_rounds(canary)}, {upper_bound_text(client.epsilon)} for a client"
        f"{_rounds(client)}"
    )


def _rounds(party: Guarantee) -> str:
    """How often a party takes part; nothing where sampling decides."""
    if party.participations is None:
        return ""
    rounds = party.participations
    return " (one round)" if rounds == 1 else f" (up to {count(rounds, 'round')})"


def _proven_if(proven: Estimate | None) -> str:
    if proven is not None and proven.valid_for == "independent scores":
        return "if canaries’ scores are independent"
    return "for any mechanism"


def strongest_first(
    statistics: Mapping[str, StatisticReport], is_sampled: bool = False
) -> list[str]:
    """The first statistic of every threat model by name, that of the strongest attacker first.

    Args:
      statistics: The statistics by name.
      is_sampled: Whether sampling decides who takes part, which an attacker who knows who was
        sampled undoes; such attackers are then left out if there is another.
    """
    first: dict[str, str] = {}
    for name, made in _hidden_from(statistics, is_sampled).items():
        first.setdefault(made.threat_model, name)
    return sorted(first.values(), key=lambda name: _place(statistics[name]))


def leading(
    statistics: Mapping[str, StatisticReport], is_sampled: bool
) -> tuple[str, StatisticReport]:
    """The first statistic of the strongest attacker, and its name, as `strongest_first` has it."""
    name = strongest_first(statistics, is_sampled)[0]
    return name, statistics[name]


def _hidden_from(
    statistics: Mapping[str, StatisticReport], is_sampled: bool
) -> Mapping[str, StatisticReport]:
    """The statistics of attackers who do not know who was sampled, where anybody was and any do."""
    known = {
        name: made for name, made in statistics.items() if not is_sampled or _hides(name, made)
    }
    return known or statistics


def _place(made: StatisticReport) -> int:
    """The place of a statistic's attacker among the strongest; unknown ones are behind.

    Scores must not decide which one leads, or its bound would not hold.
    """
    model = THREAT_MODELS.get(made.threat_model)
    return -(made.knows or 0) if model is None else -model.knows


def _hides(name: str, made: StatisticReport) -> bool:
    statistic = STATISTICS.get(name)
    if statistic is None:
        return made.knows != Knowledge.EVERY_ROUND_AND_SCHEDULE
    return is_about_sampling(statistic)


_MEANINGS = {
    "contradicted": (
        "Either the claim is false for this run, or an assumption below is, or this is one of the "
        "errors that the confidence level allows."
    ),
    "consistent": (
        "This is not a proof: a lower bound never is one, and another attack may find what this "
        "one missed."
    ),
    "inconclusive": "The audit says nothing for or against the claim: it had too little power.",
}


_STANDS_FOR_CLIENTS = (
    "A canary is such a client and takes part no more often, so a bound for the canary counts."
)
_STANDS_FOR_THOSE_LIKE_IT = (
    "How often clients take part is not known here: a bound for a canary counts for clients that "
    "take part as often as canaries did, and a claim about more rounds was not tested."
)


@dataclass(frozen=True)
class VerdictBanner:
    """What the page says of a claim.

    Attributes:
      outcome: "contradicted", "consistent" or "inconclusive".
      claim: The claim in words.
      reason: Why the outcome was reached.
      meaning: What the outcome means, and what it does not mean.
      facts: How the outcome was reached.
      against: What was found against each attacker, where the claim is a curve.
    """

    outcome: str
    claim: str
    reason: str
    meaning: str
    facts: tuple[Note, ...]
    against: tuple[Note, ...]


def verdict_banner(report: Report) -> VerdictBanner | None:
    """The banner of a report; None without a claim."""
    verdict = report.verdict
    if verdict is None:
        return None
    reason = verdict.reason
    return VerdictBanner(
        outcome=verdict.outcome,
        claim=verdict.claim.words,
        reason=f"{reason[0].upper()}{reason[1:]}.",
        meaning=_MEANINGS[verdict.outcome],
        facts=tuple(_facts(verdict, report)),
        against=tuple(_against(found, report) for found in verdict.against),
    )


def _against(found: AgainstAttacker, report: Report) -> Note:
    model = report.threat_models.get(found.threat_model, NOT_KNOWN)
    if not found.is_contradicted:
        return Note(model.title, "not contradicted")
    return Note(model.title, f"contradicted (p ≤ {significant(found.p_value, 2)})")


def _facts(verdict: Verdict, report: Report) -> list[Note]:
    return [
        Note("Claim", _claim(verdict, report)),
        Note("Accounting", _accounting(verdict, report)),
        Note("Looked at", _looks(verdict)),
        *_evidence(verdict),
    ]


def _claim(verdict: Verdict, report: Report) -> str:
    claim = f"for a {verdict.claim.whom}: one more or less, or one that sends nothing."
    if verdict.p_value is None or verdict.claim.whom == "canary":
        return claim
    return f"{claim} {_STANDS_FOR_THOSE_LIKE_IT if report.run is None else _STANDS_FOR_CLIENTS}"


def _accounting(verdict: Verdict, report: Report) -> str:
    """What the noise as configured would guarantee whom the claim is for, beside the claim."""
    made, whom = report.analytical, verdict.claim.whom
    epsilon = None if made is None else (made.canary if whom == "canary" else made.client).epsilon
    if epsilon is None:
        return "not known for this run"
    beside = "above" if epsilon > verdict.claim.epsilon else "not above"
    return (
        f"ε ≤ {epsilon_text(epsilon)} for a {whom} with the noise as configured, which is "
        f"{beside} the claim; the verdict does not use this number"
    )


def _looks(verdict: Verdict) -> str:
    num, confidence = verdict.num_tests, verdict.confidence
    if not isinstance(verdict.claim, Claim):
        return f"{count(num, 'test')} of the curve, which hold together at {100 * confidence:g} %"
    each = f"{count(num, 'lower bound')}, valid for any mechanism"
    if num == 1:
        return f"{each}, at {100 * confidence:g} %"
    corrected = 1 - (1 - confidence) / num
    return f"{each}, each at {100 * corrected:.5g} % so that all hold at {100 * confidence:g} %"


def _as_curve(found: AsCurve) -> str:
    """What a claimed point would have been told as a Gaussian curve."""
    outcome = "would be contradicted" if found.is_contradicted else "would not be contradicted"
    return (
        f"the Gaussian curve through the claim, μ ≤ {significant(found.mu)}, {outcome} "
        f"(p ≤ {significant(found.p_value, 2)}); claim it as one where that is what is meant"
    )


def _evidence(verdict: Verdict) -> list[Note]:
    facts = []
    if verdict.statistic is not None and verdict.assumes is not None:
        title = title_of(verdict.statistic)
        epsilon = epsilon_text(verdict.epsilon_lower)
        by = f"by {verdict.method} on “{title}”"
        if isinstance(verdict.claim, Claim):
            facts.append(Note("Largest bound", f"ε ≥ {epsilon} {by}"))
        else:
            facts.append(Note("Smallest p-value", by))
        facts.append(Note("It assumes", verdict.assumes))
    if verdict.p_value is not None:
        facts.append(Note("p-value", f"at most {significant(verdict.p_value, 2)}"))
    if verdict.as_curve is not None:
        facts.append(Note("As a curve", _as_curve(verdict.as_curve)))
    if verdict.power is not None:
        facts.append(
            Note(
                "Power",
                f"{detectable_words(verdict.detectable_epsilon)}; ε = "
                f"{verdict.simulated_epsilon:g} in {100 * verdict.power:.3g} % of simulations, "
                f"where consistent takes {100 * ENOUGH_POWER:g} %",
            )
        )
    return facts
