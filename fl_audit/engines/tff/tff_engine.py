"""The engine on TensorFlow Federated: a learning process, and a runtime that runs it."""

import abc
import collections
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.arrays import unflatten
from fl_audit.attacks.attacker import SeenRound
from fl_audit.checks import Check
from fl_audit.config import Mechanism
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import (
    ClientUpdates,
    CohortReader,
    Engine,
    Leaf,
    TrainedRound,
    Weights,
    as_vector,
)
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.canary_process import model_weights, released_aggregate
from fl_audit.engines.tff.replayed_process import replay_of
from fl_audit.engines.tff.trained_blocks import (
    NotVectorizedError,
    TrainedBlocks,
    clients_per_block_of,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS, ClientGaussian, canary_norm, clip_and_noise
from fl_audit.mechanisms.client_gaussian import noise_keys
from fl_audit.tasks.learning_task import Examples
from fl_audit.tasks.tf.classifier import Classifier
from fl_audit.tasks.tf.networks import as_classifier

# Measures of a model: accuracy and losses.


_EVALUATED_AT_ONCE = 64


def accuracy_on(held_out: Examples, classifier: Classifier) -> Callable[[Weights], float]:
    """A function from weights to the share of counted labels that are predicted, in [0, 1].

    The share is 0 if no label counts.
    """
    arrays = (held_out.inputs, held_out.labels)
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_EVALUATED_AT_ONCE)

    @tf.function
    def count(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = classifier.logits(weights, inputs)
        return tf.stack([classifier.num_correct(logits, labels), classifier.num_counted(labels)])

    def accuracy(weights: Weights) -> float:
        tensors = [tf.constant(array) for array in weights]
        counts = [count(tensors, *batch).numpy() for batch in batches]
        correct, counted = np.sum(counts, axis=0, dtype=np.float64)
        return float(correct / counted) if counted else 0.0

    return accuracy


_LOSSES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class OwnersLosses:
    """Means over each owner's tokens (or examples), in nats, float64 of shape (owners,)."""

    attacked: FloatArray  # minus the labels' log-odds; the loss if a task has no log-odds
    label: FloatArray  # minus the labels' log probabilities; the loss if a task has no log-odds


def mean_losses_on(
    owners: Sequence[Examples], classifier: Classifier
) -> Callable[[Weights], OwnersLosses]:
    """A function from weights to the mean losses on each owner's examples."""
    everything = Examples.concatenate(owners)
    arrays = (everything.inputs, everything.labels)
    batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_LOSSES_AT_ONCE)
    owner = np.repeat(np.arange(len(owners)), [len(examples) for examples in owners])

    @tf.function(reduce_retracing=True)
    def losses(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        logits = classifier.logits(weights, inputs)
        attacked, tokens = classifier.attacked_loss_by_example(logits, labels)
        of_labels, _ = classifier.label_loss_by_example(logits, labels)
        return tf.stack([tf.cast(part, tf.float64) for part in (attacked, of_labels, tokens)])

    def mean_losses(weights: Weights) -> OwnersLosses:
        tensors = [tf.constant(array) for array in weights]
        by_batch = [losses(tensors, *batch).numpy() for batch in batches]
        attacked, of_labels, tokens = (
            np.bincount(owner, weights=row) for row in np.concatenate(by_batch, axis=1)
        )
        return OwnersLosses(np.asarray(attacked / tokens), np.asarray(of_labels / tokens))

    return mean_losses


# The engine.


ClientInputs = DataSets | TrainedBlocks
"""Makes the inputs of a TFF process from a round's participants: data sets, or results."""


def participants_of(
    inputs: ClientInputs, mechanism: Mechanism, state: Any, data: RoundData
) -> Iterator[Any]:
    """A round's participants, with canaries of its norm, and noise keys if clients add noise."""
    norm = canary_norm(mechanism, state.aggregator)
    participants = inputs.inputs(model_weights(state), data, norm)
    if not isinstance(mechanism, ClientGaussian):
        return participants
    keys = noise_keys(state.aggregator, len(data.trained) + len(data.vectors))
    return (
        collections.OrderedDict(participant, noise_key=inputs.noise_key(key))
        for participant, key in zip(participants, keys, strict=True)
    )


@dataclass(frozen=True)
class TffEngine(Engine):
    """A learning process under a mechanism, and a runtime that runs it."""

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism

    first_round = (
        "in the first round TensorFlow first traces its graphs, which takes up to a minute"
    )
    packages = ("tensorflow", "tensorflow-federated", "tensorflow-privacy")

    @abc.abstractmethod
    def participants(self, state: Any, data: Any) -> Iterable[Any]:
        """The participants for `process.next`, from the reader's data."""

    def begin(self) -> Any:
        return self.process.initialize()

    def reader(self, run: PreparedRun) -> CohortReader:
        return run.cohort_data.round_data

    def run_round(self, state: Any, data: Any, index: int) -> TrainedRound:
        noise = clip_and_noise(self.mechanism, state.aggregator)
        with self.seen_uploads(state, data) as uploads:
            output = self.process.next(state, self.participants(state, data))
        seen = SeenRound(
            index=index,
            before=as_vector(model_weights(state)),
            aggregate=as_vector(released_aggregate(output.metrics)),
            after=as_vector(model_weights(output.state)),
            clip_norm=noise.clip_norm,
            uploads=uploads,
        )
        stddev = noise.stddev
        if MECHANISMS.kind_of(self.mechanism).noise_distribution.is_per_upload:
            stddev *= math.sqrt(len(data.clients) + len(data.canaries))
        train_loss = float(output.metrics["client_work"]["train"]["loss"])
        return TrainedRound(output.state, seen, stddev, train_loss)

    def seen_uploads(
        self, state: Any, data: Any
    ) -> contextlib.AbstractContextManager[Mapping[int, Float32Array]]:
        """A context in which a round records canaries' uploads, by canary; by default none."""
        return contextlib.nullcontext({})

    def weights(self, state: Any) -> Weights:
        return model_weights(state)

    def leaves(self, state: Any) -> list[Leaf]:
        """The parts of a state, in TensorFlow's order."""
        return list(tf.nest.flatten(state))

    def from_leaves(self, like: Any, leaves: Sequence[Leaf]) -> Any:
        return tf.nest.pack_sequence_as(like, list(leaves))

    def evaluator(self, run: PreparedRun) -> Callable[[Weights], float]:
        return accuracy_on(run.task.held_out, as_classifier(run.task.classifier))

    def replay(self, run: PreparedRun) -> tuple[Check, ...]:
        """Replays the first round in this process (`fl_audit.engines.tff.replayed_process`)."""

        def begin() -> Any:
            with self.session():
                return self.begin()

        return replay_of(run, self.process, begin)

    def losses(self, run: PreparedRun) -> Callable[[Weights], FloatArray]:
        losses_of = mean_losses_on(run.canary_examples, as_classifier(run.task.classifier))
        return lambda weights: losses_of(weights).attacked

    def client_updates(self, run: PreparedRun) -> ClientUpdates:
        try:
            blocks = TrainedBlocks.from_run(run, clients_per_block_of(run))
        except NotVectorizedError as error:
            raise InputError(
                "audit.threat_models: 'all_iterates' for canaries.kind 'examples' needs a model "
                f"that trains in blocks of clients, so leave it out for this model: {error}"
            ) from error
        initial = run.task.classifier.initial_weights
        return lambda model, clients: blocks.updates(unflatten(model, initial), clients)
