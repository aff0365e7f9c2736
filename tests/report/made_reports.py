"""Parts of reports made by hand, for tests of what renders them."""

import dataclasses
from collections.abc import Mapping

from fl_audit.accounting import AccountedEpsilon, Accounting, Guarantee, Guarantees
from fl_audit.config.file import parse_config
from fl_audit.estimators import Estimate
from fl_audit.formats.run_record import RunRecord
from fl_audit.report.report import Efficiency, NormalityTests, Report, StatisticReport
from tests.report.conftest import CONFIG, DIM, record


def estimate(
    method: str,
    kind: str,
    epsilon: float,
    *,
    guarantee: str = "g",
    valid_for: str | None = None,
    lower: float | None = None,
    upper: float | None = None,
) -> Estimate:
    return Estimate(
        method=method,
        kind=kind,
        epsilon=epsilon,
        assumes="a.",
        guarantee=guarantee,
        source="s",
        lower=lower,
        upper=upper,
        valid_for=valid_for,
    )


_EMPTY = StatisticReport(
    delta=300**-1.1,
    confidence=0.95,
    dim=DIM,
    num_included=9,
    num_excluded=9,
    estimates=(),
    threat_model="final",
    null="empirical",
    left_out={},
    anderson_darling=NormalityTests(None, None),
    null_check=None,
)


def statistic(**fields: object) -> StatisticReport:
    """A statistic on which nothing was found but these fields."""
    return dataclasses.replace(_EMPTY, **fields)


def fitted_and_proven(
    threat_model: str, bound: float, middle: float, lower: float, upper: float
) -> StatisticReport:
    """A statistic with a lower bound that holds and a fit with its interval."""
    fit = estimate("shift_fit", "interval", middle, lower=lower, upper=upper)
    valid_for = "independent scores"
    lower_bound = estimate(
        "threshold_valid", "lower_bound", bound, lower=bound, valid_for=valid_for
    )
    return statistic(estimates=(fit, lower_bound), threat_model=threat_model)


def guarantee(
    epsilon: float | None, participations: int | None = 1, reason: str | None = None
) -> Guarantee:
    return Guarantee(participations, (AccountedEpsilon("rdp", epsilon, reason),))


def analytical(client: Guarantee, canary: Guarantee) -> Accounting:
    return Accounting(
        delta=300**-1.1,
        neighbours="n",
        assumes=(),
        client=client,
        canary=canary,
    )


def report(
    statistics: Mapping[str, StatisticReport],
    guarantees: Accounting,
    run: RunRecord | None = None,
    **fields: object,
) -> Report:
    attackers = {"knows_rounds": Guarantees(guarantees.client, guarantees.canary)}
    bound = guarantees.canary.epsilon
    against = Efficiency(None, None, None, bound, None, knows_rounds=True, gaussian=None)
    fields = {
        "attackers": attackers,
        "efficiency": dict.fromkeys(statistics, against),
        **fields,
    }
    return Report(
        statistics=statistics,
        verdict=None,
        analytical=guarantees,
        run=run or record(94),
        config=parse_config(CONFIG, "config"),
        fl_audit_version="1",
        **fields,
    )
