"""Epsilon* of several models of one mechanism: Theorem 2's mean, and the mechanism's own value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import checked_losses
from fl_audit.estimators.privacy_region import log_ratio
from fl_audit.estimators.scores import check_delta


@dataclass(frozen=True)
class ModelsMean:
    """The log of the mean of exp(Epsilon*) over models.

    Attributes:
      epsilon: Log of (1/m) sum of exp(epsilon_i), in nats, at least 0, possibly infinite.
      standard_error: Standard error of epsilon, in nats, by the delta method; None with one model
        or an infinite epsilon. It means little where one model has most of the sum.
      largest_share: Share of the sum that the largest model has, in (0, 1].
      num_models: Number of models m.
    """

    epsilon: float
    standard_error: float | None
    largest_share: float
    num_models: int


def log_mean_exp_epsilon(epsilons: npt.ArrayLike) -> ModelsMean:
    """The sample counterpart of log E[exp(Epsilon*)] over models of one training mechanism.

    Negoescu et al. (2024), Theorem 2: bar_epsilon <= log E[exp(Epsilon*)], by Jensen's inequality.
    There bar_epsilon is the largest ratio (equation 19) of error rates averaged over training sets
    and the mechanism's randomness, and is itself a lower bound on the mechanism's epsilon
    (Theorem 4).

    What follows, and what does not:

    - the expectation bounds from above what this attack, averaged over models, could prove of the
      mechanism. It is NO bound on the mechanism's epsilon, neither lower nor upper, since that
      too lies above bar_epsilon. A mechanism that ignores its data has epsilon 0, yet each
      model's Epsilon* is positive, because a training set's losses differ from the population's
      by chance;
    - it is about the expectation. The sample mean here is unbiased for E[exp(Epsilon*)], but exp
      has heavy tails: few models usually give too small a value, and its log is too small on
      average;
    - each model needs its own independent training set (equation 18). Models of one training set
      differ only by the mechanism's randomness, and the theorem then is about that set;
    - Epsilon* there is that of fixed FPRs with exact rates. Leaving out rates breaks the convexity
      that the proof uses, so use `epsilon_star_over_all_thresholds` for a value that the
      theorem is about.

    Args:
      epsilons: Epsilon* of the models, each at least 0, possibly infinite, float64 of shape (m,).

    Raises:
      InputError: If there is no value, or one is negative or NaN.

    >>> log_mean_exp_epsilon([0.5, 0.5]).epsilon
    0.5
    >>> round(log_mean_exp_epsilon([0.0, math.log(3)]).epsilon, 6)  # log 2
    0.693147
    """
    values = np.asarray(epsilons, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.all(values >= 0):
        raise InputError("epsilons must be at least one number per model, each at least 0")
    if np.isinf(values).any():
        return ModelsMean(math.inf, None, 1.0, values.size)
    log_sum = float(special.logsumexp(values))
    shares = np.exp(values - log_sum)
    relative = float(np.std(shares * values.size, ddof=1)) if values.size > 1 else None
    return ModelsMean(
        # Rounding must not put the mean below the smallest or above the largest.
        epsilon=float(np.clip(log_sum - math.log(values.size), values.min(), values.max())),
        standard_error=None if relative is None else relative / math.sqrt(values.size),
        largest_share=float(shares.max()),
        num_models=values.size,
    )


# The mechanism's own Epsilon*, from error rates averaged over models: bar_epsilon.


@dataclass(frozen=True)
class MechanismEpsilon:
    """The largest ratio of averaged error rates.

    Attributes:
      epsilon: The log of the largest ratio, in nats, at least 0, possibly infinite.
      false_positive_rate: The averaged false positive rate where it is attained; None where no
        ratio exceeds 1.
      false_negative_rate: The averaged false negative rate there.
    """

    epsilon: float
    false_positive_rate: float | None
    false_negative_rate: float | None


def mechanism_epsilon(
    member_losses: Sequence[npt.ArrayLike],
    non_member_losses: Sequence[npt.ArrayLike],
    false_positive_rates: npt.ArrayLike,
    delta: float,
) -> MechanismEpsilon:
    """The mechanism-level lower bound bar_epsilon, by what the models' losses say of it.

    Each model's threshold is the quantile q_t of its own losses on the population; error rates are
    averaged over the models (equation 18), and bar_epsilon is the log of the largest of four
    ratios of the averages, over all t (equation 19). Negoescu et al. (2024), appendix A, 7.2. It
    is at most `log_mean_exp_epsilon` of the models' own values at the same t (Theorem 2).

    Theorem 4: with exact expectations it bounds the epsilon of the mechanism from below. That
    needs an independent training set for each model, and points of the population that are
    independent of them. The value here has no confidence: its averages are those of a sample, and
    t is chosen on it. With few losses give rates far from 0 and 1, where little is left to chance.

    Args:
      member_losses: Losses of each model on its own training points, one array a model.
      non_member_losses: Losses of each model on other points of the population, one array a model.
      false_positive_rates: The rates t to try, each in (0, 1), float64 of shape (k,).
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If there is no model, the lists differ in length, a sample is empty, a loss is not
        finite, or delta or a rate is out of range.

    >>> members, others = [[0, 1, 2, 9], [0, 1, 8, 9]], [[3, 4, 5, 6], [3, 4, 5, 6]]
    >>> found = mechanism_epsilon(members, others, [0.25], 0.0)
    >>> found.false_positive_rate, found.false_negative_rate  # log(0.625 / 0.25)
    (0.25, 0.375)
    """
    check_delta(delta)
    rates = np.asarray(false_positive_rates, dtype=np.float64)
    if rates.ndim != 1 or rates.size == 0 or not np.all((rates > 0) & (rates < 1)):
        raise InputError("false_positive_rates must be a list of numbers in (0, 1)")
    if not len(member_losses) == len(non_member_losses) > 0:
        raise InputError(
            "member_losses and non_member_losses must have one array for each model, got "
            f"{len(member_losses)} and {len(non_member_losses)}"
        )
    of_models = [
        _rates_of_model(
            checked_losses("member_losses", own), checked_losses("non_member_losses", others), rates
        )
        for own, others in zip(member_losses, non_member_losses, strict=True)
    ]
    return _largest(np.mean(of_models, axis=0), delta)


def _rates_of_model(members: FloatArray, others: FloatArray, rates: FloatArray) -> FloatArray:
    """FPR, TNR, FNR and TPR at the quantiles of others, float64 of shape (4, k)."""
    thresholds = np.quantile(others, rates, method="inverted_cdf")
    called = [
        np.searchsorted(np.sort(losses), thresholds, side="right") for losses in (others, members)
    ]
    # Both rates of a side from whole numbers, so that equal ones stay equal.
    return np.stack(
        [
            called[0] / others.size,
            (others.size - called[0]) / others.size,
            (members.size - called[1]) / members.size,
            called[1] / members.size,
        ]
    )


def _largest(rates: FloatArray, delta: float) -> MechanismEpsilon:
    with np.errstate(divide="ignore"):
        fpr, tnr, fnr, tpr = np.log(rates)
    ratios = np.stack(
        [
            log_ratio(tpr, fpr, delta),
            log_ratio(tnr, fnr, delta),
            log_ratio(fnr, tnr, delta),
            log_ratio(fpr, tpr, delta),
        ]
    )
    at = int(np.argmax(np.max(ratios, axis=0)))
    epsilon = float(np.max(ratios[:, at]))
    if epsilon <= 0:
        return MechanismEpsilon(0.0, None, None)
    return MechanismEpsilon(epsilon, float(rates[0, at]), float(rates[2, at]))
