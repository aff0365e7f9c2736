"""The verdict on a claim that is a whole trade-off curve, by the tests of curve_claim_tests.py."""

import dataclasses
import math
from collections.abc import Sequence

from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.checks import CanaryCheck
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.verdict import sentences
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.claims import Claim, GaussianClaim
from fl_audit.verdict.curve_claim_tests import CurveMethod, CurveTest, CurveTests, curve_tests
from fl_audit.verdict.curve_power import SumPower, included_needed, noise_of
from fl_audit.verdict.decision import arrived_signal, doubt
from fl_audit.verdict.power import ENOUGH_POWER, FACTOR, ArrivedSignal
from fl_audit.verdict.record import AgainstAttacker, AsCurve, Detectable, Outcome, Verdict
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.separation import separation

_ASSUMES: dict[CurveMethod, str] = {
    "trade_off_sum": (
        "The claim limits the score of each included canary, whatever the canaries before it "
        "scored. That is so if scores are independent given who was included."
    ),
    "trade_off_guesses": "Each canary was included by an independent fair coin.",
}


def with_curve(verdict: Verdict, statistics: Sequence[ScoredStatistic]) -> Verdict:
    """A verdict on a point, with what the Gaussian curve through it would have been told.

    Args:
      verdict: The verdict on a claimed (epsilon, delta).
      statistics: The statistics that it rests on.
    """
    claim = verdict.claim
    if not isinstance(claim, Claim) or claim.delta == 0 or verdict.p_value is None:
        return verdict
    curve = GaussianClaim(1 / sigma_of_epsilon(claim.epsilon, claim.delta), claim.delta)
    tests = curve_tests(curve, statistics, verdict.confidence)
    adjusted = _adjusted(tests)
    if not adjusted:
        return verdict
    p = min(1.0, *(p for _, p in adjusted))
    return dataclasses.replace(verdict, as_curve=AsCurve(curve.mu, p, p <= tests.level))


def reach_curve_verdict(
    tests: CurveTests,
    scope: Scope | None = None,
    *,
    canary_check: CanaryCheck | None = None,
    others: Sequence[ScoredStatistic] = (),
) -> Verdict:
    """Reaches the verdict on a claimed curve.

    Args:
      tests: The tests, chosen before the scores were seen.
      scope: For whom the canaries stand; by default for clients who take part as they did.
      canary_check: Result of the canary check; by default of one on the scores alone.
      others: Statistics of the same audit that are not tested.
    """
    scope = scope or Scope()
    if not tests.tests:
        return _verdict(tests, Outcome.INCONCLUSIVE, sentences.NO_CURVE, None)
    adjusted = _adjusted(tests)
    if scope.unfit is not None or not adjusted:
        reason = sentences.not_fit(
            scope.unfit or "the scores allow no test of a curve", scope.say_so
        )
        return _verdict(tests, Outcome.INCONCLUSIVE, reason, None)
    best, p = min(adjusted, key=lambda pair: pair[1])
    p = min(p, 1.0)
    if p <= tests.level:
        mu = best.mu_lower_bound
        noise = None if mu is None else noise_of(tests.claim, best, mu)
        reason = sentences.curve_contradicted(tests, best, p, noise)
        return _verdict(tests, Outcome.CONTRADICTED, reason, best, p=p)
    canary_check = canary_check or separation(tests.statistics)
    doubtful = doubt(tests.claim, tests.statistics, canary_check, others, scope)
    if doubtful is not None:
        return _verdict(tests, Outcome.INCONCLUSIVE, doubtful, best, p=p)
    return _not_contradicted(tests, best, p, canary_check, scope)


def _adjusted(tests: CurveTests) -> list[tuple[CurveTest, float]]:
    """The tests that scores allow, each with its p-value times the level of all over its own."""
    p_values = [(test, test.p_value) for test in tests.tests]
    return [(test, p * tests.level / test.level) for test, p in p_values if p is not None]


