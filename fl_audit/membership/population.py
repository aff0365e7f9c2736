"""Attacks that compare a point's output with outputs of population points: RMIA and quantiles.

RMIA (Zarifzadeh et al. 2024, arXiv:2312.03262) counts the population points z whose likelihood
under the attacked model, relative to reference models, is no larger than the relative likelihood of
the point x. Quantile attacks (Bertran et al. 2023, arXiv:2307.03694) use the quantile of the
point's output among the outputs of similar points under the same model, and need no other model.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.membership.lira import ShadowOutputs
from fl_audit.membership.outputs import loss_of_margin


def rmia(
    targets: npt.ArrayLike,
    reference: ShadowOutputs,
    population: npt.ArrayLike,
    population_reference: npt.ArrayLike,
    gamma: float = 1.0,
) -> FloatArray:
    """RMIA's score of one point x: the share of population points z that it beats.

    x beats z if LR(x, z) >= gamma, where LR(x, z) is the ratio of p(x) / P(x) to p(z) / P(z). Here
    p is the label's probability under the attacked model, P(z) the mean of this probability over
    reference models, and P(x) the average of two such means, over models with and without x
    (online).

    Args:
      targets: Margins of x under the attacked models, of shape (models,).
      reference: Margins of x under reference models, of shape (references, 1).
      population: Margins of population points under the attacked models, of shape (models, z).
      population_reference: Margins of population points under the reference models, of shape
        (references, z).
      gamma: The threshold on LR, above 0.

    Returns:
      Scores in [0, 1], float64 of shape (models,); larger for likelier members.

    Raises:
      InputError: The shapes disagree, there is no population point, a margin is not finite, or all
        or none of the reference models have the point.
    """
    of_x, of_z = _pair(targets, population)
    if reference.values.shape[1] != 1:
        raise InputError(f"reference must have shape (models, 1), got {reference.values.shape}")
    known_z = np.asarray(population_reference, np.float64)
    if known_z.shape != (len(reference.values), of_z.shape[1]) or not np.isfinite(known_z).all():
        raise InputError(
            f"population_reference must be finite, of shape ({len(reference.values)}, "
            f"{of_z.shape[1]}), got {known_z.shape}"
        )
    if not gamma > 0:
        raise InputError(f"gamma must be above 0, got {gamma}")
    values, member = reference.values[:, 0], reference.member[:, 0]
    if member.all() or not member.any():
        raise InputError("reference models must include some with the point and some without it")
    sides = [_log_mean(values[side]) for side in (member, ~member)]
    relative_x = -loss_of_margin(of_x) - (np.logaddexp(*sides) - math.log(2))
    relative_z = -loss_of_margin(of_z) - _log_mean(known_z)
    beaten = relative_x[:, None] - relative_z >= math.log(gamma)
    return np.asarray(np.mean(beaten, axis=1))


def _log_mean(margins: FloatArray) -> FloatArray:
    """Log of the label's mean probability over models, the first axis."""
    log_sum = special.logsumexp(-loss_of_margin(margins), axis=0)
    return np.asarray(log_sum - math.log(len(margins)))


def calibrated_margins(
    targets: npt.ArrayLike,
    features: npt.ArrayLike,
    population: npt.ArrayLike,
    population_features: npt.ArrayLike,
) -> FloatArray:
    """The margin of a point minus the margin predicted from its features, in standard deviations.

    For each attacked model, a ridge regression on population points predicts margins from features.
    Margins are taken as normal around the prediction, with one standard deviation for all points
    (Bertran et al., section 3). So scores rank the point's outputs by quantile across models.

    Args:
      targets: Margins of the point under the attacked models, of shape (models,).
      features: Features of the point, of shape (f,).
      population: Margins of population points under the attacked models, of shape (models, z).
      population_features: Features of the population points, of shape (z, f).

    Returns:
      Scores, float64 of shape (models,); larger for likelier members.

    Raises:
      InputError: The shapes disagree, a number is not finite, or the population's margins are all
        equal under a model.
    """
    of_x, of_z = _pair(targets, population)
    own, others = np.asarray(features, np.float64), np.asarray(population_features, np.float64)
    if others.shape != (of_z.shape[1], own.size) or own.ndim != 1:
        raise InputError(
            f"features must have shape (f,) and ({of_z.shape[1]}, f), got {own.shape} and "
            f"{others.shape}"
        )
    if not (np.isfinite(own).all() and np.isfinite(others).all()):
        raise InputError("features must be finite")
    # The mean of equal numbers is rounded, so that their standard deviation need not be 0.
    centre = others.mean(axis=0)
    spread = np.where(np.ptp(others, axis=0) > 0, others.std(axis=0), 1.0)
    design, at = (others - centre) / spread, (own - centre) / spread
    mean = of_z.mean(axis=1)
    covariance = design.T @ design + np.eye(own.size)
    weights = np.linalg.solve(covariance, design.T @ (of_z - mean[:, None]).T)
    residuals = of_z - mean[:, None] - (design @ weights).T
    stddev = np.sqrt(np.mean(residuals**2, axis=1))
    if (stddev == 0).any() or (np.ptp(of_z, axis=1) == 0).any():
        raise InputError("the margins of the population are all alike under a model")
    return np.asarray((of_x - mean - at @ weights) / stddev)


def _pair(targets: npt.ArrayLike, population: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    of_x, of_z = np.asarray(targets, np.float64), np.asarray(population, np.float64)
    if of_x.ndim != 1 or of_z.ndim != 2 or len(of_x) != len(of_z) or not of_z.size:
        raise InputError(
            "targets and population must have shape (models,) and (models, points), got "
            f"{of_x.shape} and {of_z.shape}"
        )
    if not (np.isfinite(of_x).all() and np.isfinite(of_z).all()):
        raise InputError("margins must be finite")
    return of_x, of_z
