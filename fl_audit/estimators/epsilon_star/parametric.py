"""Parametric Epsilon*: Gaussians fitted to transformed losses."""

import math

import numpy as np

from fl_audit.estimators.epsilon_star.model_epsilon import GUARANTEE, SOURCE, ModelEpsilon
from fl_audit.estimators.epsilon_star.of_laws import (
    epsilon_star_of_laws,
    epsilon_star_over_all_thresholds,
)
from fl_audit.estimators.epsilon_star.transform import LossTransform
from fl_audit.estimators.laws import Gaussian
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting

_MANY_TIES = 0.05
"""The share of losses equal to the smallest from which no Gaussian is the law of all of them."""


def epsilon_star(setting: AuditSetting) -> Estimate:
    """Epsilon* of Gaussians fitted to the transformed losses, given as scores (score = -loss).

    Losses become logits in four steps (`LossTransform`); a Gaussian is fitted to those of included
    and one to those of excluded canaries (mean and population deviation); Epsilon* is theirs, over
    the thresholds where both error rates lie in (delta, 1 - delta) (`epsilon_star_of_laws`).
    Negoescu et al. (2024), section 3.1 and appendix B, 8.1.

    Where all scores of one class are equal (up to rounding) its law is a point, and the value is
    the limit of ever narrower laws. Where all scores are equal it is 0. With delta 0 it is infinite
    unless both fits are the same.

    Raises:
      NotApplicableError: If there are fewer than 2 included or 2 excluded scores.
    """
    setting.require(included=2, excluded=2)
    delta = setting.delta
    member_losses, other_losses = -setting.scores.included, -setting.scores.excluded
    transform = LossTransform.of(member_losses, other_losses)
    members = Gaussian.fitted_to(transform.logits(member_losses))
    others = Gaussian.fitted_to(transform.logits(other_losses))
    found = epsilon_star_of_laws(members, others, delta)
    everywhere = epsilon_star_over_all_thresholds(members, others, delta)
    return Estimate(
        method="epsilon_star",
        kind="estimate",
        epsilon=found.epsilon,
        assumes=(
            "Scores are negated losses of one trained model on independent points; transformed "
            f"losses are Gaussian, also far out in their tails.{_ties(setting)}"
        ),
        guarantee=(
            f"{GUARANTEE} The Gaussian tails decide, and a few outlying losses move them: the true "
            "value may be larger or smaller."
        ),
        source=f"{SOURCE}, section 3.1 and appendix B, 8.1",
        details={
            "threshold": _score_threshold(found, transform),
            "ratio": found.ratio,
            "trimmed_below": delta,
            "largest_possible": _largest_possible(delta),
            "epsilon_all_thresholds": everywhere.epsilon,
            "mean_included": members.mean,
            "std_included": members.std,
            "mean_excluded": others.mean,
            "std_excluded": others.std,
        },
    )


def _ties(setting: AuditSetting) -> str:
    """A warning where many losses, but not all, are the smallest, such as 0; else empty."""
    scores = setting.scores
    largest = max(scores.included.max(), scores.excluded.max())
    share = float(np.mean(np.concatenate([scores.included, scores.excluded]) == largest))
    if not _MANY_TIES <= share < 1:
        return ""
    return (
        f" They are not: {100 * share:.0f} % are equal to the smallest, as a cross-entropy rounded "
        "to 0 is. Minus the log-odds of the label is the paper's loss."
    )


def _score_threshold(found: ModelEpsilon, transform: LossTransform) -> float | None:
    """The threshold as one on the score: "score >= threshold" means included."""
    return None if found.threshold is None else 0.0 - float(transform.loss(found.threshold))


def _largest_possible(delta: float) -> float:
    """The largest value that trimming leaves: log((1 - 2 delta) / delta)."""
    if delta == 0:
        return math.inf
    return max(0.0, math.log1p(-2 * min(delta, 1 / 3)) - math.log(delta))
