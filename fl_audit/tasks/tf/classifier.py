"""A model as plain TensorFlow functions of its weights, with softmax cross-entropy loss.

There are no Keras layers: a function of a list of tensors has no variables to initialise, every TFF
compiler accepts it, and its weights are easily flattened to a vector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.tasks.learning_task import Model

Logits = Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor]
"""A function of weights and inputs that returns logits."""


@dataclass(frozen=True)
class Classifier(Model):
    """A classifier with softmax cross-entropy loss."""

    initial_weights: tuple[Float32Array, ...]  # in the order of `logits`
    logits: Logits  # the last axis of the result is the class
    input_spec: tf.TensorSpec  # of a batch; the first dimension is None
    label_spec: tf.TensorSpec  # of the labels of a batch
    padding_label: int
    uncounted_labels: tuple[int, ...]  # further labels that do not count for accuracy
    accuracy_description: str
    logits_in_blocks: Logits | None = None  # for `tf.vectorized_map`, if it differs

    @property
    def has_log_odds(self) -> bool:
        """Whether labels have probabilities, so that attacks can use their log-odds."""
        return True

    @property
    def num_classes(self) -> int:
        """The size of the last axis of the logits; 1 if they have one axis."""
        weights = [tf.constant(weight) for weight in self.initial_weights]
        example = tf.zeros([1, *self.input_spec.shape[1:]], self.input_spec.dtype)
        shape = self.logits(weights, example).shape
        return int(shape[-1]) if shape.rank > 1 else 1

    def loss(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean loss over positions that are not padding, in nats; a scalar."""
        return self._mean(self._losses(logits, labels), labels)

    def loss_in_blocks(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The loss by operations that `tf.vectorized_map` supports."""
        return self._mean(self._losses_in_blocks(logits, labels), labels)

    def attacked_loss_by_example(
        self, logits: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Each example's negated log-odds, summed, in nats, and its token count; float (examples,).

        For a model without log-odds, the loss is summed.
        """
        return self._by_example(self._attacked(logits, labels), labels)

    def label_loss_by_example(
        self, logits: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Each example's -log(p), summed, in nats, and its token count; float64 (examples,).

        It is computed from the log-odds, in float64, so that the smallest losses are accurate. For
        a model without log-odds, the loss is summed.
        """
        losses = tf.cast(self._attacked(logits, labels), tf.float64)
        return self._by_example(tf.nn.softplus(losses) if self.has_log_odds else losses, labels)

    def num_tokens(self, labels: tf.Tensor) -> tf.Tensor:
        """The number of positions that count for the loss, as a float scalar."""
        return tf.reduce_sum(self._is_token(labels))

    def num_counted(self, labels: tf.Tensor) -> tf.Tensor:
        """The number of positions that count for accuracy, as a float scalar."""
        return tf.reduce_sum(self._is_counted(labels))

    def num_correct(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The sum of scores over counted positions, as a float scalar."""
        return tf.reduce_sum(self._scores(logits, labels) * self._is_counted(labels))

    # Values of each position, in the labels' shape; values at padding do not count.

    def _losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return cross_entropy(logits, _as_classes(labels))

    def _losses_in_blocks(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return cross_entropy_in_blocks(logits, _as_classes(labels))

    def _attacked(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Minus the log-odds of labels; for a model without log-odds, the loss."""
        return log_odds_loss(logits, _as_classes(labels))

    def _scores(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """1 where the label has the largest logit, else 0."""
        predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return tf.cast(tf.equal(predicted, labels), tf.float32)

    def _mean(self, losses: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The mean over positions that are not padding; 0 without any."""
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
    """Labels with padding of -1 replaced by class 0; the loss there must not be counted."""
    # The loss of a label outside the classes is NaN on some devices, an error on others.
    return tf.maximum(labels, 0)


# Softmax cross-entropy from one softmax, for many classes on a CPU. TensorFlow runs its softmax
# through oneDNN, but not its own kernel for this loss: on one core the gradient for 320 rows of
# 10,004 classes took 7 ms this way and 21 ms with that kernel. The remaining cost is memory: each
# pass over such a matrix takes a millisecond or two, so there are few passes.

Gradient = Callable[[tf.Tensor], tuple[tf.Tensor, None]]
"""A function from the gradient at the losses to the gradients at logits and labels."""

_LEAST_PROBABILITY = 1e-30
"""The least p for which a loss is computed as -log(p); far above the least float32, 1e-38."""


def cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """TensorFlow's sparse softmax cross-entropy, in nats; not for `tf.vectorized_map`."""
    return _by_rows(_row_losses, logits, labels)


def cross_entropy_in_blocks(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """`cross_entropy` by operations that `tf.vectorized_map` supports; a little slower."""
    return _by_rows(_row_losses_in_blocks, logits, labels)


def _by_rows(
    losses_of: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], logits: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    rows = tf.reshape(logits, [-1, logits.shape[-1]])
    return tf.reshape(losses_of(rows, tf.reshape(labels, [-1])), tf.shape(labels))


@tf.custom_gradient
def _row_losses(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """Losses (rows,) of logits (rows, classes) and labels (rows,)."""
    probabilities = tf.nn.softmax(logits)
    at_labels = _positions(labels)
    of_labels = tf.gather_nd(probabilities, at_labels)
    losses = tf.cond(
        tf.reduce_all(of_labels > _LEAST_PROBABILITY),
        lambda: -tf.math.log(of_labels),
        lambda: _losses_at_any_probability(logits, probabilities, at_labels),
    )

    def gradient(d_losses: tf.Tensor) -> tuple[tf.Tensor, None]:
        # In place, as nothing else uses the product; `tf.tensor_scatter_nd_add` copies on a CPU.
        d_logits = tf.raw_ops.ScatterNdNonAliasingAdd(
            input=probabilities * d_losses[:, None], indices=at_labels, updates=-d_losses
        )
        return d_logits, None

    return losses, gradient


@tf.custom_gradient
def _row_losses_in_blocks(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """`_row_losses` by operations that `tf.vectorized_map` supports."""
    probabilities = tf.nn.softmax(logits)
    at_labels = _positions(labels)

    def gradient(d_losses: tf.Tensor) -> tuple[tf.Tensor, None]:
        d_logits = probabilities * d_losses[:, None]
        d_at_labels = (tf.gather_nd(probabilities, at_labels) - 1.0) * d_losses
        return tf.tensor_scatter_nd_update(d_logits, at_labels, d_at_labels), None

    return _losses_at_any_probability(logits, probabilities, at_labels), gradient


def _positions(labels: tf.Tensor) -> tf.Tensor:
    """The index of each row's label in (rows, classes), int32 of shape (rows, 2)."""
    # As int32: `tf.vectorized_map` cannot scatter by int64.
    return tf.stack([tf.range(tf.size(labels)), labels], axis=1)


def _losses_at_any_probability(
    logits: tf.Tensor, probabilities: tf.Tensor, at_labels: tf.Tensor
) -> tf.Tensor:
    """The losses, also where a label's probability underflows float32."""
    # The largest probability is 1 / sum(exp(logits - largest)): at least 1 / classes, so its
    # logarithm is finite even where the logarithm of the label's own probability is not.
    log_sum = -tf.math.log(tf.reduce_max(probabilities, axis=1))
    # In this order, because float32 rounds large logits, but not their difference.
    return (tf.reduce_max(logits, axis=1) - tf.gather_nd(logits, at_labels)) + log_sum


# The loss for attacks: minus the log-odds of a label. Cross-entropy is -log(p), which float32
# rounds to 0 from p = 1 - 6e-8 on, where most examples of a well trained model lie. Minus the
# log-odds, -log(p / (1 - p)), ranks examples in the same order, without ties, and is about normally
# distributed: Negoescu et al. (2024), footnote 1, for two classes; Carlini et al. (2022), section
# IV-C, for many.


def log_odds_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Minus the log-odds of the labels: the log-sum-exp of all other logits minus the label's.

    In nats, of the labels' shape; 0 if there is only one class. The number of classes is static.
    """
    if logits.shape[-1] == 1:
        return tf.zeros_like(logits[..., 0])
    is_label = tf.one_hot(labels, logits.shape[-1], on_value=True, off_value=False, dtype=tf.bool)
    others = tf.where(is_label, -float("inf"), logits)
    largest = tf.reduce_max(others, axis=-1)
    log_sum = tf.math.log(tf.reduce_sum(tf.exp(others - largest[..., None]), axis=-1))
    # In this order, because float32 rounds large logits, but not their difference.
    return (largest - tf.gather(logits, labels, axis=-1, batch_dims=len(labels.shape))) + log_sum
