"""What each participant of a round hands to the TFF process: its examples, or its vector."""

import collections
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fl_audit.canaries.family import CanaryFamily
from fl_audit.config import Client
from fl_audit.participation import Cohort
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Examples, LearningTask


@dataclass(frozen=True)
class CohortData:
    """Makes the data of a round's participants.

    Attributes:
      task: whose clients take part.
      config: batch size and passes of a client.
      family: of the canaries.
      seed: of the run.
    """

    task: LearningTask
    config: Client
    family: CanaryFamily
    seed: int

    def of(self, cohort: Cohort, round_index: int) -> list[Any]:
        """Client data as `build_process` takes it: real clients first, then canaries."""
        no_canary = tf.data.Dataset.from_tensor_slices(np.zeros((0, self.family.dim), np.float32))
        no_examples = self._batches(self._none())
        clients = [
            _participant(no_canary, self._batches(self._local(int(client), round_index)))
            for client in cohort.clients
        ]
        canaries = [
            _participant(self._vector(int(canary)), no_examples) for canary in cohort.canaries
        ]
        return clients + canaries

    def _local(self, client: int, round_index: int) -> Examples:
        """A client's examples in the order of this round, pass after pass."""
        examples = self.task.population.examples(client)
        random = generator(self.seed, Stream.LOCAL_ORDER, round_index, client)
        passes = [
            random.permutation(len(examples))[: self.task.max_examples_per_client]
            for _ in range(self.config.epochs)
        ]
        return examples.take(np.concatenate(passes))

    def _none(self) -> Examples:
        return self.task.held_out.take(np.zeros(0, np.int64))

    def _batches(self, examples: Examples) -> tf.data.Dataset:
        arrays = (examples.inputs, examples.labels)
        return tf.data.Dataset.from_tensor_slices(arrays).batch(self.config.batch_size)

    def _vector(self, canary: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(self.family.vector(canary)[None, :])


def _participant(canary: tf.data.Dataset, examples: tf.data.Dataset) -> Any:
    return collections.OrderedDict(canary=canary, examples=examples)
