"""The sentences of a verdict: its reason, the power, and the next step.

Nothing is decided here. `Verdict.reason` consists of these sentences, one per line; terminal, page
and release sheet print them unchanged. Sentences on accounting are in accounting_basis.py, on a
claim by its noise and sampling rate in by_parts.py.

>>> whole("no test contradicts the claim")
'No test contradicts the claim.'
"""

import decimal
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
from fl_audit.checks import CanaryCheck
from fl_audit.checks.canary_check import LESS
from fl_audit.number_words import count, lower_bound_text, significant, upper_bound_text
from fl_audit.verdict.claim_tests import Bound, ClaimTests, ScoredStatistic
from fl_audit.verdict.claims import Claim, ConfiguredClaim, CurveClaim
from fl_audit.verdict.curve_claim_tests import CurveMethod, CurveTest, CurveTests
from fl_audit.verdict.power import ENOUGH_POWER, FACTOR, PointTests
from fl_audit.verdict.record import Outcome, Verdict
from fl_audit.verdict.scope import Scope, is_about_sampling, sees_uploads
from fl_audit.verdict.simulation import DecidedCurve, Simulation

NEXT = "Next: "
"""The start of the sentence with the next step."""

OTHER_ATTACKS = "Other attacks may show more."

CLAIM_A_POINT = (
    f"{NEXT}claim an ε at δ (--claimed-epsilon, claimed_epsilon in [audit]), which is tested by "
    "its parts, noise and sampling rate (docs/verdict.md)"
)
"""The next step if a curve that relies on sampling lacks power."""


def whole(clause: str) -> str:
    """A clause as a sentence, with a capital letter and a full stop."""
    end = "" if clause.endswith((".", "!", "?")) else "."
    return f"{clause[:1].upper()}{clause[1:]}{end}"


def lines(clauses: Iterable[str | None]) -> str:
    """Clauses as sentences, one per line; None and empty clauses are left out."""
    return "\n".join(whole(clause) for clause in clauses if clause)


def without_next_steps(reason: str) -> list[str]:
    return [line for line in reason.splitlines() if not line.startswith(NEXT)]


def subject(claim: Claim | CurveClaim) -> str:
    """The subject of the test, in two or three words."""
    return "the claim" if claim.is_stated else "the configured noise"


_WITH: dict[Outcome, str] = {
    Outcome.CONTRADICTED: ":",
    Outcome.CONSISTENT: " with",
    Outcome.INCONCLUSIVE: " on",
}


def claim_clause(verdict: Verdict) -> str:
    """The claim in words that follow the outcome, such as " with the claim ε ≤ 8"."""
    return f"{_WITH[verdict.outcome]} {verdict.claim.words}"


def tested_unstated(claim: Claim | CurveClaim, confidence: float) -> str | None:
    """What was tested if no claim was stated; None if a claim was stated."""
    if claim.is_stated:
        return None
    return (
        "No claim was stated, so this tests whether the scores fit the configured noise, at "
        f"{100 * confidence:g} % confidence: at most one correct run in "
        f"{1 / (1 - confidence):,.0f} is contradicted"
    )


# Contradicted.


_FIND_THE_FAULT = "find the fault (docs/broken_mechanisms.md says where to look)"
_AFTER_CONTRADICTION = f"{NEXT}do not publish this ε; {_FIND_THE_FAULT}"


def point_contradicted(tests: ClaimTests, best: Bound, confidence: float, p: float) -> str:
    """Why a claimed (epsilon, delta) is contradicted."""
    return lines(
        (
            f"the lower bound ε ≥ {lower_bound_text(best.estimate.epsilon)} by "
            f"{best.test.method}{on(best.test.statistic)} exceeds the claim, with "
            f"{100 * confidence:g} % confidence{_together(len(tests), 'bound')} "
            f"(p ≤ {p:.2g})",
            f"{NEXT}do not publish this ε; where accounting promises it, {_FIND_THE_FAULT}",
        )
    )


_SHOWN_BY: dict[CurveMethod, str] = {
    "trade_off_sum": "the scores of included canaries{on} are larger than {claim} allows",
    "trade_off_guesses": "more guesses of who was included{on} are right than {claim} allows",
}


