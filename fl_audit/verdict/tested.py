"""What a verdict that reassures has to say: what was tested, and what was not."""

import dataclasses
import decimal
from collections.abc import Sequence

import numpy as np

from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
from fl_audit.estimators.roc import auc, auc_interval
from fl_audit.number_words import lower_bound_text, significant
from fl_audit.verdict.bearing import Bearing
from fl_audit.verdict.claim import Claim
from fl_audit.verdict.claim_tests import Bound, ClaimTest, ClaimTests, ScoredStatistic

_CLEARLY = 0.999
"""Confidence of the intervals that have to lie apart for one statistic to see clearly more."""


def what_was_tested(claim: Claim, tests: ClaimTests) -> str:
    """A clause on the statistics, attackers and methods, and on what they could have shown."""
    names = [one.name for one in tests.statistics if one.name is not None]
    on = f" on {', '.join(names)}" if names else ""
    against = _attackers(names)
    most = max(largest_provable(claim, tests, statistic) for statistic in tests.statistics)
    return (
        f"tested{on}{against} by {', '.join(tests.methods)}, which could have shown at most "
        f"ε ≥ {lower_bound_text(most)} here; other attacks may show more"
    )


def _attackers(names: Sequence[str]) -> str:
    """The titles of the threat models of some statistics, such as " (threat model Final model)"."""
    found = [STATISTICS.get(name) for name in names]
    models = dict.fromkeys(one.threat_model for one in found if one is not None)
    titles = [model.title for model in map(THREAT_MODELS.get, models) if model is not None]
    if not titles:
        return ""
    return f" (threat model{'s' if len(titles) > 1 else ''} {', '.join(titles)})"


def largest_provable(claim: Claim, tests: ClaimTests, statistic: ScoredStatistic) -> float:
    """The largest bound if all included canaries scored 1, or as much as the best of all."""
    found = statistic.scores
    best = max(1.0, *found.included, *found.excluded)
    scores = dataclasses.replace(found, included=np.full(found.num_included, best))
    apart = dataclasses.replace(statistic, scores=scores)
    made = (ClaimTest(name, apart).bound(claim.delta, 1 - tests.level) for name in tests.methods)
    return max((bound.epsilon for bound in made if bound is not None), default=0.0)


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
    seen = max((_auc_range(one)[1] for one in tested), default=0.0)
    lowest = {one: _auc_range(one)[0] for one in others}
    best = max(lowest, key=lambda one: lowest[one], default=None)
    if best is None or lowest[best] <= seen:
        return None
    return (
        f"{best.name}, which was not asked about, tells included canaries from excluded ones far "
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
    found = [(made.epsilon, at) for at, made in enumerate(alone) if made is not None]
    epsilon, at = max(found, default=(0.0, 0))
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


def next_step(tests: ClaimTests, canaries_needed: int | None, bearing: Bearing) -> str:
    """What to do next where the audit could hardly have told."""
    names = {statistic.name for statistic in tests.statistics}
    steps = []
    if canaries_needed is not None:
        steps.append(f"about {canaries_needed:,} canaries instead of {_num_canaries(tests):,}")
    if names - {None} and OWN_ROUNDS.name not in names:
        if bearing.has_say(OWN_ROUNDS.name):
            steps.append("known rounds (the statistic own_rounds, on which most is proven)")
        elif bearing.say_so is not None:
            steps.append(f"{bearing.say_so}, and own_rounds counts")
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
