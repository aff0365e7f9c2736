"""Epsilon* of one model, over its whole training set against a population.

Negoescu et al. (2024), Definition 2, of margins instead of their transformed losses.
"""

from dataclasses import dataclass

import numpy.typing as npt

from fl_audit.estimators.epsilon_star import empirical_epsilon_star, epsilon_star_of_laws
from fl_audit.estimators.epsilon_star.losses import checked_losses
from fl_audit.estimators.epsilon_star.model_epsilon import ModelEpsilon
from fl_audit.estimators.laws import Gaussian


@dataclass(frozen=True)
class ModelPrivacy:
    """How well the margins of one model tell its training points from others.

    Attributes:
      gaussian: Epsilon* of Gaussians fitted to the margins of members and of others.
      empirical: Epsilon* of the samples themselves, at most log(999).
    """

    gaussian: ModelEpsilon
    empirical: ModelEpsilon


def epsilon_star_of_model(
    member_margins: npt.ArrayLike, population_margins: npt.ArrayLike, delta: float
) -> ModelPrivacy:
    """Epsilon* of a model from its margins, which are near normal where losses are not.

    Section 3.1 with the margin in place of the four steps of appendix B, 8.1. It is a point
    estimate of this one model, no bound on the epsilon of the training.

    Args:
      member_margins: Margins of all training points, float of shape (n1,).
      population_margins: Margins of other points of the population, float of shape (n0,).
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If delta is out of range, a sample is empty or a margin is not finite.
    """
    members = checked_losses("member_margins", member_margins)
    others = checked_losses("population_margins", population_margins)
    return ModelPrivacy(
        gaussian=epsilon_star_of_laws(
            Gaussian.fitted_to(members), Gaussian.fitted_to(others), delta
        ),
        empirical=empirical_epsilon_star(-members, -others, delta),
    )
