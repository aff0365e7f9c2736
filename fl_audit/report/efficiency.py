"""How good an audit is: what it proved, what the best could have proven, what is guaranteed."""

from collections.abc import Collection, Mapping

import msgspec

from fl_audit.accounting import (
    AttackerBound,
    AttackerBounds,
    most_provable,
)
from fl_audit.attacks.registry import THREAT_MODELS
from fl_audit.estimators.result import WHATEVER_LAW
from fl_audit.report.efficiency_model import EfficiencyReport, GaussianEfficiencyReport
from fl_audit.report.model import AttackerReport, GuaranteeReport
from fl_audit.report.statistic_model import StatisticReport


def attacker_reports(client: AttackerBounds, canary: AttackerBounds) -> dict[str, AttackerReport]:
    """The guarantees to both parties by what an attacker knows.

    Args:
      client: The bounds for a client.
      canary: The bounds for a canary.
    """
    return {
        name: AttackerReport(
            client=_reported(client.against(knows)), canary=_reported(canary.against(knows))
        )
        for name, knows in (("knows_rounds", True), ("does_not_know_rounds", False))
    }


def _reported(bound: AttackerBound) -> GuaranteeReport:
    return msgspec.convert(bound.guarantee, GuaranteeReport, from_attributes=True)


def efficiency_reports(
    bounds: AttackerBounds,
    statistics: Mapping[str, StatisticReport],
    delta: float,
    confidence: float,
) -> dict[str, EfficiencyReport]:
    """What was proven on each statistic beside what could have been, and what is guaranteed.

    Args:
      bounds: The bounds for a canary.
      statistics: What was estimated.
      delta: The delta that they are at.
      confidence: The confidence of the bounds.
    """
    return {name: _efficiency(bounds, made, delta, confidence) for name, made in statistics.items()}


def knows_rounds(threat_model: str) -> bool:
    """Whether the attacker of a threat model knows the rounds of a canary; an unknown one may."""
    model = THREAT_MODELS.get(threat_model)
    return model is None or not model.is_about_sampling


def _efficiency(
    bounds: AttackerBounds, made: StatisticReport, delta: float, confidence: float
) -> EfficiencyReport:
    knows = knows_rounds(made.threat_model)
    bound = bounds.against(knows)
    provable = most_provable(bound, made.num_included, delta, confidence)
    proven, method = _proven(made, WHATEVER_LAW)
    gaussian = None
    if provable is not None and provable.gaussian is not None:
        by_gaussian = _proven(made, ("Gaussian mechanisms",))
        gaussian = GaussianEfficiencyReport(*by_gaussian, provable.gaussian)
    return EfficiencyReport(
        proven=proven,
        proven_by=method,
        provable=None if provable is None else provable.epsilon,
        guaranteed=bound.guarantee.epsilon,
        guaranteed_by=_accountant(bound),
        knows_rounds=knows,
        gaussian=gaussian,
    )


def _proven(made: StatisticReport, valid_for: Collection[str]) -> tuple[float | None, str | None]:
    """The largest of the lower bounds that are valid for some mechanisms, and its method."""
    found = [
        (estimate.epsilon, estimate.method)
        for estimate in made.estimates
        if estimate.kind == "lower_bound" and estimate.details.valid_for in valid_for
    ]
    return max(found) if found else (None, None)


def _accountant(bound: AttackerBound) -> str | None:
    epsilon = bound.guarantee.epsilon
    if epsilon is None:
        return None
    return next(by.accountant for by in bound.guarantee.by_accountant if by.epsilon == epsilon)
