"""A custom model and data from a Python function (docs/own_task.md)."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array
from fl_audit.config_tables.plugins import MissingModuleError, module_in, users_code
from fl_audit.errors import InputError
from fl_audit.extras import import_extra
from fl_audit.tasks.learning_task import (
    Examples,
    LearningTask,
    Model,
    PerExample,
    Population,
    Tensor,
)
from fl_audit.tasks.task_kinds import PythonTask

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]
"""Inputs and labels, whose first axis is the example."""

_CACHED_CLIENTS = 64


@dataclass(frozen=True, kw_only=True)
class OwnTask:
    """A model, its loss, and its clients' data.

    Attributes:
      initial_weights: The arrays of the initial model, in the order that `predict` expects.
      predict: A function of (weights, inputs), tensors of the framework, that returns the outputs
        of a batch.
      loss: A function of (outputs, labels) that returns each example's loss, shape (examples,).
      correct: A function of (outputs, labels) that returns each example's part of the accuracy, a
        truth value or a number in [0, 1], shape (examples,).
      client_ids: The names of the clients.
      client_data: A function from a client's name to inputs and labels; may be called repeatedly
        and from any thread.
      held_out: Inputs and labels held out from clients, for the accuracy.
      name: The name of the task in reports.
      accuracy_description: The meaning of the accuracy, in words.
      log_odds: A function of (outputs, labels) that returns the log-odds of each example's label,
        shape (examples,). Attacks use the negated log-odds, or `loss` if this is None, for example
        because labels are not classes.
      framework: The framework of the functions: `tensorflow`, for the runtimes of TensorFlow
        Federated, or `jax`, for runtime `jax`.
    """

    initial_weights: Sequence[npt.ArrayLike]
    predict: Callable[[Sequence[Tensor], Tensor], Tensor]
    loss: PerExample
    correct: PerExample
    client_ids: Sequence[str]
    client_data: Callable[[str], Arrays]
    held_out: Arrays
    name: str = "own task"
    accuracy_description: str = "mean of `correct` over held-out examples"
    log_odds: PerExample | None = None
    framework: Literal["tensorflow", "jax"] = "tensorflow"


class _OwnPopulation(Population):
    """Clients of a custom task; refuses data of another shape or type than the first client's."""

    def __init__(self, task: OwnTask, like: Examples, source: str) -> None:
        self.client_ids = [str(name) for name in task.client_ids]
        self._task, self._like, self._source = task, like, source
        self._read = functools.lru_cache(_CACHED_CLIENTS)(self._read_client)

    def num_examples(self, client: int) -> int:
        return len(self._read(client))

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        return self._read(client).take(index)

    def _read_client(self, client: int) -> Examples:
        name = self._task.client_ids[client]
        what = f"{self._source}: client_data({name!r})"
        with users_code(what):
            return checked_examples(self._task.client_data(name), what, self._like)


def learning_task(task: OwnTask, source: str) -> LearningTask:
    """Checks and converts a custom task; `source`, such as "my_task:make", names it in messages."""
    weights = _checked_weights(task.initial_weights, source)
    ids = [str(name) for name in task.client_ids]
    if not ids or len(set(ids)) < len(ids):
        raise InputError(f"{source}: client_ids must be distinct names, at least one")
    first = task.client_ids[0]
    like = checked_examples(task.client_data(first), f"{source}: client_data({first!r})")
    held_out = checked_examples(task.held_out, f"{source}: held_out", like)
    model = _model(task, weights, like, source)
    population = _OwnPopulation(task, like, source)
    return LearningTask(task.name, model, population, held_out)


