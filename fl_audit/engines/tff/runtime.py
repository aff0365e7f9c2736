"""The interface of a runtime, which runs rounds with the participants that it makes."""

import abc
import contextlib
from collections.abc import Callable, Iterable, Sized
from typing import Any, Protocol

import numpy as np
import tensorflow_federated as tff

from fl_audit.array_types import IndexArray
from fl_audit.engines.cohort import CohortData, DataSets
from fl_audit.engines.prepare import PreparedRun
from fl_audit.participation import Cohort


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

    def reader(self, run: PreparedRun) -> "CohortReader":
        """The reader of the data of a round's participants, which the loop asks ahead of time."""
        return cohort_data_of(run).of

    @abc.abstractmethod
    def participants(self, state: Any, data: Any) -> Iterable[Any]:
        """The participants of a round in the form that `process.next` takes.

        Args:
          state: The state of the process at the round's start.
          data: What the reader gave for the round.
        """


class ReadRound(Protocol):
    """What a reader gives for a round: at least who takes part."""

    @property
    def clients(self) -> Sized:
        """The real clients."""

    @property
    def canaries(self) -> IndexArray:
        """The indices of the canaries in the pool."""


CohortReader = Callable[[Cohort, int], ReadRound]
"""A function from a cohort and the index of its round, from 0, to what the round needs of it."""


def cohort_data_of(run: PreparedRun) -> CohortData:
    """The reader of all participants' data in this process."""
    return CohortData(run.task, run.config.client, run.config.seed, run.canary_examples)


def data_sets_of(run: PreparedRun) -> DataSets:
    """The maker of the participants of a run whose clients train one by one."""
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)
