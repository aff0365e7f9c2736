"""The verdict that the tests of a claim lead to."""

import dataclasses
import decimal
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
from fl_audit.checks import Arrival
from fl_audit.estimators.roc import auc, auc_interval
from fl_audit.json_records import (
    WRITTEN_IF_SET,
    fields_from_json,
    fields_to_json,
    from_json,
)
from fl_audit.number_words import lower_bound_text, significant
from fl_audit.verdict.claim_tests import (
    Bound,
    ClaimTest,
    ClaimTests,
    ScoredStatistic,
    p_value,
)
from fl_audit.verdict.claims import Claim, CurveClaim, claim_from_json, claim_to_json
from fl_audit.verdict.power import FACTOR, Shown, SimulatedAudit, hardest, standard_null
from fl_audit.verdict.scope import Scope
from fl_audit.verdict.separation import separation


class Outcome(enum.StrEnum):
    """The outcome of a verdict on a claim."""

    CONTRADICTED = "contradicted"
    """A lower bound that holds for any mechanism exceeds the claim."""
    CONSISTENT = "consistent"
    """No bound exceeds it, canaries were seen to arrive, no other statistic sees clearly more, and
    the audit had the power to contradict a claim wrong by FACTOR, with what arrived."""
    INCONCLUSIVE = "inconclusive"
    """No bound exceeds it, but something of that is missing; or the canaries do not bear on it."""


@dataclass(frozen=True)
class Detectable:
    """The smallest violation of a claimed curve that 80 % of such audits would have contradicted.

    Attributes:
      mu: The mu of a Gaussian mechanism that leaks as much.
      noise_multiplier: The noise multiplier in place of the claimed one; None where the claim is
        about no noise, or the attacker does not know the rounds.
    """

    mu: float
    noise_multiplier: float | None = None


