"""Tasks: models, clients and their data."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a model alone needs no config
    from fl_audit.tasks.learning_task import LearningTask
    from fl_audit.tasks.task_kinds import Task


def load_task(config: "Task", seed: int) -> "LearningTask":
    """Loads the task of a config's table for the run's seed."""
    from fl_audit.progress import warned_if_read
    from fl_audit.tasks.task_kinds import TASKS

    with warned_if_read():
        return TASKS.kind_of(config).load(config, seed)