def curve_contradicted(tests: CurveTests, best: CurveTest, p: float, noise: str | None) -> str:
    """Why a claimed curve is contradicted, with `less_than_claimed` where noise is claimed."""
    mu, if_gaussian = best.mu_lower_bound, None
    if mu is not None:
        if_gaussian = f"if the mechanism is Gaussian, its μ is at least {lower_bound_text(mu)}"
        if noise is not None:
            if_gaussian += f": {noise}"
    return lines(
        (
            _SHOWN_BY[best.method].format(on=on(best.statistic), claim=subject(tests.claim))
            + f", with {100 * tests.confidence:g} % confidence"
            f"{_together(len(tests.tests), 'test')} (p ≤ {p:.2g})",
            if_gaussian,
            _AFTER_CONTRADICTION,
        )
    )


def less_than_claimed(claim: CurveClaim, at_most: float, claimed: float) -> str:
    """A clause on the upper bound on the noise multiplier, and the claimed one."""
    participle = "configured" if isinstance(claim, ConfiguredClaim) else "claimed"
    return (
        f"a noise multiplier of {upper_bound_text(at_most)} or less, instead of the {participle} "
        f"{claimed:g}"
    )


def stopped_live(
    claim: Claim | CurveClaim, rounds: str, epsilon: float, confidence: float, p_value: float
) -> str:
    """Why a run was stopped before its end."""
    evidence = f"prove ε ≥ {lower_bound_text(epsilon)}"
    if not isinstance(claim, Claim):
        evidence = f"are larger than {subject(claim)} allows"
    return lines(
        (
            f"the run was stopped in round {rounds}, as the scores of canaries in their own rounds "
            f"so far {evidence}, with {100 * confidence:g} % confidence at all rounds together "
            f"(p ≤ {p_value:.2g})",
            _AFTER_CONTRADICTION,
        )
    )


def _together(number: int, noun: str) -> str:
    if number == 1:
        return ""
    return f" for both {noun}s together" if number == 2 else f" for all {number} {noun}s together"


# Inconclusive because something is missing.


def not_fit(reason: str, step: str | None) -> str:
    """Why canaries say nothing about a claim, and how to change that."""
    steps = step or "let canaries participate as clients do (docs/verdict.md)"
    return lines((reason, f"{NEXT}{steps}"))


NO_METHOD = lines(
    (
        "the scores allow no method that a verdict uses",
        f"{NEXT}use more canaries, which coins include or exclude",
    )
)

NO_CURVE = lines(
    (
        "no curve is known for what is scored, or no canary was included",
        f"{NEXT}claim (ε, δ), or score by statistics of another attacker",
    )
)


def canaries_missed(canary_check: CanaryCheck, scope: Scope) -> str:
    if canary_check.state == "not_arrived":
        start, step = "failed", "fix that fault (docs/canary_check.md)"
    else:
        start = "is not conclusive"
        rounds = "" if scope.counts_on_sampling else " or rounds per canary"
        step = f"make the check pass (docs/canary_check.md), then use more canaries{rounds}"
    return lines(
        (
            f"the canary check {start}, so low scores mean nothing: {canary_check.reason}",
            f"{NEXT}{step}",
        )
    )


def but(claim: Claim | CurveClaim, why: str, step: str, known: str | None = None) -> str:
    """Sentences on why a claim without contradiction is not consistent."""
    return lines((f"{nothing_contradicts(claim)}{why}", known, f"{NEXT}{step}"))


def after_failed_checks(failed: Sequence[str], verdict: Verdict) -> str:
    """The failed checks, before the results of canaries, or after a contradiction."""
    rest = without_next_steps(verdict.reason)
    failure = f"the mechanism is not as configured: it failed {', '.join(failed)} (see the checks)"
    if verdict.outcome is not Outcome.CONTRADICTED:
        return lines((failure, *rest, f"{NEXT}repair what the checks name, then audit again"))
    step = "repair what the checks name, then audit again"
    if verdict.basis == "accounting":
        step = "repair what the checks name, and claim what accounting gives for more noise or less"
    return lines((*rest, failure, f"{NEXT}do not publish this ε; {step}"))