def _model(task: OwnTask, weights: tuple[Float32Array, ...], like: Examples, source: str) -> Model:
    """The model in the task's framework; tries its functions on `like`, the first client's data."""
    if task.framework == "jax":
        import_extra("jax")
        from fl_audit.tasks.jax import jax_networks as in_jax

        functions = in_jax.functions_of(task.predict, task.loss, task.correct, task.log_odds)
        classes, shapes = in_jax.shapes_of(functions, weights, like)
        model: Model = in_jax.OwnJaxModel(weights, functions, classes, task.accuracy_description)
    else:
        from fl_audit.tasks.tf import networks as in_tensorflow

        of_examples = (task.loss, task.correct, task.log_odds)
        model = in_tensorflow.own_classifier(
            weights, task.predict, of_examples, like, task.accuracy_description
        )
        shapes = in_tensorflow.shapes_of(model, like)
    for name, shape in shapes.items():
        if shape != (len(like),):
            raise InputError(
                f"{source}: {name} must give one number an example, shape ({len(like)},), got "
                f"{shape}"
            )
    return model


def _checked_weights(weights: Sequence[npt.ArrayLike], source: str) -> tuple[Float32Array, ...]:
    arrays = tuple(np.array(weight, np.float32) for weight in weights)
    if not arrays or not all(array.size and np.isfinite(array).all() for array in arrays):
        raise InputError(f"{source}: initial_weights must be arrays of finite numbers, none empty")
    return arrays


def checked_examples(arrays: Arrays, what: str, like: Examples | None = None) -> Examples:
    """Inputs and labels as float32 or int32 examples, of types and shapes as in `like` if given."""
    if not isinstance(arrays, tuple | list) or len(arrays) != 2:
        raise InputError(
            f"{what}: must be a pair of inputs and labels, got {type(arrays).__name__}"
        )
    inputs, labels = (_numbers(array, what) for array in arrays)
    if labels.shape == (0,) and inputs.shape[:1] == (0,):
        raise InputError(f"{what}: has no data; leave such clients out of client_ids")
    if labels.ndim != 1 or inputs.shape[:1] != labels.shape:
        raise InputError(
            f"{what}: must have one label for each input; inputs have shape {inputs.shape}, labels "
            f"{labels.shape}"
        )
    if labels.dtype == np.int32 and labels.min() < 0:
        raise InputError(f"{what}: whole labels must not be negative, got {labels.min()}")
    if like is not None:
        wanted, got = (
            [(part.shape[1:], str(part.dtype)) for part in pair]
            for pair in ((like.inputs, like.labels), (inputs, labels))
        )
        if wanted != got:
            raise InputError(
                f"{what}: inputs and labels must be as the first client's, {wanted}, got {got}"
            )
    return Examples(inputs, labels)


def _numbers(array: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    numbers = np.asarray(array)
    if numbers.dtype.kind not in "iufb":
        raise InputError(f"{what}: must hold numbers, got {numbers.dtype}")
    if numbers.dtype.kind == "f":
        with np.errstate(over="ignore"):  # refused below
            numbers = numbers.astype(np.float32)
        if not np.isfinite(numbers).all():
            raise InputError(f"{what}: holds a number that is not finite in float32")
        return numbers
    if numbers.size and (numbers.max() > 2**31 - 1 or numbers.min() < -(2**31)):
        raise InputError(f"{what}: holds a whole number beyond 32 bits")
    return numbers.astype(np.int32)


# The function in the user's module.


def load_python_task(config: PythonTask, seed: int) -> LearningTask:
    """Imports and thereby runs the user's module, and calls its function with seed and options."""
    name, _, function = config.module.partition(":")
    with users_code(f"task.module: {config.module}"):
        module = _module(name, Path(config.folder))
        task: Any = _function(module, function)(seed, **config.options)
        if isinstance(task, LearningTask):
            return task
        if isinstance(task, OwnTask):
            return learning_task(task, config.module)
    raise InputError(
        f"task.module: {config.module} must return an fl_audit.tasks.own_task.OwnTask, got "
        f"{type(task).__name__}"
    )


def _module(name: str, folder: Path) -> ModuleType:
    """The module from the folder if it is there, else from Python's path."""
    try:
        return module_in(name, folder)
    except MissingModuleError as error:
        raise InputError(
            f"task.module: there is no module {name!r} in {folder} or on Python's path"
        ) from error


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    attribute: Any = getattr(module, name, None)
    if not callable(attribute):
        raise InputError(f"task.module: {module.__file__} has no function {name!r}")
    function: Callable[..., Any] = attribute
    return function
