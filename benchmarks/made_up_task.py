"""The next-word LSTM with made-up clients, as a task that a config names and every actor makes."""

from benchmarks.next_word import PAPER, Sizes, made_up_clients, model_of
from benchmarks.rounds import in_memory
from fl_audit.tasks.learning_task import LearningTask


def make(seed: int, cohort: int, batches: int, is_small: bool = False) -> LearningTask:
    """The task.

    Args:
      seed: Unused: every process makes the same clients.
      cohort: Number of clients.
      batches: Number of full batches of each.
      is_small: Whether the model has 96 thousand parameters, to try this out, and not 4 million.
    """
    del seed
    sizes = Sizes(600, 32, 100) if is_small else PAPER
    return in_memory("made up", model_of(sizes), made_up_clients(sizes, cohort, batches))