@dataclass(frozen=True)
class AsCurve:
    """The verdict on a claimed point if the Gaussian curve through it had been claimed.

    Attributes:
      mu: The mu whose Gaussian curve allows the claimed epsilon at delta.
      p_value: The p-value of that curve.
      is_contradicted: Whether it falls at the confidence of the verdict.
    """

    mu: float
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class AgainstAttacker:
    """What the tests of a curve say of one attacker, whom the claim allows a curve of his own.

    Attributes:
      threat_model: Name of the attacker's threat model.
      p_value: The smallest p-value of the tests on what he sees, weighted so that all tests of the
        claim together have the level of the verdict.
      is_contradicted: Whether one of these tests contradicts the claim.
    """

    threat_model: str
    p_value: float
    is_contradicted: bool


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, and what it rests on.

    Attributes:
      outcome: Whether the claim is contradicted, consistent, or neither can be told.
      reason: The reason for the outcome, as a clause in which the claim is "it".
      claim: The claim.
      confidence: The probability that no lower bound among the tests exceeds the truth, at least.
      num_tests: Number of lower bounds made, each at confidence 1 - (1 - confidence) / num_tests.
      epsilon_lower: The largest lower bound; 0 where there is none.
      method: Name of the method that proved it; None where the scores allow no method.
      statistic: Name of the statistic that it was proved on; None where it has no name.
      assumes: What has to hold for the bound, in words.
      p_value: The smallest 1 - confidence at which the claim would be contradicted; None where the
        canaries do not bear on it.
      power: Share of simulated audits of a mechanism with FACTOR times the claimed epsilon that
        contradict the claim; None where it was not simulated.
      detectable_epsilon: The smallest true epsilon at the claim's delta of which ENOUGH_POWER of
        simulated audits contradict the claim; None where there is none, or it was not simulated.
      canaries_needed: Approximate number of canaries that gives ENOUGH_POWER; None where that was
        not asked, or no number that was tried does.
      detectable: What of a curve would have been contradicted, in its own units; None for a point.
      as_curve: What a claimed point would have been told as a curve; None for a curve, or where
        that cannot be said.
      against: What the tests of a curve say of each attacker, the strongest first; empty for a
        point, and where nothing was tested.
    """

    outcome: Outcome
    reason: str
    claim: Claim | CurveClaim
    confidence: float
    num_tests: int
    epsilon_lower: float = 0.0
    method: str | None = None
    statistic: str | None = None
    assumes: str | None = None
    p_value: float | None = None
    power: float | None = None
    detectable_epsilon: float | None = None
    canaries_needed: int | None = None
    detectable: Detectable | None = field(default=None, metadata=WRITTEN_IF_SET)
    as_curve: AsCurve | None = field(default=None, metadata=WRITTEN_IF_SET)
    against: tuple[AgainstAttacker, ...] = field(default=(), metadata=WRITTEN_IF_SET)

    @property
    def simulated_epsilon(self) -> float:
        """Epsilon of the mechanism whose audits are simulated."""
        return FACTOR * self.claim.epsilon

    def to_json(self) -> dict[str, object]:
        """The JSON object of report.json, with the claim among its keys."""
        fields = fields_to_json(self)
        claim = {
            "outcome": fields.pop("outcome"),
            "reason": fields.pop("reason"),
            "claimed_epsilon": self.claim.epsilon,
            "claimed_delta": self.claim.delta,
            "claimed_for": self.claim.whom,
        }
        simulated = {"simulated_epsilon": self.simulated_epsilon}
        fields["claim"] = claim_to_json(self.claim)
        return {**claim, "num_looks": fields.pop("num_tests"), **fields, **simulated}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Verdict":
        """The verdict that `to_json` writes.

        Raises:
          ValueError: A key is missing, or a value is of another type.
        """
        epsilon, delta = fields["claimed_epsilon"], fields["claimed_delta"]
        if "claim" in fields:
            claim = claim_from_json(fields["claim"])
        else:  # as in older reports
            claim = Claim(from_json(float, epsilon), from_json(float, delta))
        num_tests = from_json(int, fields["num_looks"])
        return fields_from_json(cls, fields, claim=claim, num_tests=num_tests)


def reach_verdict(
    claim: Claim,
    tests: ClaimTests,
    scope: Scope | None = None,
    *,
    arrival: Arrival | None = None,
    others: Sequence[ScoredStatistic] = (),
) -> Verdict:
    """Reaches the verdict on a claim.

    Args:
      claim: The claim for a client.
      tests: The tests, chosen before the scores were seen.
      scope: For whom the canaries stand; by default for clients who take part as they did.
      arrival: What became of the included canaries; by default what the scores alone show of it.
        Without their arrival the claim is not called consistent.
      others: Statistics of the same audit that are not tested. If one of them tells canaries apart
        clearly better than all that are, the claim is not called consistent.
    """
    bounds = tests.bounds(claim.delta)
    scope = scope or Scope()
    if scope.unfit is not None:
        step = scope.say_so or "canaries that take part as clients do (docs/verdict.md)"
        reason = f"{scope.unfit}; next: {step}"
        return _verdict(Outcome.INCONCLUSIVE, reason, claim, tests, bounds)
    if not bounds:
        reason = (
            "the scores allow no method that holds for any mechanism; next: more canaries, which "
            "coins include or exclude"
        )
        return _verdict(Outcome.INCONCLUSIVE, reason, claim, tests, bounds)
    p = p_value(tests, bounds, claim)
    if bounds[0].estimate.epsilon > claim.epsilon:
        reason = _contradiction(tests, bounds[0], p)
        return _verdict(Outcome.CONTRADICTED, reason, claim, tests, bounds, p_value=p)
    arrival = arrival or separation(tests.statistics)
    doubtful = doubt(tests.statistics, arrival, others, scope)
    if doubtful is not None:
        return _verdict(Outcome.INCONCLUSIVE, doubtful, claim, tests, bounds, p_value=p)
    return _not_contradicted(claim, tests, bounds, p, arrival=arrival, scope=scope)


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
        reason = (
            f"the mechanism is not as configured ({', '.join(failed)}: see the checks); of the "
            f"canaries, {verdict.reason}; next: mend what the checks name, then audit again"
        )
        return dataclasses.replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    if not_checked is not None and verdict.outcome is Outcome.CONSISTENT:
        unseen = f"not all of the mechanism was checked: {not_checked}"
        return dataclasses.replace(verdict, reason=f"{verdict.reason}; {unseen}")
    return verdict


def doubt(
    tested: Sequence[ScoredStatistic],
    arrival: Arrival,
    others: Sequence[ScoredStatistic],
    scope: Scope,
) -> str | None:
    """Why scores that contradict nothing do not reassure either; None where they may.

    Args:
      tested: The statistics that are tested.
      arrival: What became of the included canaries.
      others: Statistics of the same audit that are not tested.
      scope: For whom the canaries stand.
    """
    if arrival.state == "not_arrived":
        return (
            f"the canary check failed, so low scores mean nothing: {arrival.reason}; "
            "next: fix that fault (docs/arrival.md)"
        )
    if arrival.state == "cannot_tell":
        return (
            f"the canary check is not conclusive, so low scores mean nothing: "
            f"{arrival.reason}; next: make the check pass (docs/arrival.md), then use more "
            "canaries or presentations"
        )
    if arrival.lacks is not None:
        return (
            f"no lower bound exceeds it, but some canaries may be lost: {arrival.reason}; "
            f"next: provide {arrival.lacks}"
        )
    if scope.not_covered is not None:
        return (
            f"no lower bound exceeds it {scope.whom}, but {scope.not_covered}; next: canaries "
            "that take part as clients may, or a claim for such a client"
        )
    stronger = clearly_stronger(tested, others)
    if stronger is None:
        return None
    return f"no lower bound exceeds it, but {stronger}; next: test all statistics"


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


def _contradiction(tests: ClaimTests, best: Bound, p: float) -> str:
    together = {1: "", 2: " for both bounds together"}.get(
        len(tests), f" for all {len(tests)} bounds together"
    )
    return (
        f"the lower bound ε ≥ {lower_bound_text(best.estimate.epsilon)} by {best.test.method}"
        f"{_on([best.test.statistic])} exceeds it, with {100 * tests.confidence:g} % confidence"
        f"{together} (p ≤ {p:.2g})"
    )


def _not_contradicted(
    claim: Claim,
    tests: ClaimTests,
    bounds: Sequence[Bound],
    p: float,
    *,
    arrival: Arrival,
    scope: Scope,
) -> Verdict:
    """The verdict where no bound exceeds the claim: consistent or inconclusive.

    The claim is consistent if enough simulated audits of a mechanism with FACTOR times the claimed
    epsilon contradict it, with as much of the canaries' signal as arrived.
    """
    fault = "" if arrival.fault is None else f"{arrival.fault}; "
    if claim.delta == 0:
        reason = (
            "no lower bound exceeds it; how likely one would is not simulated at δ = 0, where "
            "Gaussian noise has no finite ε; next: a claim at a δ above 0"
        )
        return _verdict(Outcome.INCONCLUSIVE, fault + reason, claim, tests, bounds, p_value=p)
    nearly = nearly_decided(claim, tests, bounds, p)
    simulated_on = _simulated_statistics(tests, arrival)
    scores = simulated_on[0].scores
    num_canaries = scores.num_included + scores.num_excluded
    simulated = _simulated_audit(claim, tests, simulated_on[0], arrival)
    simulation = simulated.simulate(num_canaries)
    conditions = _what_was_simulated(claim, simulated_on, arrival, simulation.power)
    if simulation.is_enough:
        needed, outcome = None, Outcome.CONSISTENT
        said = (
            f"no lower bound exceeds it {scope.whom}; "
            f"{detectable_words(simulation.detectable_epsilon)} ({conditions})"
        )
        rest = "; ".join(filter(None, [nearly, what_was_tested(claim, tests)]))
    else:
        needed = (
            None
            if nearly
            else simulated.canaries_needed(num_canaries, simulation.detectable_epsilon)
        )
        outcome, most = Outcome.INCONCLUSIVE, largest_provable(claim, tests, simulated_on[0])
        least = f"{detectable_words(simulation.detectable_epsilon, only=True)} ({conditions})"
        if most <= claim.epsilon:
            least = _cannot_prove(num_canaries, simulated_on, most)
        said = f"no lower bound exceeds it, but {least}"
        rest = nearly or next_step(tests, needed, scope)
    return _verdict(
        outcome,
        f"{fault}{said}; {rest}",
        claim,
        tests,
        bounds,
        p_value=p,
        power=simulation.power,
        detectable_epsilon=simulation.detectable_epsilon,
        canaries_needed=needed,
    )


def _cannot_prove(num_canaries: int, statistics: Sequence[ScoredStatistic], most: float) -> str:
    return (
        f"{num_canaries:,} canaries{_on(statistics)} can show at most "
        f"ε ≥ {lower_bound_text(most)}, even if the attack makes no error"
    )


def _simulated_audit(
    claim: Claim, tests: ClaimTests, statistic: ScoredStatistic, arrival: Arrival
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
        shown=shown_by(arrival),
    )


def _simulated_statistics(tests: ClaimTests, arrival: Arrival) -> list[ScoredStatistic]:
    """The statistics whose power is simulated; what the first of them shows, they all would.

    Where the signal was measured in canaries' own rounds, it is the statistic of those, if that is
    tested; else those with whose null distributions least can be proven.
    """
    measured = [statistic for statistic in tests.statistics if statistic.name == OWN_ROUNDS.name]
    return measured if measured and arrival.signal is not None else hardest(tests.statistics)


def shown_by(arrival: Arrival) -> Shown:
    """What included canaries show, by their arrival; all of it where nothing is known."""
    signal = 1.0 if arrival.signal is None else min(max(arrival.signal, 0.0), 1.0)
    if arrival.num_scored is None or not arrival.num_included:
        return Shown(signal)
    return Shown(signal, arrival.num_scored / arrival.num_included)


def _what_was_simulated(
    claim: Claim, statistics: Sequence[ScoredStatistic], arrival: Arrival, power: float
) -> str:
    """A clause on the simulated audits: how many contradict FACTOR times the claim, and of whom."""
    scores = statistics[0].scores
    shown = (
        "if canaries show their whole signal, which was not measured"
        if arrival.signal is None
        else f"where canaries show at least {100 * shown_by(arrival).signal:.3g} % of their signal"
    )
    silent = ""
    if arrival.num_scored is not None and arrival.num_scored != arrival.num_included:
        silent = f" and {arrival.num_scored:,} of {arrival.num_included:,} included ones count"
    return (
        f"twice the claim, ε = {FACTOR * claim.epsilon:g}, in {100 * power:.3g} % of simulated "
        "audits with "
        f"{scores.num_included + scores.num_excluded:,} canaries{_on(statistics)}, {shown}{silent}"
    )


def _on(statistics: Sequence[ScoredStatistic]) -> str:
    """The statistics' names, such as " on max or sum"; empty where they have none."""
    names = [statistic.name for statistic in statistics if statistic.name is not None]
    return f" on {' or '.join(names)}" if names else ""


