"""The tasks of figure 1: real data at hand, and a stand-in for Purchase-100."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.tasks import load_task
from fl_audit.tasks.classifier import Classifier, Examples, LearningTask
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.kinds import DigitsTask
from fl_audit.tasks.tables import BreastCancerTask
from fl_audit.training.models.recipe import Recipe


@dataclass(frozen=True, eq=False)
class PlottedTask:
    """A task, of whose points a random half is the training set.

    Attributes:
      name: The name of the task and of its data.
      classifier: The model.
      points: All points.
      recipe: The training; its epochs are those of DP-SGD.
      epochs: The numbers of epochs without noise.
      microbatches: The numbers of micro-batches of DP-SGD; None for examples one by one.
    """

    name: str
    classifier: Classifier
    points: Examples
    recipe: Recipe
    epochs: tuple[int, ...]
    microbatches: tuple[int | None, ...] = (None, 32)


def _digits() -> PlottedTask:
    task = load_task(DigitsTask(hidden=(64,)), 1)
    recipe = Recipe(epochs=20, batch_size=64, learning_rate=0.1, momentum=0.9)
    return PlottedTask("digits", task.classifier, _points(task), recipe, (1, 5, 10, 50, 100))


def _breast_cancer() -> PlottedTask:
    task = load_task(BreastCancerTask(hidden=(64,)), 1)
    recipe = Recipe(epochs=20, batch_size=32, learning_rate=0.1, momentum=0.9)
    return PlottedTask("breast cancer", task.classifier, _points(task), recipe, (1, 5, 10, 50, 100))


def _purchases() -> PlottedTask:
    """Shoppers of 100 kinds and 600 products, of which each kind likes its own.

    Purchase-100 has the same form; the likings are made so that held-out shoppers are told as well
    as in the paper, about 90 %.
    """
    rng = np.random.default_rng(2024)
    likes = special.expit(rng.normal(-1.5, 1.0, 600) + rng.normal(0, 0.7, (100, 600)))
    labels = rng.integers(0, 100, 6000).astype(np.int32)
    bought = (rng.random((6000, 600)) < likes[labels]).astype(np.float32)
    recipe = Recipe(epochs=5, batch_size=256, learning_rate=0.1, momentum=0.9)
    classifier = dense_classifier([600, 100, 100], 1, "")
    points = Examples(bought, labels)
    return PlottedTask("made purchases", classifier, points, recipe, (5, 10, 50), (None,))


def _points(task: LearningTask) -> Examples:
    clients = range(len(task.population.client_ids))
    return Examples.concatenate([*map(task.population.examples, clients), task.held_out])


TASKS: dict[str, Callable[[], PlottedTask]] = {
    "digits": _digits,
    "breast cancer": _breast_cancer,
    "made purchases": _purchases,
}
