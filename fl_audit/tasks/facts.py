"""Facts of a config's task before training: clients, parameters, initial norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from fl_audit.inner_products import euclidean_norm
from fl_audit.tasks import load_task
from fl_audit.tasks.task_kinds import DigitsTask, NumbersTask


@dataclass(frozen=True, eq=False)
class TaskFacts:
    """The sizes of a task."""

    name: str
    dim: int
    initial_norm: float  # norm of the initial model; 0 if unknown
    client_ids: Sequence[str]


class NumberedClients(Sequence[str]):
    """Names of numbered clients."""

    def __init__(self, count: int) -> None:
        """Takes the number of clients."""
        self._numbers = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        numbers = self._numbers[index]
        return str(numbers) if isinstance(numbers, int) else [str(number) for number in numbers]


_FOR_TRAINING = 1_500
"""The number of images of `DigitsTask` for training."""


def load_client_ids(table: Any, seed: int) -> Sequence[str]:
    """The names of a task's clients; does not load digits, because that takes a second."""
    match table:
        case NumbersTask(num_clients=number):
            return NumberedClients(number)
        case DigitsTask(num_clients=number) if number <= _FOR_TRAINING:
            return [f"client-{index}" for index in range(number)]
        case _:
            return load_task(table, seed).population.client_ids


def load_task_facts(table: Any, seed: int) -> TaskFacts:
    """The sizes of a task, which is loaded unless its table states the sizes."""
    if isinstance(table, NumbersTask):
        clients = load_client_ids(table, seed)
        return TaskFacts("these numbers", table.dim, table.initial_norm or 0.0, clients)
    task = load_task(table, seed)
    weights = task.classifier.initial_weights
    return TaskFacts(
        name=task.name,
        dim=task.classifier.dim,
        initial_norm=math.hypot(*(euclidean_norm(leaf.ravel()) for leaf in weights)),
        client_ids=task.population.client_ids,
    )
