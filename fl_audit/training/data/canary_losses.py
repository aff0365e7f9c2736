"""The loss of a model on each canary's examples, as attacks look at it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from fl_audit.tasks.classifier import Classifier, Examples

_BATCH = 256


class CanaryLosses:
    """Computes a model's losses on the examples of all canaries at once."""

    def __init__(self, classifier: Classifier, canaries: Sequence[Examples]) -> None:
        """Builds the TensorFlow graph of the losses.

        Args:
          classifier: The model.
          canaries: The examples of each canary, at least one.
        """
        everything = Examples.concatenate(canaries)
        arrays = (everything.inputs, everything.labels)
        self._batches = tf.data.Dataset.from_tensor_slices(arrays).batch(_BATCH)
        self._owner = np.repeat(np.arange(len(canaries)), [len(canary) for canary in canaries])

        @tf.function(reduce_retracing=True)
        def losses(weights: Sequence[tf.Tensor], inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            logits = classifier.logits(weights, inputs)
            return tf.stack(classifier.attacked_loss_by_example(logits, labels))

        self._losses = losses

    def of(self, weights: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Each canary's loss, the mean over its tokens (or examples), in nats.

        It is minus the log-odds of the labels (`fl_audit.tasks.log_odds`), or the loss of a task of
        one's own without log-odds.

        Args:
          weights: The weights of the model.

        Returns:
          The losses, float64 of shape (canaries,).
        """
        tensors = [tf.constant(array) for array in weights]
        by_batch = [self._losses(tensors, *batch).numpy() for batch in self._batches]
        total, num_tokens = (
            np.bincount(self._owner, weights=row) for row in np.concatenate(by_batch, axis=1)
        )
        return np.asarray(total / num_tokens)
