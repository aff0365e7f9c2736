"""The interface of a runtime, which runs rounds with the participants that it makes."""

import abc
import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow_federated as tff

from fl_audit.training.data.cohort_data import DataSets, RoundData
from fl_audit.training.run.prepare import PreparedRun


class Runtime(abc.ABC):
    """A learning process and the means to run it.

    Attributes:
      description: A line for people: which runtime, how, and why it was chosen.
      process: The learning process.
      rounds_per_session: The largest number of rounds in a session; None for any number.
    """

    description: str
    process: tff.templates.IterativeProcess
    rounds_per_session: int | None = None

    @abc.abstractmethod
    def session(self) -> contextlib.AbstractContextManager[None]:
        """A block inside which TFF's computations run on this runtime."""

    @abc.abstractmethod
    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants of a round in the form that `process.next` takes.

        Args:
          state: The state of the process at the round's start.
          data: The data of the participants.
        """


def data_sets_of(run: PreparedRun) -> DataSets:
    """The maker of the participants of a run whose clients train one by one."""
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)
