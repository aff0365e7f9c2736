"""Parts of reports made by hand, for tests of what renders them."""

from collections.abc import Mapping

import msgspec

from fl_audit.config.file import parse_config
from fl_audit.formats.folders import RunRecord
from fl_audit.report.report import (
    AccountantReport,
    AnalyticalReport,
    AndersonDarlingReport,
    EstimateDetails,
    EstimateReport,
    GuaranteeReport,
    Report,
    StatisticReport,
)
from tests.report.conftest import CONFIG, record


def estimate(
    method: str,
    kind: str,
    epsilon: float,
    *,
    guarantee: str = "g",
    valid_for: str | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> EstimateReport:
    details = EstimateDetails(
        numbers={}, valid_for=valid_for, assumes="a.", guarantee=guarantee, source="s"
    )
    return EstimateReport(method, kind, epsilon, lower, upper, details)


_EMPTY = StatisticReport(
    num_included=9,
    num_excluded=9,
    estimates=(),
    threat_model="final",
    null="empirical",
    left_out={},
    anderson_darling=AndersonDarlingReport(None, None),
    null_check=None,
)


def statistic(**fields: object) -> StatisticReport:
    """A statistic on which nothing was found but these fields."""
    return msgspec.structs.replace(_EMPTY, **fields)


def fitted_and_proven(
    threat_model: str, bound: float, middle: float, lower: float, upper: float
) -> StatisticReport:
    """A statistic with a lower bound that holds and a fit with its interval."""
    fit = estimate("shift_fit", "interval", middle, lower=lower, upper=upper)
    valid_for = "independent scores"
    proven = estimate("threshold_valid", "lower_bound", bound, lower=bound, valid_for=valid_for)
    return statistic(estimates=(fit, proven), threat_model=threat_model)


def guarantee(
    epsilon: float | None, participations: int | None = 1, reason: str | None = None
) -> GuaranteeReport:
    return GuaranteeReport(epsilon, participations, (AccountantReport("rdp", epsilon, reason),))


def analytical(client: GuaranteeReport, canary: GuaranteeReport) -> AnalyticalReport:
    known = None not in (client.epsilon, canary.epsilon)
    return AnalyticalReport(
        epsilon=max(client.epsilon, canary.epsilon) if known else None,
        neighbours="n",
        assumes=(),
        client=client,
        canary=canary,
    )


def report(
    statistics: Mapping[str, StatisticReport],
    guarantees: AnalyticalReport,
    run: RunRecord | None = None,
    **fields: object,
) -> Report:
    return Report(
        statistics=statistics,
        verdict=None,
        analytical=guarantees,
        run=run or record(94),
        config=parse_config(CONFIG, "config"),
        fl_audit_version="1",
        **fields,
    )
