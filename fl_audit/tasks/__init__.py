"""Tasks: the models and the data that clients hold."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a model alone needs neither a config nor what reads one
    from fl_audit.config import Task
    from fl_audit.tasks.classifier import LearningTask


def load_task(config: "Task", seed: int) -> "LearningTask":
    """Loads the task that a config asks for.

    Args:
      config: the task table of a config.
      seed: of the run.

    Raises:
      InputError: its data cannot be used.
    """
    from fl_audit.config import DigitsTask, EmnistTask, StackOverflowTask, TextTask

    match config:
        case DigitsTask():
            from fl_audit.tasks.digits import load_digits_task

            return load_digits_task(config, seed)
        case TextTask():
            from fl_audit.tasks.text import load_text_task

            return load_text_task(config, seed)
        case StackOverflowTask():
            from fl_audit.tasks.stackoverflow import load_stackoverflow_task

            return load_stackoverflow_task(config, seed)
        case EmnistTask():
            from fl_audit.tasks.emnist import load_emnist_task

            return load_emnist_task(config, seed)
