"""The tasks of figure 1: real data at hand."""

from collections.abc import Callable
from dataclasses import dataclass

from fl_audit.engines.shadow_recipe import Recipe
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import Examples, LearningTask
from fl_audit.tasks.task_kinds import BreastCancerTask, DigitsTask
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier


@dataclass(frozen=True, eq=False)
class PlottedTask:
    """A task, of whose points a random half is the training set.

    Attributes:
      name: The name of the task and of its data.
      classifier: The model.
      points: All points.
      recipe: The training; its epochs are those of DP-SGD.
    """

    name: str
    classifier: Classifier
    points: Examples
    recipe: Recipe


def _digits() -> PlottedTask:
    task = load_task(DigitsTask(hidden=(64,)), 1)
    recipe = Recipe(epochs=20, batch_size=64, learning_rate=0.1, momentum=0.9)
    return PlottedTask("digits", as_classifier(task.classifier), _points(task), recipe)


def _breast_cancer() -> PlottedTask:
    task = load_task(BreastCancerTask(hidden=(64,)), 1)
    recipe = Recipe(epochs=20, batch_size=32, learning_rate=0.1, momentum=0.9)
    return PlottedTask("breast cancer", as_classifier(task.classifier), _points(task), recipe)


def _points(task: LearningTask) -> Examples:
    clients = range(len(task.population.client_ids))
    return Examples.concatenate([*map(task.population.examples, clients), task.held_out])


TASKS: dict[str, Callable[[], PlottedTask]] = {
    "digits": _digits,
    "breast cancer": _breast_cancer,
}
