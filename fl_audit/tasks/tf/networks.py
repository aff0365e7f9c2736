"""Tasks' networks as TensorFlow functions."""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from fl_audit.errors import InputError
from fl_audit.tasks.dense import Dense
from fl_audit.tasks.images import Cnn, ResidualBlock, WideResnet
from fl_audit.tasks.learning_task import Model, Network, NetworkModel
from fl_audit.tasks.next_word import NextWord
from fl_audit.tasks.tf.classifier import Classifier, Logits
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


# Images.


Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def convolve(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """A convolution without padding of (batch, height, width, channels), by TensorFlow."""
    return tf.nn.conv2d(images, filters, 1, "VALID")


def convolve_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int = 1) -> tf.Tensor:
    """A convolution as one product, for filters by client; 3.5 times `convolve`'s time."""
    rows, columns, _, width = filters.shape
    last_row, last_column = images.shape[1] - rows, images.shape[2] - columns
    patches = [
        images[:, row : row + last_row + 1 : stride, column : column + last_column + 1 : stride]
        for row in range(rows)
        for column in range(columns)
    ]
    return tf.tensordot(tf.concat(patches, -1), tf.reshape(filters, [-1, width]), 1)


def cnn_logits(
    weights: Sequence[tf.Tensor], images: tf.Tensor, convolution: Convolution = convolve
) -> tf.Tensor:
    """The logits of `fl_audit.tasks.images.Cnn`."""
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = tf.nn.relu(convolution(images, first) + first_bias)
    hidden = tf.nn.relu(convolution(hidden, second) + second_bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.reshape(hidden, [-1, wide.shape[0]])
    return tf.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


# Wide ResNets.


StridedConvolution = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]
"""A function of images, filters and a stride, which divides height and width."""

_GROUPS = 16
_EPSILON = 1e-5


def wide_resnet_logits(
    blocks: Sequence[ResidualBlock],
    convolution: StridedConvolution,
    weights: Sequence[tf.Tensor],
    images: tf.Tensor,
) -> tf.Tensor:
    """The logits of `fl_audit.tasks.images.WideResnet`, weights in the order of use."""
    left = iter(weights)

    def convolved(inputs: tf.Tensor, stride: int = 1) -> tf.Tensor:
        return convolution(inputs, _standardised(next(left)), stride)

    def activated(inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(_group_normalised(inputs, next(left), next(left)))

    hidden = convolved(images)
    for block in blocks:
        before = activated(hidden)
        shortcut = convolved(before, block.stride) if block.is_projected else hidden
        first = convolved(before, block.stride)
        hidden = shortcut + convolved(activated(first))
    pooled = tf.reduce_mean(activated(hidden), axis=[1, 2])
    return pooled @ next(left) + next(left)


def convolve_same(images: tf.Tensor, filters: tf.Tensor, stride: int) -> tf.Tensor:
    """A convolution with zeros around the images, by TensorFlow."""
    return tf.nn.conv2d(images, filters, stride, "SAME")


def convolve_same_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int) -> tf.Tensor:
    """`convolve_same` as one matrix product, whose filters may differ between clients."""
    around = [_padding(images.shape[axis], filters.shape[axis - 1], stride) for axis in (1, 2)]
    padded = tf.pad(images, [(0, 0), *around, (0, 0)])
    return convolve_by_product(padded, filters, stride)


def _padding(length: int, extent: int, stride: int) -> tuple[int, int]:
    """The zeros before and after an axis in TensorFlow's "SAME"."""
    total = max((-(-length // stride) - 1) * stride + extent - length, 0)
    return total // 2, total - total // 2


def _standardised(filters: tf.Tensor) -> tf.Tensor:
    """Filters with mean 0 and total variance 1 (Qiao et al. 2019)."""
    mean, variance = tf.nn.moments(filters, [0, 1, 2], keepdims=True)
    fan_in = filters.shape[0] * filters.shape[1] * filters.shape[2]
    return (filters - mean) * tf.math.rsqrt(variance * fan_in + _EPSILON)


def _group_normalised(images: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Group normalisation (Wu & He 2018), each example by itself."""
    height, width, channels = images.shape[1:]
    grouped = tf.reshape(images, [-1, height, width, _GROUPS, channels // _GROUPS])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    normalised = (grouped - mean) * tf.math.rsqrt(variance + _EPSILON)
    return tf.reshape(normalised, [-1, height, width, channels]) * scale + offset
