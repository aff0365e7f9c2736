"""The accuracy of a model on held-out data, and its mean loss on the examples of each owner."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.array_types import FloatArray
from fl_audit.tasks.classifier import Classifier
from fl_audit.tasks.learning_task import Examples

_EVALUATED_AT_ONCE = 64


class Evaluator:
    """Computes a model's accuracy on one set of held-out examples."""

    def __init__(self, classifier: Classifier, held_out: Examples) -> None:
        """Builds the TensorFlow graph that counts correct predictions.

        Args:
          classifier: The model.
          held_out: Examples that no client has.
        """
        arrays = (held_out.inputs, held_out.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_EVALUATED_AT_ONCE)

        @tf.function
        def count(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            logits = classifier.logits(weights, inputs)
            return tf.stack(
                [classifier.num_correct(logits, labels), classifier.num_counted(labels)]
            )

        self._count = count

    def accuracy(self, weights: Sequence[npt.NDArray[np.float32]]) -> float:
        """The share of counted labels that are predicted, in [0, 1]; 0 where no label counts."""
        tensors = [tf.constant(array) for array in weights]
        correct, counted = np.sum(
            [self._count(tensors, *batch).numpy() for batch in self._batches],
            axis=0,
            dtype=np.float64,
        )
        return float(correct / counted) if counted else 0.0


_LOSSES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class OwnersLosses:
    """Means over each owner's tokens (or examples), in nats, float64 of shape (owners,).

    Attributes:
      attacked: The losses that attacks look at: minus the log-odds of the labels
        (`fl_audit.tasks.classifier`), or the loss of a task of one's own without log-odds.
      label: Minus the logs of the labels' probabilities, or again the loss of such a task.
    """

    attacked: FloatArray
    label: FloatArray


class MeanLosses:
    """Computes a model's mean losses on the examples of all owners at once."""

    def __init__(self, classifier: Classifier, owners: Sequence[Examples]) -> None:
        """Builds the TensorFlow graph of the losses.

        Args:
          classifier: The model.
          owners: The examples of each owner, at least one.
        """
        everything = Examples.concatenate(owners)
        arrays = (everything.inputs, everything.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_LOSSES_AT_ONCE)
        self._owner = np.repeat(np.arange(len(owners)), [len(examples) for examples in owners])

        @tf.function(reduce_retracing=True)
        def losses(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            logits = classifier.logits(weights, inputs)
            attacked, tokens = classifier.attacked_loss_by_example(logits, labels)
            of_labels, _ = classifier.label_loss_by_example(logits, labels)
            return tf.stack([tf.cast(part, tf.float64) for part in (attacked, of_labels, tokens)])

        self._losses = losses

    def of(self, weights: Sequence[npt.NDArray[np.float32]]) -> OwnersLosses:
        """The losses of a model.

        Args:
          weights: The weights of the model.
        """
        tensors = [tf.constant(array) for array in weights]
        by_batch = [self._losses(tensors, *batch).numpy() for batch in self._batches]
        attacked, of_labels, tokens = (
            np.bincount(self._owner, weights=row) for row in np.concatenate(by_batch, axis=1)
        )
        return OwnersLosses(np.asarray(attacked / tokens), np.asarray(of_labels / tokens))
