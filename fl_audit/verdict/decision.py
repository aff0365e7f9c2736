"""The verdict, from the tests of a claim; its sentences are in sentences.py."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.accounting.release import effective_noise_multiplier
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.checks import CanaryCheck
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.estimators.roc import auc, auc_interval
from fl_audit.estimators.trade_off import GaussianTradeOff
from fl_audit.formats.run_record import LiveRecord, RunRecord
from fl_audit.verdict import sentences
from fl_audit.verdict.by_parts import DRAWS_DEPEND, SHARE, SampledCanaries, with_parts
from fl_audit.verdict.claim_tests import Bound, ClaimTests, ScoredStatistic, p_value
from fl_audit.verdict.claims import Claim, CurveClaim, GaussianClaim, NoiseClaim, shown_noise
from fl_audit.verdict.curve_claim_tests import CurveMethod, CurveTest, CurveTests, curve_tests
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.parts import are_testable
from fl_audit.verdict.power import Lengths
from fl_audit.verdict.record import AgainstAttacker, AsCurve, Outcome, Verdict
from fl_audit.verdict.scope import Scope, too_often, without_cover
from fl_audit.verdict.separation import separation
from fl_audit.verdict.simulation import Seen, Simulation, decided_curve, simulate


def reach_verdict(
    claim: Claim | CurveClaim,
    tests: ClaimTests | CurveTests,
    scope: Scope | None = None,
    *,
    canary_check: CanaryCheck | None = None,
    others: Sequence[ScoredStatistic] = (),
    background: Background | None = None,
    canaries: SampledCanaries | None = None,
) -> Verdict:
    """Reaches the verdict on a claim.

    A claimed point that relies on sampling is also tested by its parts (parts.py), if `canaries`
    allow that; if scores also test the whole claim, each of the two ways has half of the level.

    Args:
      claim: The claim.
      tests: The tests of a point or a curve, chosen before the scores were seen.
      scope: What canaries can show about the claim; by default, it is about clients like canaries.
      canary_check: Result of the canary check, by default from the scores. Unless it passes, the
        claim is not called consistent.
      others: Untested statistics of the same audit. If one separates canaries clearly better than
        every tested statistic, the claim is not called consistent.
      background: The background of canaries in their rounds, for simulating the power; None if only
        scores are known.
      canaries: The canaries, scored in their own rounds; None without such scores.
    """
    scope, statistics = scope or Scope(), tests.statistics
    if isinstance(claim, NoiseClaim):  # whatever the rounds of clients
        whom = "for a canary in one round"
        scope = dataclasses.replace(scope, unfit=None, not_covered=None, whom=whom)
        if background is not None and background.most_rounds > 1:
            step = "audit with canaries of one round each, which the claim is about"
            unfit = too_often(background.most_rounds, 1)
            scope = dataclasses.replace(scope, unfit=unfit, say_so=step)
    names = [statistic.name for statistic in statistics]
    is_tested = claim.whom == "canary" or all(map(scope.covers, names))
    covered = scope if is_tested else without_cover(scope, names)
    checked = canary_check or separation(statistics)
    confidence, parts = tests.confidence, None
    if canaries is not None and isinstance(tests, ClaimTests):
        level = 1 - confidence
        parts = canaries.parts(scope, claim.delta, level * (SHARE if is_tested else 1.0))
        if parts is not None and is_tested:
            tests = dataclasses.replace(tests, confidence=1 - (1 - SHARE) * level)
    if isinstance(tests, CurveTests):
        found = _of_curve(tests, covered)
    elif isinstance(claim, Claim):
        found = _of_point(claim, tests, covered, confidence)
    else:
        raise ValueError("a curve is tested by `curve_tests`, a point by `ClaimTests`")
    verdict = _reached(found, covered, checked, others, background)
    if parts is not None and canaries is not None:
        doubtful: str | None = DRAWS_DEPEND
        if not canaries.depend_on_each_other():
            doubtful = doubt(claim, statistics, checked, others, scope)
        verdict = with_parts(verdict, parts, doubtful, checked, is_tested=is_tested)
    unstated = sentences.tested_unstated(claim, verdict.confidence)
    reason = sentences.lines((unstated, *verdict.reason.splitlines()))
    return dataclasses.replace(verdict, reason=reason, as_curve=_as_curve(verdict, statistics))


@dataclass(frozen=True, eq=False)
class _Found:
    """The results of the tests, and the clauses in which points and curves differ.

    Attributes:
      verdict: The verdict from the tests; it is final if it states a reason.
      nothing: The clause that no test contradicts the claim.
      why_not_simulated: The clauses for an unknown power.
      tested: What was tested, for a consistent claim.
      nearly: A clause on a bound that exceeds the claim only if it is not corrected for the number
        of bounds, and the next step.
    """

    verdict: Verdict
    tests: ClaimTests | CurveTests
    nothing: str
    why_not_simulated: tuple[str, str]
    tested: str | None = None
    nearly: tuple[str, ...] = ()


def _of_point(claim: Claim, tests: ClaimTests, scope: Scope, confidence: float) -> _Found:
    """The results for a claimed point.

    `confidence` is that of the verdict, of whose level the tests may have a share.
    """
    bounds = tests.bounds(claim.delta)
    verdict = Verdict(
        outcome=Outcome.INCONCLUSIVE,
        reason=sentences.NO_METHOD,
        claim=claim,
        confidence=confidence,
        num_tests=len(tests),
    )
    why = sentences.NOT_AT_DELTA_0 if claim.delta == 0 else sentences.NO_SIGNAL
    found = _Found(verdict, tests, f"{sentences.nothing_contradicts(claim)} {scope.whom}", why)
    if not bounds:
        return found
    best = bounds[0]
    verdict = dataclasses.replace(
        verdict,
        reason="",
        epsilon_lower=best.estimate.epsilon,
        method=best.test.method,
        statistic=best.test.statistic.name,
        assumes=best.estimate.assumes,
    )
    if scope.unfit is not None:
        return dataclasses.replace(found, verdict=verdict)
    p = p_value(tests, bounds, claim)
    whole = min(p * (1 - confidence) / (1 - tests.confidence), 1.0)
    verdict = dataclasses.replace(verdict, p_value=whole)
    if best.estimate.epsilon > claim.epsilon:
        reason = sentences.point_contradicted(tests, best, confidence, whole)
        verdict = dataclasses.replace(verdict, outcome=Outcome.CONTRADICTED, reason=reason)
    tested, nearly = sentences.what_was_tested(tests), nearly_decided(claim, tests, bounds, p)
    return dataclasses.replace(found, verdict=verdict, tested=tested, nearly=nearly)


def _of_curve(tests: CurveTests, scope: Scope) -> _Found:
    """The results for a claimed curve."""
    adjusted = [] if scope.unfit is not None else tests.adjusted_p_values
    verdict = Verdict(
        outcome=Outcome.INCONCLUSIVE,
        reason="",
        claim=tests.claim,
        confidence=tests.confidence,
        num_tests=len(tests.tests),
        against=_against(tests, adjusted),
    )
    if not tests.tests:
        verdict = dataclasses.replace(verdict, reason=sentences.NO_CURVE)
    elif adjusted:
        best, p = min(adjusted, key=lambda pair: pair[1])
        verdict = dataclasses.replace(
            verdict,
            method=best.method,
            statistic=best.statistic.name,
            assumes=_ASSUMES[best.method],
            p_value=min(p, 1.0),
        )
        if p <= tests.level:
            verdict = _curve_contradicted(verdict, tests, best)
    elif scope.unfit is None:
        reason = sentences.not_fit("the scores allow no test of a curve", scope.say_so)
        verdict = dataclasses.replace(verdict, reason=reason)
    is_known = bool(tests.tests) and tests.tests[0].method == "trade_off_sum"
    why = sentences.NO_SIGNAL if is_known else sentences.POWER_NOT_KNOWN
    return _Found(verdict, tests, sentences.curve_not_contradicted(tests, scope), why)


def _curve_contradicted(verdict: Verdict, tests: CurveTests, best: CurveTest) -> Verdict:
    mu, claimed, noise = best.mu_lower_bound, shown_noise(tests.claim, best.statistic.name), None
    if mu is not None and claimed is not None and isinstance(best.curve, GaussianTradeOff):
        on_sum = claimed.sum_noise_multiplier * best.curve.mu / mu
        at_most = effective_noise_multiplier(on_sum, claimed.count_noise_stddev)
        noise = sentences.less_than_claimed(tests.claim, at_most, claimed.noise_multiplier)
    return dataclasses.replace(
        verdict,
        outcome=Outcome.CONTRADICTED,
        reason=sentences.curve_contradicted(tests, best, verdict.p_value or 0.0, noise),
        epsilon_lower=tests.claim.epsilon if mu is None else epsilon_of_mu(mu, tests.claim.delta),
    )


def _reached(
    found: _Found,
    scope: Scope,
    canary_check: CanaryCheck,
    others: Sequence[ScoredStatistic],
    background: Background | None,
) -> Verdict:
    """The verdict from the results of the tests and their power."""
    verdict, claim = found.verdict, found.verdict.claim
    if scope.unfit is not None:
        reason = sentences.not_fit(scope.unfit, scope.say_so)
        return dataclasses.replace(verdict, reason=reason)
    if verdict.reason:
        return verdict
    doubtful = doubt(claim, found.tests.statistics, canary_check, others, scope)
    if doubtful is not None:
        reason = sentences.before_next_steps(doubtful, *found.nearly)
        return dataclasses.replace(verdict, reason=reason)
    # Simulated canaries have the measured norm or, if that is unknown, the expected norm.
    length = 1.0 if canary_check.length is None else canary_check.length
    seen = Seen(background, Lengths(length, canary_check.missing), scope)
    simulation = None if claim.delta == 0 else simulate(claim, found.tests, seen)
    start = (canary_check.fault, found.nothing)
    if simulation is None:
        reason = sentences.lines((*start, *found.why_not_simulated))
        return dataclasses.replace(verdict, reason=reason)
    power, needed = simulation.power, None
    rest: tuple[str | None, ...] = found.nearly
    # Consistent if ENOUGH_POWER of audits contradict the claim when FACTOR times it is the truth.
    if power.is_enough:
        closing = () if found.nearly else (sentences.after_consistent(claim),)
        rest = (found.tested, *found.nearly, sentences.OTHER_ATTACKS, *closing)
        verdict = dataclasses.replace(verdict, outcome=Outcome.CONSISTENT)
    elif not found.nearly:
        audit = simulation.audit
        needed = audit.canaries_needed(audit.twice, above=audit.num_canaries)
        rest = (_next_step(found, simulation, needed, seen),)
    words = sentences.power_words(claim, simulation, canary_check)
    return dataclasses.replace(
        verdict,
        reason=sentences.lines((*start, words, sentences.assumed_words(claim, simulation), *rest)),
        power=power.power,
        detectable_epsilon=power.detectable_epsilon,
        detectable=None if isinstance(claim, Claim) else simulation.detectable(claim),
        canaries_needed=needed,
    )


def _next_step(found: _Found, simulation: Simulation, needed: int | None, seen: Seen) -> str:
    """The next step if an audit has too little power, and no uncorrected bound exceeds the claim.

    Only a point is tested by its parts, so a point is suggested if the parts are testable.
    """
    claim, scope = found.verdict.claim, seen.scope
    release = None if seen.background is None else seen.background.release
    has_parts = scope.counts_on_sampling and release is not None and are_testable(release)
    if has_parts and not isinstance(claim, Claim):
        return sentences.CLAIM_A_POINT
    names = [statistic.name for statistic in found.tests.statistics]
    curve = decided_curve(claim, simulation, found.verdict.confidence, scope)
    return sentences.more_power(claim, simulation, needed, scope, names=names, decided=curve)


_ASSUMES: dict[CurveMethod, str] = {
    "trade_off_sum": (
        "The claim limits the score of each included canary, whatever the canaries before it "
        "scored. That is so if scores are independent given who was included."
    ),
    "trade_off_guesses": "Each canary was included by an independent fair coin.",
}


def _as_curve(verdict: Verdict, statistics: Sequence[ScoredStatistic]) -> AsCurve | None:
    """The result for the Gaussian curve through a tested point."""
    claim = verdict.claim
    if not isinstance(claim, Claim) or claim.delta == 0 or verdict.p_value is None:
        return None
    curve = GaussianClaim(1 / sigma_of_epsilon(claim.epsilon, claim.delta), claim.delta)
    tests = curve_tests(curve, statistics, verdict.confidence)
    p = min((p for _, p in tests.adjusted_p_values), default=None)
    return None if p is None else AsCurve(curve.mu, min(p, 1.0), p <= tests.level)


def _against(
    tests: CurveTests, adjusted: Sequence[tuple[CurveTest, float]]
) -> tuple[AgainstAttacker, ...]:
    """The outcome against each attacker of a known threat model, the strongest first."""
    smallest: dict[str, float] = {}
    for test, p in adjusted:
        statistic = STATISTICS.get(test.statistic.name or "")
        if statistic is not None:
            name = statistic.threat_model
            smallest[name] = min(p, smallest.get(name, 1.0))
    return tuple(AgainstAttacker(name, p, p <= tests.level) for name, p in smallest.items())


def after_checks(
    verdict: Verdict,
    failed: Sequence[str],
    not_checked: str | None,
    *,
    of_log: bool = False,
    missing_rounds: Sequence[int] = (),
) -> Verdict:
    """The verdict with the results of the mechanism checks.

    With a failed check no claim is called consistent, because canaries may miss the fault. A
    contradiction remains. An inconclusive verdict on a log asks why rounds (from 1) are missing. A
    consistent verdict says what was not checked and why (`not_checked`), and what no check sees in
    the logs of other systems (`of_log`).
    """
    if missing_rounds and verdict.outcome is Outcome.INCONCLUSIVE and verdict.p_value is not None:
        reason = sentences.missing_first(missing_rounds, verdict.reason)
        verdict = dataclasses.replace(verdict, reason=reason)
    if failed:
        reason = sentences.after_failed_checks(failed, verdict)
        if verdict.outcome is not Outcome.CONTRADICTED:
            verdict = dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE)
        return dataclasses.replace(verdict, reason=reason)
    if verdict.outcome is not Outcome.CONSISTENT:
        return verdict
    unseen = [sentences.UNSEEN_IN_LOGS] if of_log else []
    if not_checked is not None:
        unseen.append(f"not all of the mechanism was checked: {not_checked}")
    reason = sentences.before_next_steps(verdict.reason, *unseen)
    return dataclasses.replace(verdict, reason=reason)


def doubt(
    claim: Claim | CurveClaim,
    tested: Sequence[ScoredStatistic],
    canary_check: CanaryCheck,
    others: Sequence[ScoredStatistic],
    scope: Scope,
) -> str | None:
    """Why scores that contradict nothing are not reassuring; None if they are reassuring."""
    if canary_check.state != "arrived":
        return sentences.canaries_missed(canary_check, scope)
    if canary_check.lacks is not None:
        why = ", but some canaries may not have reached the aggregates"
        known = f"it is known only that {canary_check.reason}"
        return sentences.but(claim, why, f"provide {canary_check.lacks}", known)
    not_covered = scope.not_covered or scope.left_out
    if not_covered is not None:
        step = (
            "let canaries participate as clients may, or claim ε for clients that participate as "
            "canaries"
        )
        return sentences.but(claim, f" {scope.whom}, but {not_covered}", step)
    stronger = clearly_stronger(tested, others)
    if stronger is None:
        return None
    why = (
        f", but {stronger.name}, which was not tested, separates included from excluded canaries "
        f"far better (AUC {auc(stronger.scores):.3g})"
    )
    return sentences.but(claim, why, "test all statistics")


LIVE_ASSUMES = (
    "Canaries' scores are independent given inclusion, and excluded canaries' scores in their own "
    "rounds have the closed-form null distribution, which a test does not reject."
)

_SMALLEST_P_VALUE = 1e-300


def live_verdict(
    claim: Claim | CurveClaim, record: RunRecord, live: LiveRecord, confidence: float
) -> Verdict:
    """The verdict on a run stopped by the test after every round."""
    p_value = max(live.claim_p_value or 0.0, _SMALLEST_P_VALUE)
    rounds = f"{record.rounds_done} of {record.rounds}"
    return Verdict(
        outcome=Outcome.CONTRADICTED,
        reason=sentences.stopped_live(claim, rounds, live.claim_epsilon, confidence, p_value),
        claim=claim,
        confidence=confidence,
        num_tests=1,
        epsilon_lower=live.claim_epsilon,
        method="live",
        statistic="own_rounds",
        assumes=LIVE_ASSUMES,
        p_value=p_value,
    )


# Tested and untested statistics.


_CLEARLY = 0.999
"""Confidence of the AUC intervals, which must be disjoint for a clearly stronger statistic."""


def clearly_stronger(
    tested: Sequence[ScoredStatistic], others: Sequence[ScoredStatistic]
) -> ScoredStatistic | None:
    """The untested statistic whose AUC interval is above that of every tested one, if any."""
    seen = max((_auc_range(statistic)[1] for statistic in tested), default=0.0)
    lowest = {statistic: _auc_range(statistic)[0] for statistic in others}
    best = max(lowest, key=lambda statistic: lowest[statistic], default=None)
    return None if best is None or lowest[best] <= seen else best


def _auc_range(statistic: ScoredStatistic) -> tuple[float, float]:
    """The limits of an interval for the AUC; 0 and 1 if no canary is included, or none excluded."""
    scores = statistic.scores
    if not (scores.num_included and scores.num_excluded):
        return 0.0, 1.0
    interval = auc_interval(scores, _CLEARLY)
    return interval.lower, interval.upper


def nearly_decided(
    claim: Claim, tests: ClaimTests, bounds: Sequence[Bound], p: float
) -> tuple[str, ...]:
    """Clauses on a bound that exceeds the claim by itself but not when corrected, if any."""
    if len(tests) == 1 or p > len(tests) * (1 - tests.confidence):
        return ()
    alone = [bound.test.bound(claim.delta, tests.confidence) for bound in bounds]
    epsilons = [(bound.epsilon, at) for at, bound in enumerate(alone) if bound is not None]
    epsilon, at = max(epsilons, default=(0.0, 0))
    if epsilon <= claim.epsilon:
        return ()
    return sentences.nearly_decided(tests.confidence, epsilon, bounds[at], len(tests))
