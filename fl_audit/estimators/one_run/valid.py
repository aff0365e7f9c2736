"""The one-run bound, valid although the best number of guesses is chosen on the data.

The scores without their coins plan the guesses, and many numbers of guesses are asked about at
once, by the chance that a random walk crosses a boundary.
"""

from dataclasses import dataclass

import numpy as np

from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.plan import GuessPlan, plans_of
from fl_audit.estimators.one_run.walk import boundary_at, single_bounds
from fl_audit.estimators.one_run.walk_event import RejectedOdds, WalkEvent
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting


def one_run_valid(setting: AuditSetting) -> Estimate:
    """The largest epsilon that the right guesses reject, over all numbers of guesses at once.

    This is written for fair coins; with coins of another probability (Proposition 5.7) and with
    pairs (appendix A) the orders and the chance of a right guess differ, and nothing else. Of pairs
    it is the epsilon for one client more or less that is bounded, as in every other estimate;
    details have that for replacing one, twice as large.

    With fair coins the scores without their coins decide on a plan (plan.py): the order of guesses,
    either at both ends, so that the k+ = r / 2 largest scores are guessed to be included and the
    k- = r / 2 smallest to be excluded, or from the top, with k+ = r; the even numbers r that are
    asked about; and the level of each. With other coins these are fixed, and each order has a share
    of the failure probability alpha. W_r of r guesses are right.

    The statistic Q is the largest Clopper-Pearson bound of any r at its level (`single_bounds`).
    {Q >= q} is the event that the walk W reaches its boundary (`boundary_at`), and `WalkEvent` says
    what that proves.

    It is a valid bound by the theorem in plan.py. Given the output, the events {Q >= q} shrink with
    q. Let q be the least for which the result exceeds the true epsilon. Whenever it does, Q is at
    least q, an event that for the epsilon' of q, which is above the true one, has a chance of at
    most alpha. Where nothing is spared for delta, the numbers and levels, and so these events, are
    the same for all outputs, which decide on the order alone (Steinke et al. 2023, Lemma 4.7).

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
    """
    setting.require(included=2 if setting.scores.inclusion == "pairs" else 1, excluded=1)
    m = setting.scores.num_coins
    level = 1 - setting.confidence
    plans = plans_of(setting.scores, setting.delta, level)
    found = [_rejected_by(setting, plan, plan.order.share * level) for plan in plans]
    rejected = max(found, key=lambda one: one.epsilon)
    guesses = rejected.guesses if rejected.epsilon > 0 else Guesses(0, 0, 0)
    return Estimate(
        method="one_run_valid",
        kind="lower_bound",
        epsilon=rejected.epsilon,
        lower=rejected.epsilon,
        valid_for="any mechanism",
        assumes=_assumption(setting.scores),
        guarantee=(
            f"True epsilon is at least this with {100 * setting.confidence:g} % confidence; valid "
            "although the number of guesses is chosen on the data, since the test asks about many "
            "numbers at once; which, and in which order, the scores say without the coins."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, Proposition 5.1 for a walk that "
            "crosses a boundary; our one_run/plan.py for delta and for what the scores decide"
        ),
        details={
            **guesses.details(m, setting.delta),
            "p_value_at_epsilon_0": rejected.p_value_at_0,
            "num_choices": sum(one.num_choices for one in found),
            **_of_replacement(setting.scores, rejected.epsilon),
        },
    )


def _assumption(scores: CanaryScores) -> str:
    match scores.inclusion:
        case "unequal_coins":
            coin = f"coin of probability {scores.inclusion_probability:g}"
            return f"Each canary was included by an independent {coin}."
        case "pairs":
            return "Of each pair exactly one canary was included, by an independent fair coin."
        case _:
            return "Each canary was included by an independent fair coin, not in fixed numbers."


def _of_replacement(scores: CanaryScores, epsilon: float) -> dict[str, Detail]:
    """The epsilon for replacing one client by another, which is what pairs are about."""
    return {"epsilon_replacement": 2 * epsilon} if scores.inclusion == "pairs" else {}


@dataclass(frozen=True)
class _RejectedByOrder:
    epsilon: float
    p_value_at_0: float
    guesses: Guesses
    num_choices: int


def _rejected_by(setting: AuditSetting, plan: GuessPlan, alpha: float) -> _RejectedByOrder:
    """The largest epsilon that the guesses of a plan reject at level alpha."""
    order, totals = plan.order, plan.totals()
    left = alpha - (plan.spare or 0.0)
    levels = left * plan.levels(totals)
    correct = order.correct(setting.scores, totals)
    bounds = single_bounds(totals, correct, levels)
    i = int(np.argmax(bounds))
    rejected = RejectedOdds(order.log_odds(0.0), 1.0)
    if correct[i] > 0:
        boundary = boundary_at(totals, bounds[i], levels)
        m_delta = setting.scores.num_coins * setting.delta
        rejected = WalkEvent(m_delta, boundary, plan, alpha).largest_below(start=bounds[i])
    guesses = order.guesses(int(totals[i]), int(correct[i]))
    epsilon = max(order.epsilon(rejected.log_odds), 0.0)
    return _RejectedByOrder(epsilon, rejected.p_value_at_0, guesses, len(totals))
