"""A model as plain TensorFlow functions of its weights, and the data that it learns from.

There are no Keras layers: a function of a list of tensors has no variables to initialise, passes
through every TFF compiler, and its weights are a flat vector whenever the audit needs one.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.tasks.cross_entropy import cross_entropy, cross_entropy_in_blocks
from fl_audit.tasks.log_odds import log_odds_loss

Logits = Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor]
"""A function of weights and inputs that gives logits."""

NO_CLASS = -1
"""The label that stands for no class."""


@dataclass(frozen=True)
class Examples:
    """Examples of one client, or held-out ones.

    Attributes:
      inputs: The inputs, whose first axis is the example.
      labels: The labels, one per example or one per token: int32, or float32 where a model of one's
        own predicts numbers.
    """

    inputs: npt.NDArray[np.float32] | npt.NDArray[np.int32]
    labels: npt.NDArray[Any]

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.labels)

    def take(self, index: npt.NDArray[np.int64]) -> "Examples":
        """The examples at these positions, in this order."""
        return Examples(self.inputs[index], self.labels[index])

    @staticmethod
    def concatenate(parts: Sequence["Examples"]) -> "Examples":
        """The examples of all parts, at least one, one part after another."""
        return Examples(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )


@dataclass(frozen=True)
class Classifier:
    """A classifier with softmax cross-entropy loss.

    Attributes:
      initial_weights: The initial weights, float32 arrays in the order that `logits` takes them.
      logits: The function of (weights, inputs) whose result has the class as its last axis.
      input_spec: The specification of a batch of inputs; the first dimension is None.
      label_spec: The specification of a batch of labels.
      padding_label: The label of positions that count neither for the loss nor for accuracy; it is
        no class, or one that is never counted. It is `NO_CLASS` where examples are padded only to
        fill a block of clients.
      uncounted_labels: Further labels that do not count for accuracy.
      accuracy_description: The meaning of accuracy for this model, in words.
      logits_in_blocks: The function `logits` made of operations that `tf.vectorized_map` knows with
        weights that differ along the block; None where `logits` itself is.
    """

    initial_weights: tuple[Float32Array, ...]
    logits: Logits
    input_spec: tf.TensorSpec
    label_spec: tf.TensorSpec
    padding_label: int
    uncounted_labels: tuple[int, ...]
    accuracy_description: str
    logits_in_blocks: Logits | None = None

    @property
    def has_log_odds(self) -> bool:
        """Whether labels have probabilities, so that attacks can look at their log-odds."""
        return True

    @property
    def dim(self) -> int:
        """The number of trainable parameters."""
        return sum(self.variable_sizes)

    @property
    def variable_sizes(self) -> list[int]:
        """The number of parameters in each of the weights."""
        return [weight.size for weight in self.initial_weights]

    @property
    def num_classes(self) -> int:
        """The number of classes, including a padding label that is one of them."""
        weights = [tf.constant(weight) for weight in self.initial_weights]
        example = tf.zeros([1, *self.input_spec.shape[1:]], self.input_spec.dtype)
        return int(self.logits(weights, example).shape[-1])

    def loss(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean cross-entropy over positions that are not padding, in nats; a scalar."""
        return self._mean(cross_entropy(logits, _as_classes(labels)), labels)

    def loss_in_blocks(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The loss made of operations that `tf.vectorized_map` knows."""
        return self._mean(cross_entropy_in_blocks(logits, _as_classes(labels)), labels)

    def attacked_loss_by_example(
        self, logits: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of minus the labels' log-odds over each example's positions but padding, in nats.

        Returns:
          The sums, and the number of positions in each; both float of shape (examples,).
        """
        return self._by_example(log_odds_loss(logits, _as_classes(labels)), labels)

    def label_loss_by_example(
        self, logits: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The sum of minus the logs of the labels' probabilities, as `attacked_loss_by_example`.

        It is computed from the log-odds, in float64, so that the smallest keep their digits.
        """
        losses = tf.cast(log_odds_loss(logits, _as_classes(labels)), tf.float64)
        return self._by_example(tf.nn.softplus(losses), labels)

    def num_tokens(self, labels: tf.Tensor) -> tf.Tensor:
        """The number of positions that count for the loss, as a float scalar."""
        return tf.reduce_sum(self._is_token(labels))

    def num_counted(self, labels: tf.Tensor) -> tf.Tensor:
        """The number of positions that count for accuracy, as a float scalar."""
        return tf.reduce_sum(self._is_counted(labels))

    def num_correct(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The number of counted positions whose label has the largest logit, as a float scalar."""
        predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return tf.reduce_sum(
            tf.cast(tf.equal(predicted, labels), tf.float32) * self._is_counted(labels)
        )

    def _mean(self, losses: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean over the positions that are not padding; 0 without any."""
        weights = self._is_token(labels)
        return tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))

    def _by_example(self, losses: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        weights = tf.cast(self._is_token(labels), losses.dtype)
        within = list(range(1, len(labels.shape)))
        return tf.reduce_sum(losses * weights, within), tf.reduce_sum(weights, within)

    def _is_token(self, labels: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.not_equal(labels, self.padding_label), tf.float32)

    def _is_counted(self, labels: tf.Tensor) -> tf.Tensor:
        counted = self._is_token(labels)
        for label in self.uncounted_labels:
            counted *= tf.cast(tf.not_equal(labels, label), tf.float32)
        return counted


def _as_classes(labels: tf.Tensor) -> tf.Tensor:
    """Labels that are all classes; padding becomes one whose loss must not count."""
    # Outside the classes the loss of a label would be NaN, or an error, by device.
    return tf.maximum(labels, 0)


class Population(abc.ABC):
    """The real clients and their data; a client may be read from any thread."""

    client_ids: Sequence[str]
    """The names of the clients, in a fixed order."""

    @abc.abstractmethod
    def num_examples(self, client: int) -> int:
        """The number of examples of one client, at least one."""

    @abc.abstractmethod
    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's examples at these positions, in this order, made when asked for."""

    def examples(self, client: int) -> Examples:
        """All the data of one client."""
        return self.take(client, np.arange(self.num_examples(client)))


@dataclass(frozen=True)
class InMemoryPopulation(Population):
    """Clients whose data is held as arrays in memory.

    Attributes:
      client_ids: The names of the clients.
      data: The examples of each client, in the same order.
    """

    client_ids: Sequence[str]
    data: Sequence[Examples]

    def num_examples(self, client: int) -> int:
        """The number of examples of one client."""
        return len(self.data[client])

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's examples at these positions, in this order."""
        return self.data[client].take(index)


class PartOfPopulation(Population):
    """Some of another population's clients, in its order."""

    def __init__(self, whole: Population, members: npt.NDArray[np.int64]) -> None:
        """Chooses the clients, without reading an example.

        Args:
          whole: The other population.
          members: The ascending indices of the chosen clients in it.
        """
        self._whole = whole
        self._members = members
        self.client_ids = [whole.client_ids[member] for member in members]

    def num_examples(self, client: int) -> int:
        """The number of examples of one client."""
        return self._whole.num_examples(int(self._members[client]))

    def take(self, client: int, index: npt.NDArray[np.int64]) -> Examples:
        """One client's examples at these positions, in this order."""
        return self._whole.take(int(self._members[client]), index)


ExamplesOfSentences = Callable[[Sequence[Sequence[str]]], Examples]
"""A function from sentences, each a list of words, to examples of a task."""


@dataclass(frozen=True)
class LearningTask:
    """A model with its clients and its held-out data.

    Attributes:
      name: The name of the task, for people.
      classifier: The model.
      population: The real clients.
      held_out: Examples that no client has.
      max_examples_per_client: The number of one client's examples that are used in one round, drawn
        anew each time; None for all of them.
      examples_of_sentences: A function that makes examples of a user's own text; None where data is
        no text.
    """

    name: str
    classifier: Classifier
    population: Population
    held_out: Examples
    max_examples_per_client: int | None = None
    examples_of_sentences: ExamplesOfSentences | None = None
