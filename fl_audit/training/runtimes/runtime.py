"""What a runtime is: what runs a round, and what it is given of the round's participants."""

import abc
import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.training.data.cohort_data import DataSets, RoundData
from fl_audit.training.run.prepare import PreparedRun


class Runtime(abc.ABC):
    """A learning process and what runs it.

    Attributes:
      description: Which runtime, how, and why it was chosen; a line for people.
      process: The learning process.
      rounds_per_session: How many rounds a session may last; None for any number.
    """

    description: str
    process: tff.templates.IterativeProcess
    rounds_per_session: int | None = None

    @abc.abstractmethod
    def session(self) -> contextlib.AbstractContextManager[None]:
        """Inside the block, TFF's computations run on this runtime."""

    @abc.abstractmethod
    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """What `process.next` takes of a round's participants.

        Args:
          state: of the process at the round's start.
          data: of the participants.
        """


def data_sets_of(run: PreparedRun) -> DataSets:
    """What makes the participants of a run whose clients train one by one."""
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)