UNSEEN_IN_LOGS = (
    "the checks do not see noise that is missing on a few coordinates for a few rounds, nor, if "
    "canaries are sent at the clip norm, a clip that is looser for clients (docs/checks.md)"
)


def missing_first(missing: Sequence[int], reason: str) -> str:
    """The reason of a verdict, with a next step that asks about missing rounds (from 1)."""
    rest = without_next_steps(reason)
    stretches = np.split(np.asarray(missing), np.flatnonzero(np.diff(missing) > 1) + 1)
    names = [
        str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}"
        for part in stretches[:_MOST_STRETCHES]
    ]
    others = " and others" if len(stretches) > _MOST_STRETCHES else ""
    rounds = f"round{'s' if len(missing) > 1 else ''} {', '.join(names)}{others}"
    were = "were" if len(missing) > 1 else "was"
    return lines((*rest, f"{NEXT}find out why {rounds} {were} not scored, and audit every round"))


_MOST_STRETCHES = 5
"""The number of ranges of missing rounds named in a sentence."""


def before_next_steps(reason: str, *clauses: str) -> str:
    """The reason of a verdict with further clauses before the next step."""
    last = [line for line in reason.splitlines() if line.startswith(NEXT)]
    return lines((*without_next_steps(reason), *clauses, *last))


# Not contradicted.


def nothing_contradicts(claim: Claim | CurveClaim) -> str:
    if isinstance(claim, Claim):
        return "no lower bound exceeds the claim"
    return f"no test contradicts {subject(claim)}"


def after_consistent(claim: Claim | CurveClaim) -> str:
    if claim.is_stated:
        return f"{NEXT}publish the claim with what this audit covers (docs/release.md)"
    return _STATE_A_CLAIM


_STATE_A_CLAIM = (
    f"{NEXT}before you train the model to release, state the ε that you will publish "
    "(claimed_epsilon in [audit]; for a log --claimed-epsilon; docs/release.md)"
)


def what_was_tested(tests: ClaimTests) -> str:
    """The statistics, threat models and methods of a tested point."""
    names = [statistic.name for statistic in tests.statistics if statistic.name is not None]
    scores, titles = f" on {', '.join(names)}" if names else "", _titles(names)
    models = f" (threat model{'s' if len(titles) > 1 else ''} {', '.join(titles)})"
    return (
        f"tested: {count(len(tests), 'bound')}, by {', '.join(tests.methods)}{scores}"
        f"{models if titles else ''}"
    )


def _titles(names: Sequence[str]) -> list[str]:
    known = [STATISTICS.get(name) for name in names]
    models = dict.fromkeys(statistic.threat_model for statistic in known if statistic is not None)
    return [model.title for model in map(THREAT_MODELS.get, models) if model is not None]


def curve_not_contradicted(tests: CurveTests, scope: Scope) -> str:
    """The clause that no test contradicts a claimed curve, with the number of tests."""
    names = [statistic.name for statistic in tests.statistics if statistic.name is not None]
    models = len(_titles(names))
    against = f", {count(models, 'threat model')}" if models else ""
    tested = f"{count(len(tests.tests), 'test')}{against}"
    whom = f" {scope.whom}" if tests.claim.is_stated else ""
    return f"{nothing_contradicts(tests.claim)}{whom} ({tested})"


POWER_NOT_KNOWN = (
    "the power is unknown, because the null distribution of scores is not known",
    f"{NEXT}use scores whose null distribution is known",
)

NOT_AT_DELTA_0 = (
    "the power is not simulated at δ = 0, where Gaussian noise has no finite ε",
    f"{NEXT}claim at a δ above 0",
)


NO_SIGNAL = (
    "the power is not simulated: scores show no canary, and nothing else says how large the "
    "signal of a canary is",
    f"{NEXT}audit with a log that says every canary's rounds and the lengths of aggregates",
)


