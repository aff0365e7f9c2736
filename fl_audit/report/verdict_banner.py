"""The verdict in words, for the top of the page."""

from dataclasses import dataclass

from fl_audit.attacks.statistics import title_of
from fl_audit.number_words import count, epsilon_text, significant
from fl_audit.report.folder_report import FolderReport
from fl_audit.report.method_table import Note
from fl_audit.report.model import Report, VerdictReport
from fl_audit.verdict.power import ENOUGH_POWER
from fl_audit.verdict.tested import detectable_words

_MEANINGS = {
    "contradicted": (
        "Either the claim does not hold for this run, or one of the assumptions below does not, or "
        "this is the chance that the confidence leaves."
    ),
    "consistent": (
        "This does not prove the claim: a lower bound never does, and the attack of this audit, "
        "which may be weaker than the simulated one, may have missed what another finds."
    ),
    "inconclusive": "Neither for nor against the claim: this audit could hardly have told.",
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
    """

    outcome: str
    claim: str
    reason: str
    meaning: str
    facts: tuple[Note, ...]


def verdict_banner(report: Report | FolderReport) -> VerdictBanner | None:
    """The banner of a report; None without a claim."""
    verdict = report.verdict
    if verdict is None:
        return None
    reason = verdict.reason
    return VerdictBanner(
        outcome=verdict.outcome,
        claim=(
            f"claimed ε\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}{verdict.claimed_epsilon:g} at "
            f"δ\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{report.delta:g}"
        ),
        reason=f"{reason[0].upper()}{reason[1:]}.",
        meaning=_MEANINGS[verdict.outcome],
        facts=tuple(_facts(verdict, report)),
    )


def _facts(verdict: VerdictReport, report: Report | FolderReport) -> list[Note]:
    client, confidence = None, report.confidence
    if isinstance(report, Report):
        client, confidence = report.analytical.client.epsilon, report.verdict_confidence
    return [
        Note("Claim", _claim(verdict, report)),
        Note("By accounting", _accounting(verdict, client)),
        Note("Looked at", _looks(verdict, confidence)),
        *_evidence(verdict),
    ]


def _claim(verdict: VerdictReport, report: Report | FolderReport) -> str:
    claim = "for a client: one more or less, or one that sends nothing."
    if verdict.p_value is None:
        return claim
    is_of_a_run = isinstance(report, Report)
    return f"{claim} {_STANDS_FOR_CLIENTS if is_of_a_run else _STANDS_FOR_THOSE_LIKE_IT}"


def _accounting(verdict: VerdictReport, client: float | None) -> str:
    """What the noise as configured would guarantee, beside the claim."""
    if client is None:
        return "not known for this run"
    beside = "above" if client > verdict.claimed_epsilon else "not above"
    return (
        f"the noise as configured guarantees a client ε ≤ {epsilon_text(client)}, which is "
        f"{beside} the claim; the verdict does not use it"
    )


def _looks(verdict: VerdictReport, confidence: float) -> str:
    num = verdict.num_looks
    each = f"{count(num, 'lower bound')}, valid for any mechanism"
    if num == 1:
        return f"{each}, at {100 * confidence:g} %"
    corrected = 1 - (1 - confidence) / num
    return f"{each}, each at {100 * corrected:.5g} % so that all hold at {100 * confidence:g} %"


def _evidence(verdict: VerdictReport) -> list[Note]:
    facts = []
    if verdict.statistic is not None and verdict.assumes is not None:
        title = title_of(verdict.statistic)
        epsilon = epsilon_text(verdict.epsilon_lower)
        facts += [
            Note("Largest bound", f"ε ≥ {epsilon} by {verdict.method} on “{title}”"),
            Note("It assumes", verdict.assumes),
        ]
    if verdict.p_value is not None:
        facts.append(Note("p-value", f"at most {significant(verdict.p_value, 2)}"))
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
