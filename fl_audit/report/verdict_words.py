"""A verdict in the words of a page: what it means, why it was reached, and how."""

from fl_audit.accounting import Accounting
from fl_audit.accounting.upper_bounds import Attacker, Guarantees
from fl_audit.attacks.threat_models import title_of
from fl_audit.number_words import count, lower_bound_text, significant, upper_bound_text
from fl_audit.report.report import AS_THE_LOG_STATES, Report
from fl_audit.verdict import Claim, Verdict
from fl_audit.verdict.accounting_basis import MARGIN
from fl_audit.verdict.power import ENOUGH_POWER
from fl_audit.verdict.record import AgainstAttacker, AsCurve, Outcome
from fl_audit.verdict.sentences import (
    IN_SIMULATIONS,
    NEXT,
    detectable_words,
    tested_unstated,
    whole,
)

_MEANINGS = {
    "contradicted": (
        "Either the claim is false for this run, or an assumption below is, or this is one of the "
        "errors that the confidence level allows."
    ),
    "contradicted by accounting": (
        "Either the claim is false for this run, or an assumption below is."
    ),
    "consistent": "This does not prove the upper bound: another attack may find more.",
    "inconclusive": "The scores neither contradict nor support the claim.",
}


def meaning_of_verdict(report: Report, verdict: Verdict) -> str:
    """What the outcome means, and what it does not mean."""
    checks = report.checks
    if checks is not None and checks.passed is False and verdict.outcome is Outcome.INCONCLUSIVE:
        return "The tests do not count, because the mechanism is wrong."
    by_accounting = " by accounting" if verdict.basis == "accounting" else ""
    return _MEANINGS[f"{verdict.outcome}{by_accounting}"]


_BOUND_FOR_CLIENTS = (
    "A canary is such a client and participates no more often, so a bound for the canary counts."
)
_BOUND_FOR_CLIENTS_LIKE_IT = (
    "How often clients participate is not known here: a bound for a canary counts for clients "
    "that participate as often as canaries did; a claim about more rounds was not tested."
)


def reason_sentences(verdict: Verdict) -> list[str]:
    return [whole(line) for line in verdict.reason.splitlines()]


def unstated(verdict: Verdict) -> str:
    """What was tested instead of a stated claim, in a sentence; empty if a claim was stated."""
    return whole(tested_unstated(verdict.claim, verdict.confidence) or "")


def reasons(verdict: Verdict) -> list[str]:
    """Why the outcome was reached, in sentences, without what `unstated` and `next_steps` say."""
    lines = (line for line in reason_sentences(verdict) if not line.startswith(NEXT))
    return [line for line in lines if line != unstated(verdict)]


def next_steps(verdict: Verdict) -> str:
    return " ".join(line for line in reason_sentences(verdict) if line.startswith(NEXT))


def against_words(attacker: AgainstAttacker) -> str:
    """The result of a curve's tests against one attacker."""
    if not attacker.is_contradicted:
        return "not contradicted"
    return f"contradicted (p ≤ {significant(attacker.p_value, 2)})"


def verdict_facts(report: Report, verdict: Verdict) -> dict[str, str]:
    """How the outcome was reached, by topic."""
    return {
        "Claim": _claim(verdict, report),
        "Accounting": _accounting(verdict, report),
        "Tests": _tests(verdict),
        **_evidence(verdict),
    }


def _claim(verdict: Verdict, report: Report) -> str:
    claim = f"for a {verdict.claim.whom}, added or removed, or zeroed out (it sends nothing)."
    if verdict.p_value is None or verdict.claim.whom == "canary":
        return claim
    known = report.are_client_rounds_known
    return f"{claim} {_BOUND_FOR_CLIENTS if known else _BOUND_FOR_CLIENTS_LIKE_IT}"


def _accounting(verdict: Verdict, report: Report) -> str:
    """The accounted epsilon of the claim's party against the tested attacker, with the claim."""
    if verdict.basis == "accounting":  # the reason names number, party and attacker
        return "the claim is contradicted by accounting"
    tested, whom = report.efficiency.get(verdict.statistic or ""), verdict.claim.whom
    accounting: Accounting | Guarantees | None = report.analytical
    if tested is not None and tested.sees_uploads:
        accounting = report.attackers[Attacker.SEES_UPLOADS]
    epsilon = (
        None
        if accounting is None
        else (accounting.canary if whom == "canary" else accounting.client).epsilon
    )
    if epsilon is None:
        return "not known for this run"
    noise = AS_THE_LOG_STATES if report.is_stated_by_log else "as configured"
    given = f"ε ≤ {upper_bound_text(epsilon)} for a {whom} with the noise {noise}"
    if epsilon > (1 + MARGIN) * verdict.claim.epsilon:
        return f"{given}, which is above the claim and so does not confirm it"
    return f"{given}, which is not above the claim"


def _tests(verdict: Verdict) -> str:
    """The number of tests and their confidence, which is higher if parts share the level."""
    num, confidence = verdict.num_tests, verdict.confidence
    if not isinstance(verdict.claim, Claim):
        return f"{count(num, 'test')} of the curve, at {100 * confidence:g} % confidence together"
    bounds, parts = count(num, "lower bound"), ""
    if verdict.basis == "parts":
        parts = "; the claim was also tested by its parts, noise and sampling rate"
    if num == 1:
        return f"{bounds}, at {100 * confidence:g} % or more{parts}"
    each = 100 * (1 - (1 - confidence) / num)
    return (
        f"{bounds}, each at {each:.5g} % or more, so that all hold at {100 * confidence:g} %{parts}"
    )


def _as_curve(curve: AsCurve) -> str:
    """Whether the Gaussian curve through the claim would be contradicted, in words."""
    outcome = "would be contradicted" if curve.is_contradicted else "would not be contradicted"
    return (
        f"the Gaussian curve through the claim, μ ≤ {significant(curve.mu)}, {outcome} "
        f"(p ≤ {significant(curve.p_value, 2)}); to claim the curve itself, state μ"
    )


def _evidence(verdict: Verdict) -> dict[str, str]:
    """The evidence of the outcome: bound or p-value, its assumption, and the power."""
    if verdict.basis == "accounting":
        return {"Assumption": verdict.assumes or ""}
    facts: dict[str, str] = {}
    p_value = None if verdict.p_value is None else f"at most {significant(verdict.p_value, 2)}"
    if verdict.statistic is not None and verdict.assumes is not None:
        by = f"by {verdict.method} on “{title_of(verdict.statistic)}”"
        if isinstance(verdict.claim, Claim):
            facts["Largest bound"] = f"ε ≥ {lower_bound_text(verdict.epsilon_lower)} {by}"
        else:
            facts["Smallest p-value"] = ", ".join(filter(None, (p_value, by)))
        facts["Assumption"] = verdict.assumes
    if p_value is not None and "Smallest p-value" not in facts:
        facts["p-value"] = p_value
    if verdict.as_curve is not None:
        facts["As a curve"] = _as_curve(verdict.as_curve)
    if verdict.power is not None:
        facts["Power"] = (
            f"{detectable_words(verdict.detectable_epsilon)} {IN_SIMULATIONS}; twice the claim, ε "
            f"= {significant(verdict.simulated_epsilon)}, in {100 * verdict.power:.3g} %. A "
            f"verdict is consistent only if this share is at least {100 * ENOUGH_POWER:g} %"
        )
    return facts