def _against(tests: CurveTests) -> tuple[AgainstAttacker, ...]:
    """What the tests say of each attacker whose threat model is known, the strongest first."""
    smallest: dict[str, float] = {}
    for test, p in _adjusted(tests):
        statistic = STATISTICS.get(test.statistic.name or "")
        if statistic is not None:
            name = statistic.threat_model
            smallest[name] = min(p, smallest.get(name, 1.0))
    return tuple(AgainstAttacker(name, p, p <= tests.level) for name, p in smallest.items())


def _verdict(
    tests: CurveTests,
    outcome: Outcome,
    reason: str,
    best: CurveTest | None,
    *,
    p: float | None = None,
    power: float | None = None,
    detectable: Detectable | None = None,
    canaries_needed: int | None = None,
) -> Verdict:
    """A verdict of which `best` is the test with the smallest p-value."""
    claim = tests.claim
    lower_bound = 0.0
    if best is not None and outcome is Outcome.CONTRADICTED:
        mu = best.mu_lower_bound
        lower_bound = claim.epsilon if mu is None else epsilon_of_mu(mu, claim.delta)
    unstated = sentences.tested_unstated(claim, tests.confidence)
    return Verdict(
        outcome=outcome,
        reason=sentences.lines((unstated, *reason.splitlines())),
        claim=claim,
        confidence=tests.confidence,
        num_tests=len(tests.tests),
        epsilon_lower=lower_bound,
        method=None if best is None else best.method,
        statistic=None if best is None else best.statistic.name,
        assumes=None if best is None else _ASSUMES[best.method],
        p_value=p,
        power=power,
        detectable_epsilon=(
            None if detectable is None else epsilon_of_mu(detectable.mu, claim.delta)
        ),
        detectable=detectable,
        canaries_needed=canaries_needed,
        against=() if best is None else _against(tests),
    )


# What would have been contradicted.


def _not_contradicted(
    tests: CurveTests, best: CurveTest, p: float, canary_check: CanaryCheck, scope: Scope
) -> Verdict:
    """The verdict where no test contradicts the claim: consistent or inconclusive."""
    claim, leading = tests.claim, tests.tests[0]
    start = (canary_check.fault, sentences.curve_not_contradicted(tests, scope))
    if leading.method != "trade_off_sum":
        reason = sentences.lines((*start, *sentences.POWER_NOT_KNOWN))
        return _verdict(tests, Outcome.INCONCLUSIVE, reason, best, p=p)
    arrived = arrived_signal(canary_check)
    power = SumPower.for_test(leading, arrived)
    detectable = power.detectable_in(tests)
    twice = 1 / sigma_of_epsilon(FACTOR * claim.epsilon, claim.delta)
    is_enough = power.at(twice) >= ENOUGH_POWER
    if is_enough:
        outcome, needed = Outcome.CONSISTENT, None
        rest: tuple[str, ...] = (sentences.OTHER_ATTACKS, sentences.after_consistent(claim))
    else:
        outcome, needed = Outcome.INCONCLUSIVE, _canaries_needed(leading, twice, arrived)
        rest = (sentences.more_power_of_curve(leading, needed),)
    seen = sentences.curve_power_words(claim, leading, detectable, arrived, is_enough=is_enough)
    return _verdict(
        tests,
        outcome,
        sentences.lines((*start, seen, *rest)),
        best,
        p=p,
        power=power.at(twice),
        detectable=detectable,
        canaries_needed=needed,
    )


def _canaries_needed(leading: CurveTest, mu: float, arrived: ArrivedSignal) -> int | None:
    """The number of canaries with ENOUGH_POWER at mu, as many of them included as in the audit."""
    included = included_needed(leading, mu, arrived)
    scores = leading.statistic.scores
    share = scores.num_included / (scores.num_included + scores.num_excluded)
    return None if included is None else math.ceil(included / share)