# What a verdict has to say that does not contradict: what was tested, and what was not.


_CLEARLY = 0.999
"""Confidence of the intervals that have to lie apart for one statistic to see clearly more."""


def what_was_tested(claim: Claim, tests: ClaimTests) -> str:
    """A clause on the statistics, attackers and methods.

    It says what they could have shown at most where the number of canaries limits them all. Under
    a known null distribution no such limit is met: higher scores would show more.
    """
    names = [statistic.name for statistic in tests.statistics if statistic.name is not None]
    on = f" on {', '.join(names)}" if names else ""
    against = attackers_of(names)
    limit = _limit_of_so_many(claim, tests)
    most = (
        ""
        if limit is None
        else f", which could have shown at most ε ≥ {lower_bound_text(limit)} here"
    )
    return f"tested{on}{against} by {', '.join(tests.methods)}{most}; other attacks may show more"


def _limit_of_so_many(claim: Claim, tests: ClaimTests) -> float | None:
    """The largest bound that so many canaries can show; None where higher scores show more."""
    most = 0.0
    for statistic in tests.statistics:
        limit = largest_provable(claim, tests, statistic)
        if largest_provable(claim, tests, statistic, share=0.5) < limit:
            return None
        most = max(most, limit)
    return most


def attackers_of(names: Sequence[str]) -> str:
    """The titles of the threat models of some statistics, such as " (threat model Final model)"."""
    statistics = [STATISTICS.get(name) for name in names]
    models = dict.fromkeys(
        statistic.threat_model for statistic in statistics if statistic is not None
    )
    titles = [model.title for model in map(THREAT_MODELS.get, models) if model is not None]
    if not titles:
        return ""
    return f" (threat model{'s' if len(titles) > 1 else ''} {', '.join(titles)})"


