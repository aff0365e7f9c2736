"""What the participants of a round hold: real clients their examples, canaries their vectors."""

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fl_audit.canaries.family import CanaryFamily
from fl_audit.config import Client
from fl_audit.participation import Cohort
from fl_audit.participation.schedule import IndexArray
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Examples, LearningTask


@dataclass(frozen=True)
class RoundData:
    """The participants of one round.

    Attributes:
      clients: of each real client, its examples in the order of training, pass after pass.
      canaries: indices of the canaries in the pool, int64.
    """

    clients: Sequence[Examples]
    canaries: IndexArray


@dataclass(frozen=True)
class CohortData:
    """Reads the data of a round's participants; may be asked from any thread.

    Attributes:
      task: whose clients take part.
      config: batch size and passes of a client.
      seed: of the run.
    """

    task: LearningTask
    config: Client
    seed: int

    def of(self, cohort: Cohort, round_index: int) -> RoundData:
        """The data of a cohort, in the order of this round."""
        clients = [self._examples(int(client), round_index) for client in cohort.clients]
        return RoundData(clients, cohort.canaries)

    def _examples(self, client: int, round_index: int) -> Examples:
        population = self.task.population
        random = generator(self.seed, Stream.LOCAL_ORDER, round_index, client)
        passes = [
            random.permutation(population.num_examples(client))[: self.task.max_examples_per_client]
            for _ in range(self.config.epochs)
        ]
        return population.take(client, np.concatenate(passes))


@dataclass(frozen=True)
class DataSets:
    """Participants as a process of `build_process` takes them: a pair of data sets each.

    Attributes:
      batch_size: examples a step.
      family: of the canaries.
      no_examples: what a canary has of the task's examples.
    """

    batch_size: int
    family: CanaryFamily
    no_examples: Examples

    def of(self, data: RoundData, canary_norm: float) -> Iterator[Any]:
        """Real clients first, then canaries, each made when it is asked for.

        Args:
          data: of the participants.
          canary_norm: length of a canary's update.
        """
        no_vector = np.zeros((0, self.family.dim), np.float32)
        for client in data.clients:
            yield self._participant(no_vector, client)
        for canary in data.canaries:
            vector = self.family.vector(int(canary)) * np.float32(canary_norm)
            yield self._participant(vector[None, :], self.no_examples)

    def _participant(self, vectors: Any, examples: Examples) -> Any:
        batches = _slices((examples.inputs, examples.labels)).batch(self.batch_size)
        return collections.OrderedDict(canary=_slices(vectors), examples=batches)


def _slices(arrays: Any) -> tf.data.Dataset:
    """A small data set; threads and buffers of its own would cost more than they save."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return tf.data.Dataset.from_tensor_slices(arrays).with_options(options)