def power_words(
    claim: Claim | CurveClaim, simulation: Simulation, canary_check: CanaryCheck
) -> str:
    """A clause on the smallest violation that the canaries would show, and on these canaries."""
    audit, power = simulation.audit, simulation.power
    statistic, lengths = simulation.statistic, ""
    if simulation.knows_rounds:
        lengths = norm_words(canary_check.length)
    if power.detectable_epsilon is None and power.hidden is not None:
        return f"power of the canaries: {_hidden_words(simulation)}: more canaries do not help"
    number, twice = f"{audit.num_canaries:,} canaries", ""
    if isinstance(claim, Claim):
        least = detectable_words(power.detectable_epsilon, only=not power.is_enough)
        share = f"{100 * power.power:.3g} %"
        twice = f", twice the claim (ε = {FACTOR * claim.epsilon:g}) in {share}"
    else:
        number = f"{audit.exposure.num_included:,} included canaries"
        found = simulation.detectable(claim)
        least = detectable_words(
            None if found is None else power.detectable_epsilon,
            only=not power.is_enough,
            noise_multiplier=None if found is None else found.noise_multiplier,
        )
    return (
        f"power of the canaries: {least} {IN_SIMULATIONS}{twice} "
        f"({number}{on(statistic, ', scored by ')}{lengths})"
    )


def norm_words(length: float | None) -> str:
    """The canaries' norm in simulated audits, from the canary check."""
    if length is None:
        return ", at the expected norm, which was not measured"
    if length == 1:
        return ", at the expected norm"
    return f", at their measured norm less {LESS} standard errors"


def _hidden_words(simulation: Simulation) -> str:
    """Why no violation of any size would be contradicted."""
    power, known = simulation.power, STATISTICS.get(str(simulation.statistic.name))
    if power.hidden == "by little signal" and known is not None and is_about_sampling(known):
        why = (
            "an attacker who does not know the canaries’ rounds sees less of them than the claim "
            "allows"
        )
    elif power.hidden == "by little signal":
        why = "canaries show less than the claim allows a client, whatever the noise"
    else:
        is_stated = simulation.knows_rounds and simulation.audit.less_noise.is_stated
        what = "clients' updates" if is_stated else "not known to be noise"
        share = _percent(simulation.audit.exposure.clients_share)
        why = f"{share} of what hides the canaries is {what}"
    return f"audits like this notice no true ε, however large, as {why}"


def _percent(share: float) -> str:
    return "more than 99 %" if share >= 0.995 else f"{100 * share:.0f} %"


_NOTICED, _SEEN = 0.05, 0.005
"""The least shares of clients' updates in the background that get a sentence, or a clause."""


def assumed_words(claim: Claim | CurveClaim, simulation: Simulation) -> str | None:
    """The assumptions of the simulated audits; None if everything was measured or stated."""
    power, less = simulation.power, simulation.audit.less_noise
    share = simulation.audit.exposure.clients_share
    rest = (
        f"; {_percent(share)} of what hides canaries is not noise, and would remain with less noise"
    )
    rest = rest if share >= _SEEN else ""
    if not simulation.knows_rounds:
        return (
            "the simulated audits know the scores alone: they assume a Gaussian mechanism in which "
            "every canary participates as often as a client, and the least noise with which "
            f"{subject(claim)} is true{rest}"
        )
    if not less.is_stated:
        noise = less.noise_multiplier
        is_it = "" if noise is None else f" (noise multiplier {significant(noise)})"
        return (
            "the noise is not stated: the simulated audits start from the least noise with which "
            f"{subject(claim)} is true{is_it}{rest}"
        )
    is_said = power.detectable_epsilon is None and power.hidden is not None
    if share < _NOTICED or is_said:
        return None
    return (
        f"{_percent(share)} of what hides canaries is clients' updates, which would remain with "
        "less noise"
    )


def nearly_decided(confidence: float, alone: float, bound: Bound, number: int) -> tuple[str, str]:
    """The clause that only an uncorrected bound exceeds the claim, and the next step."""
    return (
        f"by itself, the {100 * confidence:g} % bound by {bound.test.method}"
        f"{on(bound.test.statistic)} is ε ≥ {lower_bound_text(alone)}, which exceeds the claim; "
        f"corrected for all {number} bounds it is {lower_bound_text(bound.estimate.epsilon)}",
        f"{NEXT}choose this statistic and this method before another training "
        "(audit.verdict_statistic, audit.verdict_method; --statistic, --methods)",
    )


