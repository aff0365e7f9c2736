"""The kinds of tasks: their tables, and how each is loaded.

Nothing here imports TensorFlow before a task is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fl_audit.errors import InputError
from fl_audit.kinds import Registry, Table
from fl_audit.tasks.tables import (
    BreastCancerTask,
    CifarTask,
    DigitsTask,
    EmnistTask,
    NpzTask,
    NumbersTask,
    PurchaseTask,
    PythonTask,
    StackOverflowTask,
    TableTask,
    Task,
    TextTask,
    WineTask,
)

if TYPE_CHECKING:
    from fl_audit.tasks.classifier import LearningTask

__all__ = ["TASKS", "Task", "TaskKind"]

TableType = TypeVar("TableType", bound=Table)


@dataclass(frozen=True)
class TaskKind(Generic[TableType]):
    """The record of all that is known of one kind of task.

    Attributes:
      table: The config table, a `Task`.
      load: A function that loads the task of a table for the run's seed. It raises an `InputError`
        where the data cannot be used. TensorFlow is imported when it is called, not before.
    """

    table: type[TableType]
    load: Callable[[TableType, int], "LearningTask"]


TASKS = Registry[TaskKind[Any]]("task", Task)
"""All kinds of tasks; a further one is a module that registers its own."""


def _numbers(config: NumbersTask, seed: int) -> "LearningTask":
    raise InputError(
        "task.kind: 'numbers' has no data to train on; it is for `fl-audit plan` (docs/plan.md)"
    )


def _digits(config: DigitsTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.digits import load_digits_task

    return load_digits_task(config, seed)


def _text(config: TextTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.text import load_text_task

    return load_text_task(config, seed)


def _stackoverflow(config: StackOverflowTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.stackoverflow import load_stackoverflow_task

    return load_stackoverflow_task(config, seed)


def _emnist(config: EmnistTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.emnist import load_emnist_task

    return load_emnist_task(config, seed)


def _python(config: PythonTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.own_module import load_python_task

    return load_python_task(config, seed)


def _npz(config: NpzTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.client_files import load_npz_task

    return load_npz_task(config, seed)


def _table(config: TableTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.client_table import load_table_task

    return load_table_task(config, seed)


TASKS.register(TaskKind(NumbersTask, _numbers))


def _breast_cancer(config: BreastCancerTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.tabular import load_breast_cancer_task

    return load_breast_cancer_task(config, seed)


def _wine(config: WineTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.tabular import load_wine_task

    return load_wine_task(config, seed)


def _purchase(config: PurchaseTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.purchase import load_purchase_task

    return load_purchase_task(config, seed)


def _cifar(config: CifarTask, seed: int) -> "LearningTask":
    from fl_audit.tasks.cifar10 import load_cifar10_task

    return load_cifar10_task(config, seed)


TASKS.register(TaskKind(DigitsTask, _digits))
TASKS.register(TaskKind(TextTask, _text))
TASKS.register(TaskKind(StackOverflowTask, _stackoverflow))
TASKS.register(TaskKind(EmnistTask, _emnist))
TASKS.register(TaskKind(PythonTask, _python))
TASKS.register(TaskKind(NpzTask, _npz))
TASKS.register(TaskKind(TableTask, _table))
TASKS.register(TaskKind(BreastCancerTask, _breast_cancer))
TASKS.register(TaskKind(WineTask, _wine))
TASKS.register(TaskKind(PurchaseTask, _purchase))
TASKS.register(TaskKind(CifarTask, _cifar))
