"""How good an audit would be: what it would prove, could prove at most, and what is guaranteed."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.accounting import (
    AttackerBound,
    attacker_bounds,
    canaries_to_prove,
    most_provable,
)
from fl_audit.estimators import valid_methods
from fl_audit.estimators.result import json_value
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.prediction import StatisticPrediction
from fl_audit.report.statistics import knows_rounds

_SHARES = (0.8, 0.95)


@dataclass(frozen=True)
class PlannedEfficiency:
    """The numbers of one statistic.

    Attributes:
      statistic: Name of the statistic.
      proven: The largest median of the bounds that hold for any mechanism, in the middle of the
        unknowns; None without any.
      provable: What the best single threshold, were it known beforehand, proves with these canaries
        in the median; None where that is not known.
      guaranteed: What the noise guarantees a canary against the statistic's attacker, possibly
        infinite; None where nothing is known.
      canaries_for_80_percent: Number of canaries, half of them included, with which the best test
        proves 80 % of the guarantee; None where no number is known.
      canaries_for_95_percent: The same for 95 %.
    """

    statistic: str
    proven: float | None
    provable: float | None
    guaranteed: float | None
    canaries_for_80_percent: int | None
    canaries_for_95_percent: int | None

    def to_json(self) -> dict[str, object]:
        """The JSON object that a plan has under `efficiency`, by statistic."""
        return {
            "proven": json_value(self.proven),
            "provable": json_value(self.provable),
            "guaranteed": json_value(self.guaranteed),
            "canaries_for_80_percent": self.canaries_for_80_percent,
            "canaries_for_95_percent": self.canaries_for_95_percent,
        }


def planned_efficiency(
    run: PlannedRun, predictions: Sequence[StatisticPrediction]
) -> tuple[PlannedEfficiency, ...]:
    """The numbers of each predicted statistic.

    Args:
      run: The planned run.
      predictions: The predictions, one per statistic.
    """
    rounds = run.noisy_rounds
    bounds = attacker_bounds(rounds, rounds.canary)
    needed = {
        knows: _needed(bounds.against(knows), run)
        for knows in {knows_rounds(made.statistic.threat_model) for made in predictions}
    }
    return tuple(
        _of(made, run, bounds.against(knows), needed[knows])
        for made in predictions
        for knows in (knows_rounds(made.statistic.threat_model),)
    )


def _needed(bound: AttackerBound, run: PlannedRun) -> list[int | None]:
    confidence = run.config.audit.confidence
    return [canaries_to_prove(bound, share, run.delta, confidence) for share in _SHARES]


def _of(
    made: StatisticPrediction, run: PlannedRun, bound: AttackerBound, needed: list[int | None]
) -> PlannedEfficiency:
    confidence = run.config.audit.confidence
    provable = most_provable(bound, int(run.included.sum()), run.delta, confidence)
    medians = [made.epsilons[name].median for name in valid_methods() if name in made.epsilons]
    return PlannedEfficiency(
        made.statistic.name,
        max(medians, default=None),
        None if provable is None else provable.epsilon,
        bound.guarantee.epsilon,
        *needed,
    )