def largest_provable(
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
) -> str | None:
    """A clause on a statistic that was not tested and tells canaries apart clearly better.

    Args:
      tested: The statistics that the verdict is about.
      others: The statistics of the same audit that it leaves out.

    Returns:
      None where no interval for the AUC of another statistic lies above those of all tested ones.
    """
    seen = max((_auc_range(statistic)[1] for statistic in tested), default=0.0)
    lowest = {statistic: _auc_range(statistic)[0] for statistic in others}
    best = max(lowest, key=lambda statistic: lowest[statistic], default=None)
    if best is None or lowest[best] <= seen:
        return None
    return (
        f"{best.name}, which was not tested, separates included from excluded canaries far "
        f"better (AUC {auc(best.scores):.3g})"
    )


def _auc_range(statistic: ScoredStatistic) -> tuple[float, float]:
    """Both ends of an interval for the AUC; all of [0, 1] without both kinds of canaries."""
    scores = statistic.scores
    if not (scores.num_included and scores.num_excluded):
        return 0.0, 1.0
    interval = auc_interval(scores, _CLEARLY)
    return interval.lower, interval.upper


def nearly_decided(
    claim: Claim, tests: ClaimTests, bounds: Sequence[Bound], p: float
) -> str | None:
    """A clause on a bound that exceeds the claim by itself, but not with all others.

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
    test = bounds[at].test
    on = "" if test.statistic.name is None else f" on {test.statistic.name}"
    return (
        f"by itself, the {100 * tests.confidence:g} % bound by {test.method}{on} is "
        f"ε ≥ {lower_bound_text(epsilon)}, which exceeds it; corrected for all {len(tests)} bounds "
        f"it is {lower_bound_text(bounds[at].estimate.epsilon)}; next: choose this statistic and "
        "this method before another training (audit.verdict_statistic, audit.verdict_method; "
        "--statistic, --methods)"
    )


def next_step(tests: ClaimTests, canaries_needed: int | None, scope: Scope) -> str:
    """What to do next where the audit could hardly have told."""
    names = {statistic.name for statistic in tests.statistics}
    steps = []
    if canaries_needed is not None:
        steps.append(f"about {canaries_needed:,} canaries instead of {_num_canaries(tests):,}")
    if names - {None} and OWN_ROUNDS.name not in names:
        if scope.covers(OWN_ROUNDS.name):
            steps.append("known rounds (the statistic own_rounds, which shows most)")
        elif scope.say_so is not None and scope.counts_on_sampling is None:
            steps.append(f"{scope.say_so}, and own_rounds counts")
    if len(tests) > 1:
        steps.append("a verdict on one statistic and one method, chosen beforehand")
    if canaries_needed is None:
        steps.append("more presentations of each canary and more canaries")
    return f"next: {', or '.join(steps)}"


def detectable_words(epsilon: float | None, *, only: bool = False) -> str:
    """A clause on the smallest epsilon that an audit would have contradicted with enough power.

    Args:
      epsilon: That epsilon; None where there is none.
      only: Whether it is too large to reassure.
    """
    if epsilon is None:
        return "no true ε, however large, would have been contradicted with 80 % power"
    start = "only a true ε" if only else "a true ε"
    least = significant(epsilon, 2, decimal.ROUND_UP)
    return f"{start} of {least} or more would have been contradicted"


def _num_canaries(tests: ClaimTests) -> int:
    scores = tests.statistics[0].scores
    return scores.num_included + scores.num_excluded
