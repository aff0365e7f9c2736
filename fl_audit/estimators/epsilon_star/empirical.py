"""Epsilon* from the empirical distributions of the losses."""

from typing import get_args

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_delta
from fl_audit.estimators.epsilon_star.losses import checked_losses
from fl_audit.estimators.epsilon_star.model_epsilon import GUARANTEE, SOURCE, ModelEpsilon, Ratio
from fl_audit.estimators.rates import log_ratio
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting

TRIMMED_BELOW = 0.001
"""Error rates outside (0.001, 0.999) are left out (Negoescu et al., appendix B, 8.1)."""


def empirical_epsilon_star(
    member_losses: npt.ArrayLike, non_member_losses: npt.ArrayLike, delta: float
) -> ModelEpsilon:
    """Epsilon* with the error rates of the samples themselves.

    It is log max over thresholds and over (TPR - delta) / FPR, (TNR - delta) / FNR, (FNR - delta) /
    TNR, (FPR - delta) / TPR and 1, where "loss <= threshold" means member. Negoescu et al. (2024),
    equations 7 and 22.

    Thresholds whose FPR or FNR lies outside (0.001, 0.999) are left out (appendix B, 8.1), so that
    the value is at most log(999) = 6.907. Where that leaves none (separated samples, or all losses
    of one sample equal), rates are moved to the ends of that interval instead, as in the limit.

    The paper looks at 2 million thresholds, the quantiles of both samples. Rates change only at
    observed losses, so all of them are tried instead, in O(n log n).

    Args:
      member_losses: Losses of the model on its training points, float64 of shape (n1,).
      non_member_losses: Losses on points of the population outside its training set, of shape
        (n0,).
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If delta is out of range, a sample is empty or a loss is not finite.

    >>> found = empirical_epsilon_star([1, 2, 3, 4], [2, 3, 5, 6], 0.0)
    >>> round(float(np.exp(found.epsilon)), 3), found.threshold, found.ratio
    (2.0, 2.0, '(TPR - delta) / FPR')
    """
    check_delta(delta)
    members = np.sort(checked_losses("member_losses", member_losses))
    others = np.sort(checked_losses("non_member_losses", non_member_losses))
    thresholds = np.unique(np.concatenate([members, others]))
    true_positives, false_negatives = _rates(members, thresholds)
    false_positives, true_negatives = _rates(others, thresholds)
    kept = _inside(false_negatives) & _inside(false_positives)
    if not kept.any():
        kept = np.ones_like(kept)
    tpr, fnr, fpr, tnr = (
        np.log(np.clip(rates[kept], TRIMMED_BELOW, 1 - TRIMMED_BELOW))
        for rates in (true_positives, false_negatives, false_positives, true_negatives)
    )
    return _largest(
        thresholds[kept],
        np.stack(
            [
                log_ratio(tpr, fpr, delta),
                log_ratio(tnr, fnr, delta),
                log_ratio(fnr, tnr, delta),
                log_ratio(fpr, tpr, delta),
            ]
        ),
    )


def epsilon_star_empirical(setting: AuditSetting) -> Estimate:
    """Epsilon* from the empirical distributions, of losses given as scores (score = -loss).

    See `empirical_epsilon_star`. A single score has no rate but 0 and 1, which are left out.

    Raises:
      NotApplicableError: If there are fewer than 2 included or 2 excluded scores.
    """
    setting.require(included=2, excluded=2)
    scores = setting.scores
    found = empirical_epsilon_star(-scores.included, -scores.excluded, setting.delta)
    return Estimate(
        method="epsilon_star_empirical",
        kind="estimate",
        epsilon=found.epsilon,
        assumes="Scores are negated losses of one trained model on independent points.",
        guarantee=(
            f"{GUARANTEE} The best threshold is chosen on noisy rates, which makes it too large "
            "where little is to be found; rates outside (0.001, 0.999) are left out, which makes "
            "it too small where much is (never above 6.907)."
        ),
        source=f"{SOURCE}, equation 7 and appendix B, 8.1",
        details={
            "threshold": None if found.threshold is None else 0.0 - found.threshold,
            "ratio": found.ratio,
            "trimmed_below": TRIMMED_BELOW,
        },
    )


def _rates(losses: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The shares of sorted losses at most each threshold and above it, each exact."""
    at_most = np.searchsorted(losses, thresholds, side="right")
    return at_most / losses.size, (losses.size - at_most) / losses.size


def _inside(rates: FloatArray) -> npt.NDArray[np.bool_]:
    return (rates > TRIMMED_BELOW) & (rates < 1 - TRIMMED_BELOW)


def _largest(thresholds: FloatArray, log_ratios: FloatArray) -> ModelEpsilon:
    """The largest of log ratios of shape (4, t), at least 0."""
    ratio, at = np.unravel_index(int(np.argmax(log_ratios)), log_ratios.shape)
    largest = float(log_ratios[ratio, at])
    if largest <= 0:
        return ModelEpsilon(0.0, None, None)
    return ModelEpsilon(largest, float(thresholds[at]), get_args(Ratio)[ratio])
