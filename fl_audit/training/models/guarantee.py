"""The analytical epsilon of a recipe for models, and the recipe of an analytical epsilon."""

import dataclasses
import math

from fl_audit.accounting import NoisyRounds, account
from fl_audit.accounting.analytical import noise_multiplier_for
from fl_audit.errors import InputError
from fl_audit.training.models.recipe import DpSgd, Recipe


def guaranteed_epsilon(recipe: Recipe, delta: float) -> float:
    """The epsilon that DP-SGD guarantees to one point more or less, against all attackers.

    Those who see every step are included. Output noise alone guarantees nothing here: how far one
    point moves a trained model is not known.

    Args:
      recipe: How models are trained.
      delta: The delta of the guarantee, in (0, 1).

    Returns:
      The epsilon, infinite without DP-SGD or without its noise.
    """
    if recipe.privacy is None:
        return math.inf
    epsilon = account(_steps(recipe, recipe.privacy, delta)).epsilon
    return math.inf if epsilon is None else epsilon


def with_epsilon(recipe: Recipe, epsilon: float, delta: float) -> Recipe:
    """The recipe with the least noise of DP-SGD that guarantees an epsilon.

    Args:
      recipe: How models are trained, by DP-SGD; its noise multiplier does not count.
      epsilon: The target, above 0.
      delta: The delta of the guarantee, in (0, 1).

    Raises:
      InputError: The recipe is not DP-SGD, or no noise is enough.
    """
    privacy = recipe.privacy
    if privacy is None:
        raise InputError("only DP-SGD can be given an epsilon")

    def noised(noise_multiplier: float) -> Recipe:
        changed = dataclasses.replace(privacy, noise_multiplier=noise_multiplier)
        return dataclasses.replace(recipe, privacy=changed)

    return noised(
        noise_multiplier_for(
            epsilon, lambda multiplier: guaranteed_epsilon(noised(multiplier), delta)
        )
    )


def _steps(recipe: Recipe, privacy: DpSgd, delta: float) -> NoisyRounds:
    """The steps as rounds of one-example clients, each drawn by a coin of its own."""
    return NoisyRounds(
        rounds=recipe.steps(privacy.public_size),
        delta=delta,
        noise_multiplier=privacy.sum_noise_multiplier,
        sum_noise_multiplier=privacy.sum_noise_multiplier,
        sampling_probability=min(1.0, recipe.batch_size / privacy.public_size),
    )
