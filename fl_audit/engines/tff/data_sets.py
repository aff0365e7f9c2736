"""The participants of a round as a TFF process takes them: data sets."""

import collections
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fl_audit.array_types import IndexArray
from fl_audit.canaries.families import CanaryFamily
from fl_audit.engines.cohort import RoundData
from fl_audit.mechanisms import ClientGaussian, Mechanism
from fl_audit.mechanisms.client_gaussian import noise_keys
from fl_audit.tasks.learning_task import Examples


@dataclass(frozen=True)
class DataSets:
    """Participants as a process of `build_process` takes them, each a pair of data sets."""

    batch_size: int
    family: CanaryFamily
    no_examples: Examples  # empty, in the task's shapes, for canaries that are vectors

    def client_data(self, data: RoundData, canary_norm: float) -> Iterator[Any]:
        """The data sets of real clients, then of canaries, created as they are consumed."""
        # Participants without examples, or without a vector, share one empty data set.
        no_vector = small_data_set(np.zeros((0, self.family.dim), np.float32))
        no_batches = batches_of(self.no_examples, self.batch_size)
        for examples in data.trained:
            yield _participant(no_vector, batches_of(examples, self.batch_size))
        for canary in data.vectors:
            vector = self.family.vector(int(canary)) * np.float32(canary_norm)
            yield _participant(small_data_set(vector[None, :]), no_batches)


def batches_of(examples: Examples, batch_size: int) -> tf.data.Dataset:
    """A client's batches, in order; the last one may be smaller."""
    return small_data_set((examples.inputs, examples.labels)).batch(batch_size)


def _participant(canary: tf.data.Dataset, examples: tf.data.Dataset) -> Any:
    return collections.OrderedDict(canary=canary, examples=examples)


def small_data_set(arrays: Any) -> tf.data.Dataset:
    """A data set of slices of arrays, without threads and rewriting, which cost small ones 3 %."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.apply_default_optimizations = False
    options.threading.max_intra_op_parallelism = 1
    return tf.data.Dataset.from_tensor_slices(arrays).with_options(options)


def with_noise_keys(
    participants: Iterable[Any],
    mechanism: Mechanism,
    state: Any,
    data: RoundData,
    as_data: Callable[[IndexArray], Any],
) -> Iterator[Any]:
    """Participants with keys of noise, if clients add it; `as_data` converts an int64 pair."""
    if not isinstance(mechanism, ClientGaussian):
        yield from participants
        return
    keys = noise_keys(state.aggregator, len(data.trained) + len(data.vectors))
    for participant, key in zip(participants, keys, strict=True):
        yield collections.OrderedDict(participant, noise_key=as_data(key))


def key_data_set(key: IndexArray) -> tf.data.Dataset:
    """The key of a client's noise as a process of `build_process` takes it."""
    return small_data_set(key[None, :])