def more_power(
    claim: Claim | CurveClaim,
    simulation: Simulation,
    canaries_needed: int | None,
    scope: Scope,
    *,
    names: Sequence[str | None],
    decided: DecidedCurve | None,
) -> str:
    """The next step if an audit had little power against a claim."""
    steps, audit, hidden = [], simulation.audit, simulation.power.hidden
    if decided is not None:
        steps.append(
            f"claim the curve μ ≤ {significant(decided.mu)} (--claimed-mu, claimed_mu in "
            f"[audit]), which about {decided.canaries:,} canaries can test (docs/verdict.md)"
        )
    if canaries_needed is not None:
        steps.append(f"use about {canaries_needed:,} canaries instead of {audit.num_canaries:,}")
    known = [STATISTICS.get(name) for name in names if name is not None]
    shows_most = any(one == OWN_ROUNDS or sees_uploads(one) for one in known if one is not None)
    if set(names) - {None} and not shows_most:
        if scope.covers(OWN_ROUNDS.name):
            steps.append("score by own_rounds, the statistic that shows most")
        elif scope.say_so is not None and scope.counts_on_sampling is None:
            return f"{NEXT}{scope.say_so}"
    several = [
        f"one {what}"
        for what, number in (("statistic", len(names)), ("method", audit.tests.number))
        if number > 1 and isinstance(audit.tests, PointTests)
    ]
    if several and hidden is None:
        steps.append(f"choose {' and '.join(several)} before training")
    steps.extend(_to_show_more(simulation, canaries_needed, scope, names))
    if not (steps or claim.is_stated):
        return _STATE_A_CLAIM
    if not steps:
        steps = ["claim a larger ε" if isinstance(claim, Claim) else "claim a weaker guarantee"]
    return f"{NEXT}{', or '.join(steps)}"


def _to_show_more(
    simulation: Simulation,
    canaries_needed: int | None,
    scope: Scope,
    names: Sequence[str | None],
) -> Iterator[str]:
    """What would let the canaries or the log show more, at most one step."""
    audit, hidden = simulation.audit, simulation.power.hidden
    if not simulation.knows_rounds:
        yield "audit with a log that says every canary's rounds and the noise"
    elif hidden is not None and not audit.less_noise.is_stated:
        parts = ", so that the claim’s parts can be tested" if scope.counts_on_sampling else ""
        yield f"state each round’s noise (noise_stddev){parts}"
    elif hidden == "by clients":
        yield "audit with fewer clients in a round"
    elif simulation.statistic.name == "max" and OWN_ROUNDS.name in names:
        yield "log aggregates instead of cosines, so that own_rounds can be tested"
    elif not scope.counts_on_sampling and (
        hidden == "by little signal"
        or (hidden is None and canaries_needed is None and simulation.is_uneven)
    ):
        yield "let canaries participate as often as a client may, at the full norm"


# Clauses.


def on(statistic: ScoredStatistic, by: str = " on ") -> str:
    """The statistic's name, such as " on max"; empty if it has none."""
    return "" if statistic.name is None else f"{by}{statistic.name}"


IN_SIMULATIONS = f"in {100 * ENOUGH_POWER:g} % of simulations"


def detectable_words(
    epsilon: float | None, *, only: bool = False, noise_multiplier: float | None = None
) -> str:
    """A clause on the smallest violation that an audit would contradict with enough power.

    The violation is an epsilon or, if `noise_multiplier` is given, a noise multiplier.
    """
    if epsilon is None:
        return "audits like this notice no true ε, however large,"
    violation = f"a true ε of {significant(epsilon, 2, decimal.ROUND_UP)} or more"
    if noise_multiplier is not None:
        noise = significant(noise_multiplier, rounding=decimal.ROUND_DOWN)
        violation = f"a noise multiplier of {noise} or less"
    return f"audits like this notice {'only ' if only else ''}{violation}"
