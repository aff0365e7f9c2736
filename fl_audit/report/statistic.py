"""The part of the report on one statistic: estimates, and checks of what they assume."""

import dataclasses
import math

import msgspec
import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.statistic import Statistic
from fl_audit.errors import InputError
from fl_audit.estimators import anderson_darling
from fl_audit.estimators.audit import AuditResult, estimate
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import Null
from fl_audit.formats.folders import LiveRecord
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.statistic_model import (
    AndersonDarlingReport,
    EstimateDetails,
    EstimateReport,
    NormalityReport,
    NullCheckReport,
    RocReport,
    StatisticReport,
)
from fl_audit.verdict import ScoredStatistic
from fl_audit.verdict.live import LIVE_ASSUMES

_STOPPED = (
    "None: the run was stopped because of these canaries' scores, and a bound that is made then "
    "exceeds the true epsilon more often than its confidence says. The live bound holds."
)


def statistic_report(run: FinishedRun, statistic: Statistic) -> StatisticReport:
    """Estimates epsilon on one statistic, and checks how well its scores fit the assumptions.

    Args:
      run: The finished run.
      statistic: One of the statistics that the run logged.

    Raises:
      InputError: No method can be applied to the scores.
    """
    scored = run.scored(statistic)
    try:
        result = estimate(
            scored.scores,
            delta=run.record.delta,
            dim=scored.dim,
            confidence=run.config.audit.confidence,
            null=scored.null,
            null_tail=scored.null_tail,
            null_source=scored.null_source,
        )
    except InputError as error:
        raise InputError(f"{run.folder.scores(statistic.name)}: {error}") from error
    if run.record.stopped_after is not None:
        result = _after_stop(result, run.record.live, statistic.name)
    return report_of_result(result, scored, statistic.threat_model)


def _after_stop(result: AuditResult, live: LiveRecord | None, statistic: str) -> AuditResult:
    """The estimates of a run that its scores ended, with the bound that holds at every round.

    Other bounds are for a number of rounds that was fixed beforehand. When the run stops depends on
    coins and scores, so that none of them holds at its confidence, and none of them says it does.
    """
    kept = tuple(
        dataclasses.replace(made, valid_for=None, guarantee=_STOPPED)
        if made.valid_for is not None
        else made
        for made in result.estimates
    )
    if live is None or statistic != "own_rounds":
        return dataclasses.replace(result, estimates=kept)
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
    return dataclasses.replace(result, estimates=(bound, *kept))


def report_of_result(
    result: AuditResult, scored: ScoredStatistic, threat_model: str
) -> StatisticReport:
    """The estimates on one statistic, with checks of what they assume.

    Args:
      result: The estimates.
      scored: The scores that they are made from.
      threat_model: Name of what the attacker sees.
    """
    scores = scored.scores
    return StatisticReport(
        num_included=result.num_included,
        num_excluded=result.num_excluded,
        roc=None if result.roc is None else msgspec.convert(result.roc.to_json(), RocReport),
        estimates=tuple(map(estimate_report, result.estimates)),
        threat_model=threat_model,
        null=scored.null,
        bounds_null=scored.null if scored.null_tail is None else "closed_form",
        left_out=result.left_out,
        anderson_darling=AndersonDarlingReport(
            included=_normality(scores.included), excluded=_normality(scores.excluded)
        ),
        null_check=_null_check(scored.null, scores, scored.dim),
    )


def estimate_report(made: Estimate) -> EstimateReport:
    """Converts an estimate to its form in the report."""
    return EstimateReport(
        method=made.method,
        kind=made.kind,
        epsilon=made.epsilon,
        lower=made.lower,
        upper=made.upper,
        details=EstimateDetails(
            numbers=made.details,
            valid_for=made.valid_for,
            assumes=made.assumes,
            guarantee=made.guarantee,
            source=made.source,
        ),
    )


def _normality(scores: FloatArray) -> NormalityReport | None:
    """The Anderson-Darling test; None for fewer than 3 scores, or where all are equal."""
    if len(scores) < 3 or np.ptp(scores) == 0:
        return None
    test = anderson_darling(scores)
    critical = {f"{level:g}": value for level, value in test.critical_values.items()}
    return NormalityReport(test.statistic, critical)


def _null_check(null: Null, scores: CanaryScores, dim: int | None) -> NullCheckReport | None:
    """Mean and variance of the excluded scores beside those of the null law N(0, 1/dim).

    Standard errors are those of the null law. The result is None where the null has no closed form
    or there are fewer than 2 excluded scores.
    """
    num = scores.num_excluded
    if null != "closed_form" or dim is None or num < 2:
        return None
    return NullCheckReport(
        mean=float(np.mean(scores.excluded)),
        mean_expected=0.0,
        mean_standard_error=1 / math.sqrt(dim * num),
        variance=float(np.var(scores.excluded, ddof=1)),
        variance_expected=1 / dim,
        variance_standard_error=math.sqrt(2 / (num - 1)) / dim,
    )
