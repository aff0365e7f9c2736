"""The accuracy of a model on held-out data."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.tasks.classifier import Classifier, Examples

_BATCH = 64


class Evaluator:
    """Computes a model's accuracy on one set of held-out examples."""

    def __init__(self, classifier: Classifier, held_out: Examples) -> None:
        """Builds the TensorFlow graph that counts correct predictions.

        Args:
          classifier: The model.
          held_out: Examples that no client has.
        """
        arrays = (held_out.inputs, held_out.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_BATCH)

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
