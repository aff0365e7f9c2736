"""The points of each step of a model's training, drawn by NumPy from the model's own stream."""

import math

import numpy as np
import numpy.typing as npt

from fl_audit.seeds import Stream, generator
from fl_audit.training.models.recipe import Recipe

NO_POINT = -1
"""The index that fills a batch up."""

Batches = npt.NDArray[np.int32]


def batches_of_model(
    members: npt.NDArray[np.int64], recipe: Recipe, seed: int, model: int
) -> Batches:
    """The indices of the points of each step of one model.

    Without privacy each epoch takes the points in a new random order; under DP-SGD each step takes
    each point by a coin of its own (Poisson sampling).

    Args:
      members: The indices of the model's training points, at least one.
      recipe: How models are trained.
      seed: The seed of the run.
      model: The number of the model, which with the seed decides everything.

    Returns:
      Indices, int32 of shape (steps, rows), filled up with `NO_POINT`.
    """
    rng = generator(seed, Stream.MODEL_ORDER, model)
    if recipe.privacy is None:
        return _shuffled(members, recipe, rng)
    rate = min(1.0, recipe.batch_size / recipe.privacy.public_size)
    taken = [members[rng.random(len(members)) < rate] for _ in range(recipe.steps(len(members)))]
    return _filled(taken, max(map(len, taken)))


def stacked(of_models: list[Batches]) -> Batches:
    """The batches of several models, filled up to one shape (models, steps, rows)."""
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


def _filled(taken: list[npt.NDArray[np.int64]], rows: int) -> Batches:
    batches = np.full((len(taken), max(rows, 1)), NO_POINT, np.int32)
    for batch, points in zip(batches, taken, strict=True):
        batch[: len(points)] = points
    return batches
