"""Losses and margins of points under a model, on which attacks are based; Epsilon* of a model."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.epsilon_star import (
    ModelEpsilon,
    checked_losses,
    empirical_epsilon_star,
    epsilon_star_of_distributions,
    log_odds_losses,
)


@dataclass(frozen=True, eq=False)
class MemberOutputs:
    """Outputs of trained models for the members (points or clients).

    Attributes:
      margins: The margin of each member under each model, float64 of shape (models, members).
      losses: The loss of each member under each model, of the same shape.
      accuracy: The accuracy of each model on data outside its training set, float64 of shape
        (models,).
    """

    margins: FloatArray
    losses: FloatArray
    accuracy: FloatArray


def margin(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """The logit of the label's probability, log(p / (1 - p)), larger for better learned points.

    The margin is z_y minus the logsumexp of all other logits z. Margins are nearly normal where
    losses are not, and finite where the loss underflows to 0. Carlini et al. (2022) call the margin
    phi. Attacks that expect losses get minus the margin.

    Args:
      logits: Logits z, finite floats of shape (..., points, classes), of at least 2 classes.
      labels: Label y of each point, integers of shape (points,).

    Returns:
      Margins in nats, float64 of shape (..., points).

    Raises:
      InputError: The shapes disagree, a logit is not finite or a label is not a class.

    >>> margin([[0.0, 0.0, 0.0], [800.0, 0.0, -800.0]], [0, 0]).round(3).tolist()
    [-0.693, 800.0]
    """
    values, classes = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if not np.isfinite(values).all():
        raise InputError("logits must be finite")
    if values.ndim < 2 or classes.shape != values.shape[-2:-1]:
        raise InputError(
            "logits must have shape (..., points, classes) and labels (points,), got "
            f"{values.shape} and {classes.shape}"
        )
    return -log_odds_losses(values, np.broadcast_to(classes, values.shape[:-1]))


def loss_of_margin(margins: npt.ArrayLike) -> FloatArray:
    """The cross-entropy -log p of points with the given margins, in nats: log(1 + exp(-margin)).

    It is accurate for a large margin: at 40 the loss is exp(-40), while 1 - p rounds to 0.

    >>> loss_of_margin([0.0, 40.0]).tolist()
    [0.6931471805599453, 4.248354255291589e-18]
    """
    return np.logaddexp(0.0, -np.asarray(margins, dtype=np.float64))


def margin_of_loss(losses: npt.ArrayLike) -> FloatArray:
    """The inverse of `loss_of_margin`: log(p / (1 - p)) of the probability p = exp(-loss).

    If the loss is a mean over several examples, p is the geometric mean of their probabilities.
    Losses below the smallest normal float32 count as this number, so margins are at most 87.3.

    >>> margin_of_loss([0.6931471805599453, 4.248354255291589e-18, 800.0]).round(9).tolist()
    [0.0, 40.0, -800.0]
    """
    cross_entropy = np.maximum(np.asarray(losses, dtype=np.float64), np.finfo(np.float32).tiny)
    return np.asarray(-cross_entropy - np.log(-np.expm1(-cross_entropy)))


def loss(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """The cross-entropy of each point; arguments, shape and errors as in `margin`."""
    return loss_of_margin(margin(logits, labels))


# Epsilon* of one model compares its whole training set with other points of the population:
# Negoescu et al. (2024), Definition 2, with margins instead of transformed losses.


@dataclass(frozen=True)
class ModelPrivacy:
    """Epsilon* of one model: how well its margins distinguish training points from others.

    Attributes:
      gaussian: Epsilon* of Gaussians fitted to the margins of members and of other points.
      empirical: Epsilon* of the margins themselves, at most log(999).
    """

    gaussian: ModelEpsilon
    empirical: ModelEpsilon


def epsilon_star_of_model(
    member_margins: npt.ArrayLike, population_margins: npt.ArrayLike, delta: float
) -> ModelPrivacy:
    """Epsilon* of a model from its margins, which are near normal where losses are not.

    Negoescu et al. (2024), section 3.1, with the margin instead of the loss transformed in the four
    steps of appendix B, 8.1. It is a point estimate for this model, not a bound on the epsilon of
    the training.

    Args:
      member_margins: Margins of all training points, float of shape (n1,).
      population_margins: Margins of other points of the population, float of shape (n0,).
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: delta is out of range, a sample is empty or a margin is not finite.
    """
    members = checked_losses("member_margins", member_margins)
    others = checked_losses("population_margins", population_margins)
    return ModelPrivacy(
        gaussian=epsilon_star_of_distributions(
            Gaussian.fitted_to(members), Gaussian.fitted_to(others), delta
        ),
        empirical=empirical_epsilon_star(-members, -others, delta),
    )
