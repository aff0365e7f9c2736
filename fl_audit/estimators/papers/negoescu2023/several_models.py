"""Epsilon* of several models of one mechanism, as Theorem 2 puts them together."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.errors import InputError


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
