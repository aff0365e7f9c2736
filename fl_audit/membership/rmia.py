"""RMIA, the relative membership inference attack (Zarifzadeh et al. 2024, arXiv:2312.03262)."""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.membership.shadow_outputs import ShadowOutputs


def rmia(
    point_log_ratio: npt.ArrayLike, population_log_ratio: npt.ArrayLike, gamma: float = 2.0
) -> FloatArray:
    """The share of population points z over which a point x is likelier by a factor gamma.

    It is P_z(LR(x, z) >= gamma), LR(x, z) = [p(x | model) / p(x)] / [p(z | model) / p(z)]
    (section 3), where p(. | model) is the probability that the attacked model gives the
    label and p(.) its mean over models, from `online_log_mean` or `offline_log_mean`.

    Args:
      point_log_ratio: Values log p(x | model) - log p(x), float of shape (models, points).
      population_log_ratio: The same of points of the population, of shape (models, population).
      gamma: The factor, at least 1.

    Returns:
      Scores, multiples of 1 / population in [0, 1], float64 of shape (models, points).

    Raises:
      InputError: If gamma is below 1, or the arrays are not of the same models.

    >>> rmia([[1.0]], [[0.0, 0.2, 0.4, 2.0]]).tolist()
    [[0.5]]
    """
    points = np.asarray(point_log_ratio, dtype=np.float64)
    population = np.asarray(population_log_ratio, dtype=np.float64)
    if not (math.isfinite(gamma) and gamma >= 1):
        raise InputError(f"gamma must be at least 1, got {gamma}")
    if points.ndim != 2 or population.ndim != 2 or len(points) != len(population):
        raise InputError("both log ratios must be arrays of the same models by points")
    if population.shape[1] == 0:
        raise InputError("the population must hold at least one point, got none")
    at_most = [
        np.searchsorted(np.sort(others), of_points - math.log(gamma), side="right")
        for of_points, others in zip(points, population, strict=True)
    ]
    return np.asarray(np.stack(at_most) / population.shape[1])


def online_log_mean(log_probabilities: ShadowOutputs) -> FloatArray:
    """Log p(x), averaged half over models trained on x and half over models trained without it.

    Args:
      log_probabilities: Log probability of each point's label, the negative loss, under reference
        models.

    Returns:
      Logarithms, float64 of shape (points,).

    Raises:
      InputError: If no model was trained on a point, or none without it.
    """
    having = _log_mean(log_probabilities.values, log_probabilities.member)
    without = log_mean_of_others(log_probabilities)
    return np.asarray(np.logaddexp(having, without) - math.log(2))


def offline_log_mean(log_probabilities: ShadowOutputs, slope: float = 0.3) -> FloatArray:
    """Log p(x) from models trained without x alone: (1 + a) / 2 of their mean and (1 - a) / 2.

    Models trained on x are taken to give it a * mean + 1 - a (the paper's appendix B). At a =
    1 it is the mean over the models without x, which is right for points of the population.

    Args:
      log_probabilities: Log probability of each point's label under reference models.
      slope: The a of the paper, in [0, 1]; it is 0.3 there for CIFAR-10.

    Returns:
      Logarithms, float64 of shape (points,).

    Raises:
      InputError: If the slope is out of range, or no model was trained without a point.
    """
    if not 0 <= slope <= 1:
        raise InputError(f"slope must be in [0, 1], got {slope}")
    others = log_mean_of_others(log_probabilities)
    return np.asarray(np.log((1 + slope) * np.exp(others) + 1 - slope) - math.log(2))


def log_mean_of_others(log_probabilities: ShadowOutputs) -> FloatArray:
    """Log of the mean probability under models trained without each point.

    Raises:
      InputError: If no model was trained without a point.
    """
    return _log_mean(log_probabilities.values, ~log_probabilities.member)


def _log_mean(values: FloatArray, kept: npt.NDArray[np.bool_]) -> FloatArray:
    count = np.sum(kept, axis=0)
    none = np.flatnonzero(count == 0)
    if len(none):
        raise InputError(f"point {none[0]}: needs reference models with and without it")
    return np.asarray(special.logsumexp(np.where(kept, values, -np.inf), axis=0) - np.log(count))
