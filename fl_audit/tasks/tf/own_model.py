"""A custom model in TensorFlow (`fl_audit.tasks.own_task`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.tasks.learning_task import NO_CLASS, Examples
from fl_audit.tasks.tf.classifier import Classifier, Logits

PerExample = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""A function of a batch's outputs and labels that returns a number per example."""


@dataclass(frozen=True)
class OwnModel(Classifier):
    """A model with a custom loss; padding is `NO_CLASS` for integer labels, NaN for others."""

    example_loss: PerExample = field(kw_only=True)
    example_score: PerExample = field(kw_only=True)
    example_log_odds: PerExample | None = field(kw_only=True)

    @property
    def has_log_odds(self) -> bool:
        return self.example_log_odds is not None

    def _losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._per_example(self.example_loss, logits, labels)

    def _losses_in_blocks(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._losses(logits, labels)  # whose operations `tf.vectorized_map` must support

    def _attacked(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        if self.example_log_odds is None:
            return self._losses(logits, labels)
        return -self._per_example(self.example_log_odds, logits, labels)

    def _scores(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self._per_example(self.example_score, logits, labels)

    def _per_example(self, function: PerExample, outputs: tf.Tensor, labels: tf.Tensor) -> Any:
        # Padding gets label 0, as a custom loss need not accept another; it is not counted.
        known = tf.cast(self._is_token(labels), tf.bool)
        return tf.cast(function(outputs, tf.where(known, labels, 0)), tf.float32)

    def _is_token(self, labels: tf.Tensor) -> tf.Tensor:
        if labels.dtype.is_floating:
            return tf.cast(tf.logical_not(tf.math.is_nan(labels)), tf.float32)
        return super()._is_token(labels)


def own_classifier(
    weights: tuple[Float32Array, ...],
    predict: Logits,
    of_examples: Mapping[str, PerExample | None],
    like: Examples,
    accuracy_description: str,
) -> OwnModel:
    """The model of `loss`, `correct` and perhaps `log_odds`, for examples shaped as `like`."""
    loss, correct = of_examples["loss"], of_examples["correct"]
    assert loss is not None
    assert correct is not None
    return OwnModel(
        weights,
        predict,
        tf.TensorSpec([None, *like.inputs.shape[1:]], like.inputs.dtype),
        tf.TensorSpec([None], like.labels.dtype),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        accuracy_description=accuracy_description,
        example_loss=loss,
        example_score=correct,
        example_log_odds=of_examples["log_odds"],
    )


def check_functions(
    predict: Logits,
    of_examples: Mapping[str, PerExample | None],
    weights: Sequence[Float32Array],
    like: Examples,
    source: str,
) -> None:
    """Calls a user's functions once on `like`; each but None must give a number per example."""
    outputs = predict([tf.constant(weight) for weight in weights], tf.constant(like.inputs))
    for name, function in of_examples.items():
        if function is None:
            continue
        given = tf.convert_to_tensor(function(outputs, tf.constant(like.labels)))
        if given.shape != [len(like)]:
            raise InputError(
                f"{source}: {name} must give one number an example, shape ({len(like)},), got "
                f"{tuple(given.shape)}"
            )
