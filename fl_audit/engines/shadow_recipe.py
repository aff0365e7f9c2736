"""The training of shadow models, for any engine: steps, privacy, batches and initial weights."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl_audit.accounting import Denominator, Party, PoissonSampling, Release, account
from fl_audit.accounting.analytical import noise_multiplier_for
from fl_audit.accounting.noise_distributions import GAUSSIAN
from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.inner_products import euclidean_norm
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Model

InitialWeights = Literal["random", "same"]
"""Whether each model has its own initial weights, or all have the task's."""


@dataclass(frozen=True)
class DpSgd:
    """The privacy of each step: gradients clipped one by one, Gaussian noise on their sum.

    A step takes each training point with probability batch_size / public_size, and divides the
    noised sum by batch_size. Neither the probability nor the divisor depends on the actual number
    of points, so models with and without a point differ in that point alone (add or remove one).

    With micro-batches each point belongs to one micro-batch, by the point's index. A step clips the
    mean gradient of the sampled points of each micro-batch, instead of the gradient of each
    example, and divides the noised sum by the number of micro-batches (Negoescu et al. 2024,
    section 4.1). One more point may reverse a clipped mean, which moves the sum by up to 2
    clip_norm. So the guarantee equals that of half the noise multiplier without micro-batches.
    """

    clip_norm: float  # the L2 norm to which gradients are clipped, above 0
    noise_multiplier: float  # the standard deviation of the noise divided by clip_norm, at least 0
    public_size: int  # the number of points from which sampling probability and steps are computed
    microbatches: int | None = None  # the number of micro-batches; None to clip example by example

    @property
    def sum_noise_multiplier(self) -> float:
        """The standard deviation of the noise, divided by the sum's sensitivity to one point."""
        return self.noise_multiplier / (1 if self.microbatches is None else 2)


@dataclass(frozen=True)
class Recipe:
    """The training of a model."""

    epochs: int  # over the training points; under DP-SGD over `public_size`
    batch_size: int  # under DP-SGD the expected number of points in a step
    learning_rate: float  # a step is minus this times the velocity
    momentum: float = 0.0  # the share of the previous velocity that is kept, in [0, 1)
    privacy: DpSgd | None = None  # None for plain SGD
    output_noise: float = 0.0  # stddev of noise on every weight of the trained model before release
    initial_weights: InitialWeights = "random"

    def steps(self, num_members: int) -> int:
        """The number of steps of a model, given its number of training points."""
        size = num_members if self.privacy is None else self.privacy.public_size
        return self.epochs * math.ceil(size / self.batch_size)


# The upper bound on epsilon of a recipe, and the recipe for a given bound.


def accounted_epsilon(recipe: Recipe, delta: float) -> float:
    """The upper bound on epsilon of DP-SGD with all steps visible; infinite without a bound."""
    if recipe.privacy is None:
        return math.inf
    epsilon = account(_steps(recipe, recipe.privacy), delta).epsilon
    return math.inf if epsilon is None else epsilon


def with_epsilon(recipe: Recipe, epsilon: float, delta: float) -> Recipe:
    """The recipe with the least noise such that the upper bound is at most `epsilon`."""
    privacy = recipe.privacy
    if privacy is None:
        raise InputError("only DP-SGD can be given an epsilon")

    def noised(noise_multiplier: float) -> Recipe:
        changed = dataclasses.replace(privacy, noise_multiplier=noise_multiplier)
        return dataclasses.replace(recipe, privacy=changed)

    return noised(
        noise_multiplier_for(
            epsilon, lambda multiplier: accounted_epsilon(noised(multiplier), delta)
        )
    )


def _steps(recipe: Recipe, privacy: DpSgd) -> Release:
    """The steps as rounds of one-example clients under Poisson sampling."""
    probability = min(1.0, recipe.batch_size / privacy.public_size)
    point = Party(PoissonSampling(probability))
    return Release(
        rounds=recipe.steps(privacy.public_size),
        noise=GAUSSIAN.noise(privacy.sum_noise_multiplier, privacy.sum_noise_multiplier),
        denominator=Denominator("expected_cohort", recipe.batch_size),
        client=point,
        canary=point,
    )


# The points of each step, sampled by NumPy from the model's own stream.

NO_POINT = -1
"""The index that pads a batch."""

Batches = npt.NDArray[np.int32]


def batches_of_model(
    members: npt.NDArray[np.int64], recipe: Recipe, seed: int, model: int
) -> Batches:
    """The indices of the points of each step of one model.

    Without privacy each epoch takes the points in a new random order; under DP-SGD each step
    samples each point independently (Poisson sampling).

    Args:
      members: The indices of the model's training points, at least one.
      model: The number of the model, which with the seed determines all randomness.

    Returns:
      Indices, int32 of shape (steps, rows), padded with `NO_POINT`.
    """
    rng = generator(seed, Stream.MODEL_ORDER, model)
    if recipe.privacy is None:
        return _shuffled(members, recipe, rng)
    rate = min(1.0, recipe.batch_size / recipe.privacy.public_size)
    taken = [members[rng.random(len(members)) < rate] for _ in range(recipe.steps(len(members)))]
    batches = np.full((len(taken), max(1, *map(len, taken))), NO_POINT, np.int32)
    for batch, points in zip(batches, taken, strict=True):
        batch[: len(points)] = points
    return batches


def stacked(of_models: list[Batches]) -> Batches:
    """The batches of several models, padded to one shape (models, steps, rows)."""
    steps = max(len(batches) for batches in of_models)
    rows = max(batches.shape[1] for batches in of_models)
    block = np.full((len(of_models), steps, rows), NO_POINT, np.int32)
    for model, batches in enumerate(of_models):
        block[model, : len(batches), : batches.shape[1]] = batches
    return block


def _shuffled(members: npt.NDArray[np.int64], recipe: Recipe, rng: np.random.Generator) -> Batches:
    rows = min(recipe.batch_size, len(members))
    steps = math.ceil(len(members) / recipe.batch_size)
    epochs = np.full((recipe.epochs, steps * rows), NO_POINT, np.int32)
    for epoch in epochs:
        epoch[: len(members)] = rng.permutation(members)
    return epochs.reshape(recipe.epochs * steps, rows)


# Initial weights of each model.


def initial_weights(classifier: Model, seed: int, model: int) -> list[Float32Array]:
    """Normal random weights of model `model`; each array has the root mean square of the task's."""
    rng = generator(seed, Stream.MODEL_WEIGHTS, model)
    return [
        rng.standard_normal(weight.shape, np.float32)
        * np.float32(euclidean_norm(weight.ravel()) / math.sqrt(weight.size))
        for weight in classifier.initial_weights
    ]
