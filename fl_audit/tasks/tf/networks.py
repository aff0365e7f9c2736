"""Tasks' networks as TensorFlow functions."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.tasks.dense import Dense
from fl_audit.tasks.images import Cnn, WideResnet
from fl_audit.tasks.learning_task import Model, Network, NetworkModel
from fl_audit.tasks.next_word import NextWord
from fl_audit.tasks.tf.classifier import Classifier, Logits
from fl_audit.tasks.tf.image_networks import (
    cnn_logits,
    convolve_by_product,
    convolve_same,
    convolve_same_by_product,
    wide_resnet_logits,
)
from fl_audit.tasks.tf.lstm import next_word_logits


def as_classifier(model: Model) -> Classifier:
    """A task's model with functions in TensorFlow; raises an `InputError` if it has none."""
    if isinstance(model, Classifier):
        return model
    if not isinstance(model, NetworkModel):
        raise InputError(
            "task: the model has no functions in TensorFlow, which the runtimes of TensorFlow "
            "Federated need; must be trained by another runtime"
        )
    logits, in_blocks = _functions(model.network)
    return Classifier(
        initial_weights=model.initial_weights,
        logits=logits,
        logits_in_blocks=in_blocks,
        input_spec=tf.TensorSpec([None, *model.input_shape], tf.as_dtype(model.input_dtype)),
        label_spec=tf.TensorSpec([None, *model.label_shape], tf.int32),
        padding_label=model.padding_label,
        uncounted_labels=model.uncounted_labels,
        accuracy_description=model.accuracy_description,
    )


def _functions(network: Network) -> tuple[Logits, Logits | None]:
    """The function of logits, and its version for blocks of clients if that differs."""
    match network:
        case Dense():
            return dense_logits, None
        case NextWord():
            return next_word_logits, None
        case Cnn():
            return cnn_logits, functools.partial(cnn_logits, convolution=convolve_by_product)
        case WideResnet(blocks):
            logits = functools.partial(wide_resnet_logits, blocks)
            return (
                functools.partial(logits, convolve_same),
                functools.partial(logits, convolve_same_by_product),
            )
    raise InputError(f"task: {type(network).__name__} is no network that TensorFlow trains here")


def dense_logits(weights: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """The logits of `fl_audit.tasks.dense.Dense`."""
    hidden = inputs
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = tf.nn.relu(hidden @ matrix + bias)
    return hidden @ weights[-2] + weights[-1]
