"""The verdict that the tests of a claim lead to; its sentences are in sentences.py."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.checks import CanaryCheck
from fl_audit.estimators.roc import auc_interval
from fl_audit.verdict import sentences
from fl_audit.verdict.claim_tests import (
    Bound,
    ClaimTest,
    ClaimTests,
    ScoredStatistic,
    p_value,
)
from fl_audit.verdict.claims import Claim, CurveClaim
from fl_audit.verdict.power import ArrivedSignal, SimulatedAudit, hardest, standard_null
from fl_audit.verdict.record import Outcome, Verdict
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.separation import separation


def reach_verdict(
    claim: Claim,
    tests: ClaimTests,
    scope: Scope | None = None,
    *,
    canary_check: CanaryCheck | None = None,
    others: Sequence[ScoredStatistic] = (),
) -> Verdict:
    """Reaches the verdict on a claim.

    Args:
      claim: The claim for a client.
      tests: The tests, chosen before the scores were seen.
      scope: For whom the canaries stand; by default for clients who take part as they did.
      canary_check: Result of the canary check; by default of one on the scores alone.
        Without their arrival the claim is not called consistent.
      others: Statistics of the same audit that are not tested. If one of them tells canaries apart
        clearly better than all that are, the claim is not called consistent.
    """
    bounds = tests.bounds(claim.delta)
    scope = scope or Scope()
    if scope.unfit is not None:
        reason = sentences.not_fit(scope.unfit, scope.say_so)
        return _verdict(Outcome.INCONCLUSIVE, reason, claim, tests, bounds)
    if not bounds:
        return _verdict(Outcome.INCONCLUSIVE, sentences.NO_METHOD, claim, tests, bounds)
    p = p_value(tests, bounds, claim)
    if bounds[0].estimate.epsilon > claim.epsilon:
        reason = sentences.point_contradicted(tests, bounds[0], p)
        return _verdict(Outcome.CONTRADICTED, reason, claim, tests, bounds, p_value=p)
    canary_check = canary_check or separation(tests.statistics)
    doubtful = doubt(claim, tests.statistics, canary_check, others, scope)
    if doubtful is not None:
        nearly = nearly_decided(claim, tests, bounds, p)
        if nearly is not None:
            doubtful = sentences.before_next_steps(doubtful, *nearly)
        return _verdict(Outcome.INCONCLUSIVE, doubtful, claim, tests, bounds, p_value=p)
    return _not_contradicted(claim, tests, bounds, p, canary_check=canary_check, scope=scope)


def after_checks(verdict: Verdict, failed: Sequence[str], not_checked: str | None) -> Verdict:
    """The verdict beside what the checks of the mechanism found.

    Canaries may have missed what a check finds: with a failed one no claim is called consistent. A
    contradiction stays one. What was not looked at is said where a claim is consistent.

    Args:
      verdict: The verdict that canaries lead to.
      failed: Titles of the checks that failed.
      not_checked: Why aggregates, or some of them, were not checked; None where they were.
    """
    if failed and verdict.outcome is not Outcome.CONTRADICTED:
        reason = sentences.after_failed_checks(failed, verdict.reason)
        return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    if not_checked is not None and verdict.outcome is Outcome.CONSISTENT:
        reason = sentences.not_all_checked(not_checked, verdict.reason)
        return dataclasses.replace(verdict, reason=reason)
    return verdict


def doubt(
    claim: Claim | CurveClaim,
    tested: Sequence[ScoredStatistic],
    canary_check: CanaryCheck,
    others: Sequence[ScoredStatistic],
    scope: Scope,
) -> str | None:
    """Why scores that contradict nothing do not reassure either; None where they may.

    Args:
      claim: The claim.
      tested: The statistics that are tested.
      canary_check: What became of the included canaries.
      others: Statistics of the same audit that are not tested.
      scope: For whom the canaries stand.
    """
    if canary_check.state != "arrived":
        return sentences.canaries_missed(canary_check)
    if canary_check.lacks is not None:
        return sentences.canaries_may_be_lost(claim, canary_check)
    if scope.not_covered is not None:
        return sentences.clients_not_covered(claim, scope)
    stronger = clearly_stronger(tested, others)
    return None if stronger is None else sentences.stronger_left_out(claim, stronger)


def _verdict(
    outcome: Outcome,
    reason: str,
    claim: Claim,
    tests: ClaimTests,
    bounds: Sequence[Bound],
    *,
    p_value: float | None = None,
    power: float | None = None,
    detectable_epsilon: float | None = None,
    canaries_needed: int | None = None,
) -> Verdict:
    """A verdict whose bound is the first of `bounds`, which are sorted, the largest first."""
    best = bounds[0] if bounds else None
    return Verdict(
        outcome=outcome,
        reason=reason,
        claim=claim,
        confidence=tests.confidence,
        num_tests=len(tests),
        epsilon_lower=best.estimate.epsilon if best else 0.0,
        method=best.test.method if best else None,
        statistic=best.test.statistic.name if best else None,
        assumes=best.estimate.assumes if best else None,
        p_value=p_value,
        power=power,
        detectable_epsilon=detectable_epsilon,
        canaries_needed=canaries_needed,
    )


def _not_contradicted(
    claim: Claim,
    tests: ClaimTests,
    bounds: Sequence[Bound],
    p: float,
    *,
    canary_check: CanaryCheck,
    scope: Scope,
) -> Verdict:
    """The verdict where no bound exceeds the claim: consistent or inconclusive.

    The claim is consistent if enough simulated audits of a mechanism with FACTOR times the claimed
    epsilon contradict it, with as much of the canaries' signal as arrived.
    """
    nothing = f"{sentences.nothing_contradicts(claim)} {scope.whom}"
    if claim.delta == 0:
        reason = sentences.lines((canary_check.fault, nothing, *sentences.NOT_AT_DELTA_0))
        return _verdict(Outcome.INCONCLUSIVE, reason, claim, tests, bounds, p_value=p)
    nearly = nearly_decided(claim, tests, bounds, p)
    simulated_on = _simulated_statistics(tests, canary_check)
    scores = simulated_on[0].scores
    num_canaries = scores.num_included + scores.num_excluded
    simulated = _simulated_audit(claim, tests, simulated_on[0], canary_check)
    simulation = simulated.simulate(num_canaries)
    power = sentences.point_power_words(
        claim, simulated_on, canary_check, arrived_signal(canary_check), simulation
    )
    needed = None
    if simulation.is_enough:
        outcome = Outcome.CONSISTENT
        tested = sentences.what_was_tested(tests, limit_of_so_many(claim, tests))
        rest = (
            tested,
            *(nearly or ()),
            sentences.OTHER_ATTACKS,
            *(() if nearly else (sentences.after_consistent(claim),)),
        )
    else:
        outcome, most = Outcome.INCONCLUSIVE, reachable_epsilon(claim, tests, simulated_on[0])
        if not nearly:
            needed = simulated.canaries_needed(num_canaries, simulation.detectable_epsilon)
        if most <= claim.epsilon:
            power = sentences.too_few_canaries(num_canaries, simulated_on, most)
        rest = nearly or (sentences.more_power(tests, needed, scope),)
    return _verdict(
        outcome,
        sentences.lines((canary_check.fault, nothing, power, *rest)),
        claim,
        tests,
        bounds,
        p_value=p,
        power=simulation.power,
        detectable_epsilon=simulation.detectable_epsilon,
        canaries_needed=needed,
    )


def _simulated_audit(
    claim: Claim, tests: ClaimTests, statistic: ScoredStatistic, canary_check: CanaryCheck
) -> SimulatedAudit:
    """The audit like that of a statistic whose true epsilon is free."""
    scores = statistic.scores
    return SimulatedAudit(
        claim=claim,
        methods=tuple(tests.methods),
        level=tests.level,
        null=standard_null(statistic),
        included_share=scores.num_included / (scores.num_included + scores.num_excluded),
        inclusion=scores.inclusion,
        inclusion_probability=scores.inclusion_probability,
        arrived=arrived_signal(canary_check),
    )


def _simulated_statistics(tests: ClaimTests, canary_check: CanaryCheck) -> list[ScoredStatistic]:
    """The statistics whose power is simulated; what the first of them shows, they all would.

    Where the signal was measured in canaries' own rounds, it is the statistic of those, if that is
    tested; else those with whose null distributions least can be proven.
    """
    measured = [statistic for statistic in tests.statistics if statistic.name == OWN_ROUNDS.name]
    return measured if measured and canary_check.signal is not None else hardest(tests.statistics)


def arrived_signal(canary_check: CanaryCheck) -> ArrivedSignal:
    """What included canaries show, by their arrival; all of it where nothing is known."""
    signal = 1.0 if canary_check.signal is None else min(max(canary_check.signal, 0.0), 1.0)
    if canary_check.num_scored is None or not canary_check.num_included:
        return ArrivedSignal(signal)
    return ArrivedSignal(signal, canary_check.num_scored / canary_check.num_included)


# What was tested, and what was not.


_CLEARLY = 0.999
"""Confidence of the intervals that have to lie apart for one statistic to see clearly more."""


def limit_of_so_many(claim: Claim, tests: ClaimTests) -> float | None:
    """The largest bound that so many canaries can show; None where higher scores show more.

    Under a known null distribution no such limit is met.
    """
    most = 0.0
    for statistic in tests.statistics:
        limit = reachable_epsilon(claim, tests, statistic)
        if reachable_epsilon(claim, tests, statistic, share=0.5) < limit:
            return None
        most = max(most, limit)
    return most


def reachable_epsilon(
    claim: Claim, tests: ClaimTests, statistic: ScoredStatistic, share: float = 1.0
) -> float:
    """The largest bound if all included canaries scored 1, or as much as the best of all.

    Args:
      claim: The claim, at whose delta bounds are made.
      tests: The methods and the level of each.
      statistic: The scores.
      share: How far they score from the best of all towards 1; at any share above 0 every
        threshold that separates them all does.
    """
    observed = statistic.scores
    best = max(*observed.included, *observed.excluded)
    best += share * max(0.0, 1.0 - best)
    scores = dataclasses.replace(observed, included=np.full(observed.num_included, best))
    apart = dataclasses.replace(statistic, scores=scores)
    bounds = (ClaimTest(name, apart).bound(claim.delta, 1 - tests.level) for name in tests.methods)
    return max((bound.epsilon for bound in bounds if bound is not None), default=0.0)


def clearly_stronger(
    tested: Sequence[ScoredStatistic], others: Sequence[ScoredStatistic]
) -> ScoredStatistic | None:
    """The statistic that was not tested and separates canaries clearly better.

    Args:
      tested: The statistics that the verdict is about.
      others: The statistics of the same audit that it leaves out.

    Returns:
      None where no interval for the AUC of another statistic lies above those of all tested ones.
    """
    seen = max((_auc_range(statistic)[1] for statistic in tested), default=0.0)
    lowest = {statistic: _auc_range(statistic)[0] for statistic in others}
    best = max(lowest, key=lambda statistic: lowest[statistic], default=None)
    return None if best is None or lowest[best] <= seen else best


def _auc_range(statistic: ScoredStatistic) -> tuple[float, float]:
    """Both ends of an interval for the AUC; all of [0, 1] without both kinds of canaries."""
    scores = statistic.scores
    if not (scores.num_included and scores.num_excluded):
        return 0.0, 1.0
    interval = auc_interval(scores, _CLEARLY)
    return interval.lower, interval.upper


def nearly_decided(
    claim: Claim, tests: ClaimTests, bounds: Sequence[Bound], p: float
) -> tuple[str, str] | None:
    """Sentences on a bound that exceeds the claim by itself, but not with all others.

    Args:
      claim: The claim, which no bound exceeds.
      tests: The tests.
      bounds: The bounds that they prove together.
      p: The p-value of the claim.

    Returns:
      None where no bound would exceed the claim by itself.
    """
    if len(tests) == 1 or p > len(tests) * (1 - tests.confidence):
        return None
    alone = [bound.test.bound(claim.delta, tests.confidence) for bound in bounds]
    epsilons = [(bound.epsilon, at) for at, bound in enumerate(alone) if bound is not None]
    epsilon, at = max(epsilons, default=(0.0, 0))
    if epsilon <= claim.epsilon:
        return None
    return sentences.nearly_decided(tests.confidence, epsilon, bounds[at], len(tests))
