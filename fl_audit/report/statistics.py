"""Estimates on each statistic, checks of their assumptions, and the audit's efficiency.

Efficiency compares the audit's largest lower bound with the lower bound that the best threshold
would reach, and with the upper bound from accounting.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fl_audit.accounting import AttackerBounds, reachable_bound
from fl_audit.array_types import FloatArray
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import THREAT_MODELS
from fl_audit.errors import InputError
from fl_audit.estimators import AndersonDarling, AuditResult, Estimate, anderson_darling, estimate
from fl_audit.estimators.null import Null
from fl_audit.estimators.result import IF_GAUSSIAN, WHATEVER_DISTRIBUTION
from fl_audit.estimators.roc.summary import DetectionRate, detection_rates
from fl_audit.estimators.scores import CanaryScores
from fl_audit.formats.run_record import LiveRecord
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.report import (
    Efficiency,
    GaussianEfficiency,
    NormalityTests,
    NullCheck,
    StatisticReport,
)
from fl_audit.verdict import ScoredStatistic, separation
from fl_audit.verdict.decision import LIVE_ASSUMES

_STOPPED = (
    "None: the run was stopped because of these canaries' scores, and a bound computed then "
    "exceeds the true epsilon more often than its confidence says. Only the live bound holds, at "
    "the run's own delta and confidence."
)


def estimates_on(
    scored: ScoredStatistic, delta: float, confidence: float, methods: Sequence[str] | None = None
) -> AuditResult:
    """The estimates on one statistic, with the null distribution of its scores."""
    return estimate(
        scored.scores, delta=delta, confidence=confidence, methods=methods, null=scored.null
    )


def statistic_of_run(run: FinishedRun, statistic: Statistic) -> StatisticReport:
    """Estimates epsilon on one statistic of a run, with checks of the assumptions."""
    scored = run.scored(statistic)
    try:
        result = estimates_on(scored, run.record.delta, run.config.audit.confidence)
    except InputError as error:
        raise InputError(f"{run.folder.scores(statistic.name)}: {error}") from error
    if run.record.stopped_after is not None:
        result = after_stop(result, run.record.live, statistic.name)
    return with_checks(result, scored, statistic.threat_model)


def after_stop(result: AuditResult, live: LiveRecord | None, statistic: str) -> AuditResult:
    """The estimates of a run that its scores stopped; on `own_rounds`, with the live bound first.

    The live bound is valid at every round. Other bounds are for a number of rounds fixed
    beforehand, but the stopping time depends on coins and scores. So no other bound holds at its
    stated confidence, and only the live bound is reported as valid.
    """
    others = tuple(
        dataclasses.replace(estimate, valid_for=None, guarantee=_STOPPED)
        if estimate.valid_for is not None
        else estimate
        for estimate in result.estimates
    )
    if live is None or statistic != "own_rounds":
        return dataclasses.replace(result, estimates=others)
    bound = Estimate(
        method="live",
        kind="lower_bound",
        epsilon=live.epsilon,
        lower=live.epsilon,
        valid_for="independent scores",
        assumes=LIVE_ASSUMES,
        guarantee=(
            f"True epsilon is at least this with {100 * result.confidence:g} % confidence, at all "
            "rounds at once, whatever stopped the run."
        ),
        source="The test martingale of docs/live_verdict.md (Ville 1939)",
    )
    return dataclasses.replace(result, estimates=(bound, *others))


def with_checks(result: AuditResult, scored: ScoredStatistic, threat_model: str) -> StatisticReport:
    """The estimates on one statistic, with checks of their assumptions."""
    scores = scored.scores
    estimated = {f.name: getattr(result, f.name) for f in dataclasses.fields(AuditResult)}
    return StatisticReport(
        **estimated,
        threat_model=threat_model,
        null=scored.null.kind,
        bounds_null=scored.null.kind if scored.null.tail is None else "closed_form",
        anderson_darling=NormalityTests(
            included=_normality(scores.included), excluded=_normality(scores.excluded)
        ),
        null_check=_null_check(scored.null, scores),
        found=_detection_rates(scored, result.confidence),
        turned_round=_turned_round(result, scored),
    )


def _turned_round(result: AuditResult, scored: ScoredStatistic) -> float | None:
    """The lower bound from negated scores, if the scores seem to have the wrong sign; else None."""
    if result.roc is None or result.roc.auc >= 0.5 or separation([scored]).state != "not_arrived":
        return None
    scores = scored.scores
    negated = dataclasses.replace(scores, included=-scores.included, excluded=-scores.excluded)
    (bound,) = estimate(
        negated,
        delta=result.delta,
        confidence=result.confidence,
        methods=["threshold_valid"],
        null="empirical",
    ).estimates
    return bound.epsilon


def _detection_rates(scored: ScoredStatistic, confidence: float) -> tuple[DetectionRate, ...]:
    """True positive rates at known false positive rates; empty if the design gives no null."""
    null, included = scored.null.known_tail(), scored.scores.included
    if null is None or scored.null.source != "design" or not len(included):
        return ()
    return detection_rates(included, null, confidence)


def _normality(scores: FloatArray) -> AndersonDarling | None:
    """The Anderson-Darling test; None for fewer than 4 scores, or equal scores."""
    if len(scores) < 4 or np.all(scores == scores[0]):
        return None
    return anderson_darling(scores)


def _null_check(null: Null, scores: CanaryScores) -> NullCheck | None:
    """Moments of the excluded scores, and those expected under the null distribution N(0, 1/dim).

    None if the null has no closed form or there are fewer than 2 excluded scores.
    """
    num, dim = scores.num_excluded, null.dim
    if null.kind != "closed_form" or dim is None or num < 2:
        return None
    return NullCheck(
        num_excluded=num,
        mean=float(np.mean(scores.excluded)),
        mean_expected=0.0,
        mean_standard_error=1 / math.sqrt(dim * num),
        variance=float(np.var(scores.excluded, ddof=1)),
        variance_expected=1 / dim,
        variance_standard_error=math.sqrt(2 / (num - 1)) / dim,
    )


def efficiency_of(
    bounds: AttackerBounds,
    statistics: Mapping[str, StatisticReport],
    delta: float,
    confidence: float,
) -> dict[str, Efficiency]:
    """Lower, reachable and upper bound for a canary, by statistic."""
    return {
        name: _efficiency(bounds, statistic, delta, confidence)
        for name, statistic in statistics.items()
    }


def _efficiency(
    bounds: AttackerBounds, statistic: StatisticReport, delta: float, confidence: float
) -> Efficiency:
    model = THREAT_MODELS.get(statistic.threat_model)
    knows = model is None or not model.is_about_sampling  # the worst case for an unknown model
    sees_uploads = model is not None and model.sees_uploads
    bound = bounds.against(knows)
    if sees_uploads and bounds.seeing_uploads is not None:
        bound = bounds.seeing_uploads
    reachable = reachable_bound(bound, statistic.num_included, delta, confidence)
    lower_bound, method = _largest_lower_bound(statistic, WHATEVER_DISTRIBUTION)
    gaussian = None
    if reachable is not None and reachable.gaussian is not None:
        by_gaussian = _largest_lower_bound(statistic, IF_GAUSSIAN)
        gaussian = GaussianEfficiency(*by_gaussian, reachable.gaussian)
    return Efficiency(
        lower_bound=lower_bound,
        lower_bound_by=method,
        reachable=None if reachable is None else reachable.epsilon,
        upper_bound=bound.guarantee.epsilon,
        upper_bound_by=bound.guarantee.tightest,
        knows_rounds=knows,
        gaussian=gaussian,
        sees_uploads=sees_uploads or None,
    )


def _largest_lower_bound(
    statistic: StatisticReport, valid_for: Collection[str]
) -> tuple[float | None, str | None]:
    """The largest lower bound with a `valid_for` among the given, and its method, if any."""
    lower_bound = [
        (estimate.epsilon, estimate.method)
        for estimate in statistic.estimates
        if estimate.kind == "lower_bound" and estimate.valid_for in valid_for
    ]
    return max(lower_bound) if lower_bound else (None, None)
