"""The canary check by scores alone: whether included canaries reached the model."""

from collections.abc import Sequence

from fl_audit.checks import CanaryCheck
from fl_audit.checks.canary_check import ARRIVED_LEVEL, CANARY_CHECK_FALSE_ALARM
from fl_audit.estimators.roc import auc
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.sentences import on

_HINT = 0.05
"""Up to this p-value, the reason says that included canaries score a little above excluded ones.

A p-value above ARRIVED_LEVEL does not make the check pass."""


def separation(statistics: Sequence[ScoredStatistic]) -> CanaryCheck:
    """Canary check by rank tests, for scores without a known null distribution.

    The check passes if, on at least one statistic, included canaries score above excluded ones by
    more than chance: by a rank test of Mann and Whitney at level ARRIVED_LEVEL over the number of
    statistics. It does not notice that some canaries were dropped.
    """
    tested = [
        statistic
        for statistic in statistics
        if statistic.scores.num_included and statistic.scores.num_excluded
    ]
    if not tested:
        reason = "there are no included or no excluded canaries to compare"
        return CanaryCheck("cannot_tell", None, reason)
    above = min(tested, key=lambda statistic: _p_value(statistic, "greater"))
    p = min(len(tested) * _p_value(above, "greater"), 1.0)
    if p <= ARRIVED_LEVEL:
        reason = f"included canaries score above excluded ones{on(above)} (p = {p:.2g})"
        return CanaryCheck("arrived", None, reason)
    below = min(tested, key=lambda statistic: _p_value(statistic, "less"))
    p_below = min(len(tested) * _p_value(below, "less"), 1.0)
    if p_below <= CANARY_CHECK_FALSE_ALARM:
        reason = (
            f"included canaries score below excluded ones{on(below)} (p = {p_below:.2g}): the "
            "scores have the wrong sign, or the coins are inverted"
        )
        return CanaryCheck("not_arrived", None, reason)
    return CanaryCheck("cannot_tell", None, _not_clear(above, p))


def _not_clear(above: ScoredStatistic, p: float) -> str:
    """Why scores do not show that included canaries reached the model."""
    area = auc(above.scores)
    evidence = f"{on(above)} (AUC {area:.3g}, p = {p:.2g}"
    if p <= _HINT:
        return (
            f"included canaries score only a little above excluded ones{evidence}, where "
            f"{ARRIVED_LEVEL:g} would show that they reached the model)"
        )
    if area > 0.5:
        return (
            f"included canaries do not score clearly above excluded ones{evidence}), which too few "
            "canaries would explain too"
        )
    return (
        f"included canaries score no higher than excluded ones{evidence}), as if none of them had "
        "reached the model"
    )


def _p_value(statistic: ScoredStatistic, alternative: str) -> float:
    from scipy import stats  # imported here: it takes half a second

    scores = statistic.scores
    test = stats.mannwhitneyu(scores.included, scores.excluded, alternative=alternative)
    return float(test.pvalue)
