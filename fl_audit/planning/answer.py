"""The answer of a plan in a few lines, for the terminal."""

import textwrap

from fl_audit.estimators import valid_methods
from fl_audit.number_words import lower_bound_text, significant, upper_bound_text
from fl_audit.planning.efficiency import PlannedEfficiency
from fl_audit.planning.plan import Plan
from fl_audit.planning.prediction import StatisticPrediction
from fl_audit.planning.text import duration, head_lines, interval_text, percent
from fl_audit.report.headline import ESTIMATE

_LABEL, _WIDTH = 12, 100


def answer_lines(plan: Plan) -> list[str]:
    """What the strongest attacker would prove and estimate, of the claim, and at what cost."""
    lines = [*head_lines(plan), *_proven(plan), *_claim(plan), *_cost(plan)]
    return [*lines, "the tables behind it: --verbose"]


def labelled(label: str, text: str) -> list[str]:
    """A labelled text as lines of the answer."""
    return textwrap.wrap(
        f"{label:<{_LABEL}}{text}", _WIDTH, subsequent_indent=" " * _LABEL, break_on_hyphens=False
    )


def _proven(plan: Plan) -> list[str]:
    """The best bound and the fit of the statistic that proves most, in simulated runs."""
    predicted = {made.statistic.name: made for made in plan.predictions}
    best = max(plan.efficiency, key=lambda made: made.proven or 0.0, default=None)
    if best is None:
        return []
    of_best = predicted[best.statistic]
    return [
        *labelled("proven", f"ε ≥ {_best_bound(of_best)}, by {best.statistic}{_of_what(best)}"),
        *labelled("estimated", f"ε ≈ {interval_text(of_best.epsilons.get(ESTIMATE))}"),
    ]


def _best_bound(prediction: StatisticPrediction) -> str:
    found = [made for m in valid_methods() if (made := prediction.epsilons.get(m)) is not None]
    return interval_text(max(found, key=lambda interval: interval.median) if found else None)


def _of_what(made: PlannedEfficiency) -> str:
    known = {
        "provable": (made.provable, lower_bound_text),
        "guaranteed": (made.guaranteed, upper_bound_text),
    }
    parts = [
        f"{text(value)} is {name}" for name, (value, text) in known.items() if value is not None
    ]
    return f"; {', '.join(parts)}" if parts else ""


def _claim(plan: Plan) -> list[str]:
    """How often the claim would be contradicted, by the noise that is really added."""
    power = plan.power
    if power is None:
        return []
    if power.unfit is not None:
        return labelled("claim", f"no verdict either way: {power.unfit}")
    names = {1.0: "as configured", 0.5: "with half the noise", 0.0: "without noise"}
    shares = (f"{percent(one.contradicted)} {names[one.noise_factor]}" for one in power.faults)
    return labelled("claim", f"ε ≤ {power.claim.epsilon:g} contradicted in {', '.join(shares)}")


def _cost(plan: Plan) -> list[str]:
    cost = plan.cost
    text = (
        f"{percent(cost.update_share)} more updates a round, scoring "
        f"{duration(cost.total_scoring_seconds)} over the run; the clients' signal is divided down "
        f"to {significant(100 * plan.accuracy.dilution)} %"
    )
    return labelled("costs", text)
