"""Training of many models in blocks, each block's result kept in a file named by its content.

What is kept of a model is what attacks need: its margin at every point, and whether it classifies
the point correctly. A killed process loses the block in training and no other, and since all that
is random comes from the seed and the model's number, what is trained later is the same.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.formats.npy_file import AnyArray
from fl_audit.membership.outputs import margin
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier, Examples
from fl_audit.training.models.batches import batches_of_model, stacked
from fl_audit.training.models.block_trainer import ModelBlockTrainer
from fl_audit.training.models.initial_weights import initial_weights
from fl_audit.training.models.kept_arrays import digest_of, kept_arrays, name_of
from fl_audit.training.models.recipe import Recipe

BoolArray = npt.NDArray[np.bool_]

AfterBlock = Callable[[int, int], None]
"""A function called after each block with its number of models, and how many were trained now."""

_VERSION = 1
"""The number of this way of training; a change that gives other numbers counts it up."""


@dataclass(frozen=True, eq=False)
class ModelJob:
    """What all models of an attack have in common.

    Attributes:
      classifier: The model.
      identity: Text that says which task this is, such as its config table as JSON.
      points: The points, of which each model is trained on some and judged at all.
      recipe: How models are trained.
      seed: The seed of the run.
    """

    classifier: Classifier
    identity: str
    points: Examples
    recipe: Recipe
    seed: int

    @functools.cached_property
    def trainer(self) -> ModelBlockTrainer:
        """What trains the models, traced once for all calls."""
        return ModelBlockTrainer(self.classifier, self.recipe, self.points)


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """What trained models say of the points.

    Attributes:
      margins: The margins, float64 of shape (models, points).
      correct: Whether the label has the largest logit, bool of shape (models, points).
    """

    margins: FloatArray
    correct: BoolArray


def train_models(
    job: ModelJob,
    training: BoolArray,
    first: int,
    *,
    folder: Path,
    models_per_block: int,
    after_block: AfterBlock,
) -> ModelOutputs:
    """Trains models, or reads those that an earlier call has trained, block by block.

    Args:
      job: What the models have in common.
      training: The points that each model is trained on, at least one, bool of shape (models,
        points).
      first: The number of the first model; a model's seeds come from its number.
      folder: The folder of the blocks' files, which exists.
      models_per_block: The number of models that train at once.
      after_block: A function that is called after each block with the number of its models and how
        many of these were trained by this call.

    Raises:
      InputError: A model has no training point, or a block's file is damaged.
    """
    if not training.any(axis=1).all():
        raise InputError("every model must have at least one training point")
    common = _digest_of_job(job)
    outputs = []
    for start in range(0, len(training), models_per_block):
        part = training[start : start + models_per_block]
        path = folder / f"block-{name_of(common, part, first + start)}"
        is_new = not path.exists()
        shapes = {"margins": part.shape, "correct": part.shape}
        train = functools.partial(_trained, job, part, first + start)
        outputs.append(kept_arrays(path, shapes, train))
        after_block(len(part), len(part) if is_new else 0)
    return ModelOutputs(
        np.concatenate([block["margins"] for block in outputs]),
        np.concatenate([block["correct"] for block in outputs]),
    )


def _trained(job: ModelJob, training: BoolArray, first: int) -> dict[str, AnyArray]:
    numbers = range(first, first + len(training))
    of_models = [_initial(job, number) for number in numbers]
    batches = [
        batches_of_model(np.flatnonzero(mask), job.recipe, job.seed, number)
        for mask, number in zip(training, numbers, strict=True)
    ]
    keys = [generator(job.seed, Stream.MODEL_NOISE, number).integers(2**62) for number in numbers]
    initial = [np.stack(arrays) for arrays in zip(*of_models, strict=True)]
    weights = job.trainer.train(initial, stacked(batches), np.array(keys, np.int64))
    logits = job.trainer.logits(weights, job.points.inputs)
    if not np.isfinite(logits).all():
        raise InputError(
            "training diverged: a model gives numbers that are not finite; use a smaller "
            "attack.learning_rate"
        )
    correct = np.argmax(logits, axis=-1) == job.points.labels
    return {"margins": margin(logits, job.points.labels), "correct": correct}


def _initial(job: ModelJob, number: int) -> list[npt.NDArray[np.float32]]:
    if job.recipe.initial_weights == "same":
        return list(job.classifier.initial_weights)
    return initial_weights(job.classifier, job.seed, number)


def _digest_of_job(job: ModelJob) -> "hashlib._Hash":
    return digest_of(
        [_VERSION, job.identity, job.seed, dataclasses.asdict(job.recipe)],
        [job.points.inputs, job.points.labels, *job.classifier.initial_weights],
    )
