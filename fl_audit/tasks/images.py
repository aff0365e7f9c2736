"""Models of images: the CNN of Reddi et al. 2020 (appendix C), and Wide ResNets.

The Wide ResNets (Zagoruyko & Komodakis 2016) are those of De et al. (2022, arXiv:2204.13650), which
Steinke et al. (2023) train: group normalisation of 16 groups and standardised filters in place of
batch statistics, which would mix examples, so that each example has a gradient of its own.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier
from fl_audit.tasks.dense import check_model_size, glorot_uniform, he_normal, zeros
from fl_audit.tasks.learning_task import NO_CLASS

Convolution = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def convolve(images: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
    """A convolution without padding of (batch, height, width, channels), by TensorFlow."""
    return tf.nn.conv2d(images, filters, 1, "VALID")


def convolve_by_product(images: tf.Tensor, filters: tf.Tensor, stride: int = 1) -> tf.Tensor:
    """The convolution as one product of matrices, which may have other filters for each client.

    On two cores it takes 3.5 times as long as `convolve` (a step on 20 images).

    Args:
      images: The images, of shape (batch, height, width, channels).
      filters: The filters, of shape (rows, columns, channels, width).
      stride: The distance from one place of a filter to the next.
    """
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
    """The logits of two 3 x 3 convolutions, max-pooling and two dense layers.

    Reddi et al. add dropout. It is left out here, so that a client's update is a function of
    its data and its order alone.
    """
    first, first_bias, second, second_bias, wide, wide_bias, output, output_bias = weights
    hidden = tf.nn.relu(convolution(images, first) + first_bias)
    hidden = tf.nn.relu(convolution(hidden, second) + second_bias)
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.reshape(hidden, [-1, wide.shape[0]])
    return tf.nn.relu(hidden @ wide + wide_bias) @ output + output_bias


def cnn_classifier(
    shape: tuple[int, int, int], num_classes: int, seed: int, accuracy_description: str
) -> Classifier:
    """The CNN with weights drawn by the seed; 1,206,590 parameters for EMNIST.

    Args:
      shape: The height, the width and the channels of an image.
      num_classes: The number of classes.
      seed: The seed of the run.
      accuracy_description: The meaning of accuracy, in words.
    """
    return Classifier(
        initial_weights=_cnn_weights(shape, num_classes, seed),
        logits=cnn_logits,
        input_spec=tf.TensorSpec([None, *shape], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        logits_in_blocks=functools.partial(cnn_logits, convolution=convolve_by_product),
        accuracy_description=accuracy_description,
    )


def _cnn_weights(
    shape: tuple[int, int, int], num_classes: int, seed: int
) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    height, width, channels = shape
    flat = ((height - 4) // 2) * ((width - 4) // 2) * 64  # of 28 x 28 pixels 9,216 are left
    return (
        glorot_uniform(random, (3, 3, channels, 32), 9 * channels, 9 * 32),
        zeros(32),
        glorot_uniform(random, (3, 3, 32, 64), 9 * 32, 9 * 64),
        zeros(64),
        glorot_uniform(random, (flat, 128), flat, 128),
        zeros(128),
        glorot_uniform(random, (128, num_classes), 128, num_classes),
        zeros(num_classes),
    )


# Wide ResNets without batch normalisation, for private training.


StridedConvolution = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]
"""A function of images, filters and a stride; the result has rows and columns over the stride."""

_Variable = tuple[str, tuple[int, ...]]
"""What a variable is: filters, matrix, scale or offset; and its shape."""

_GROUPS = 16
_EPSILON = 1e-5
_STEM_WIDTH = 16


@dataclass(frozen=True)
class _Block:
    """A residual block of two convolutions, of which the first has the stride."""

    width_before: int
    width: int
    stride: int

    @property
    def is_projected(self) -> bool:
        return self.width_before != self.width or self.stride != 1


def wide_resnet_classifier(
    shape: tuple[int, int, int],
    num_classes: int,
    seed: int,
    accuracy_description: str,
    *,
    depth: int = 16,
    widening: int = 4,
) -> Classifier:
    """The network with weights drawn by the seed; WRN-16-4 has 2,748,890 parameters for CIFAR-10.

    Args:
      shape: The height, the width and the channels of an image.
      num_classes: The number of classes.
      seed: The seed of the run.
      accuracy_description: The meaning of accuracy, in words.
      depth: The number of layers, 4 more than a multiple of 6.
      widening: The factor of the widths 16, 32 and 64.

    Raises:
      InputError: The model is too large for the memory.
    """
    blocks = _blocks(depth, widening)
    plan = list(_plan(shape[2], blocks, num_classes))
    check_model_size(of_variable for _, of_variable in plan)
    logits = functools.partial(wide_resnet_logits, blocks)
    return Classifier(
        initial_weights=_resnet_weights(plan, seed),
        logits=functools.partial(logits, convolve_same),
        input_spec=tf.TensorSpec([None, *shape], tf.float32),
        label_spec=tf.TensorSpec([None], tf.int32),
        padding_label=NO_CLASS,
        uncounted_labels=(),
        logits_in_blocks=functools.partial(logits, convolve_same_by_product),
        accuracy_description=accuracy_description,
    )


def wide_resnet_logits(
    blocks: Sequence[_Block],
    convolution: StridedConvolution,
    weights: Sequence[tf.Tensor],
    images: tf.Tensor,
) -> tf.Tensor:
    """The logits: a convolution, residual blocks, the mean over the image and a dense layer.

    Normalisation and ReLU come before each convolution of a block, and before a projection of what
    the block is added to.

    Args:
      blocks: The residual blocks.
      convolution: How images are convolved.
      weights: The weights, in the order of use.
      images: The images, float of shape (batch, height, width, channels).
    """
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
    """The same as one product of matrices, which may have other filters for each client."""
    around = [_padding(images.shape[axis], filters.shape[axis - 1], stride) for axis in (1, 2)]
    padded = tf.pad(images, [(0, 0), *around, (0, 0)])
    return convolve_by_product(padded, filters, stride)


def _padding(length: int, extent: int, stride: int) -> tuple[int, int]:
    """The zeros before and after an axis, as TensorFlow's "SAME" has them."""
    total = max((-(-length // stride) - 1) * stride + extent - length, 0)
    return total // 2, total - total // 2


def _standardised(filters: tf.Tensor) -> tf.Tensor:
    """Filters whose entries have mean 0 and add up to variance 1 (Qiao et al. 2019)."""
    mean, variance = tf.nn.moments(filters, [0, 1, 2], keepdims=True)
    fan_in = filters.shape[0] * filters.shape[1] * filters.shape[2]
    return (filters - mean) * tf.math.rsqrt(variance * fan_in + _EPSILON)


def _group_normalised(images: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
    """Group normalisation (Wu & He 2018), of one example at a time."""
    height, width, channels = images.shape[1:]
    grouped = tf.reshape(images, [-1, height, width, _GROUPS, channels // _GROUPS])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    normalised = (grouped - mean) * tf.math.rsqrt(variance + _EPSILON)
    return tf.reshape(normalised, [-1, height, width, channels]) * scale + offset


def _blocks(depth: int, widening: int) -> list[_Block]:
    blocks, before = [], _STEM_WIDTH
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range((depth - 4) // 6):
            blocks.append(_Block(before, width * widening, 1 if number else stride))
            before = width * widening
    return blocks


def _plan(channels: int, blocks: Sequence[_Block], num_classes: int) -> Iterator[_Variable]:
    """The variables in the order of use."""
    yield "filters", (3, 3, channels, _STEM_WIDTH)
    for block in blocks:
        yield from _normalisation(block.width_before)
        if block.is_projected:
            yield "filters", (1, 1, block.width_before, block.width)
        yield "filters", (3, 3, block.width_before, block.width)
        yield from _normalisation(block.width)
        yield "filters", (3, 3, block.width, block.width)
    yield from _normalisation(blocks[-1].width)
    yield "matrix", (blocks[-1].width, num_classes)
    yield "offset", (num_classes,)


def _normalisation(width: int) -> tuple[_Variable, _Variable]:
    return ("scale", (width,)), ("offset", (width,))


def _resnet_weights(plan: Sequence[_Variable], seed: int) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)

    def drawn(kind: str, shape: tuple[int, ...]) -> Float32Array:
        if kind == "filters":
            return he_normal(random, math.prod(shape[:3]), shape[3]).reshape(shape)
        if kind == "matrix":
            return glorot_uniform(random, shape, *shape)
        return np.full(shape, float(kind == "scale"), np.float32)

    return tuple(drawn(kind, shape) for kind, shape in plan)


# The models by the names that a config gives them.


_SMALLEST_SIDE = 6
"""The side of the smallest image that two convolutions without padding and pooling leave any of."""

_MAKERS: Mapping[str, Callable[[tuple[int, int, int], int, int, str], Classifier]] = {
    "cnn": cnn_classifier,
    "wrn_16_4": wide_resnet_classifier,
}


def image_classifier(
    model: str,
    shape: tuple[int, ...],
    num_classes: int,
    seed: int,
    accuracy_description: str,
) -> Classifier:
    """A model of images with weights drawn by the seed.

    Args:
      model: The name of the model.
      shape: The shape of an image: height, width and channels.
      num_classes: The number of classes.
      seed: The seed of the run.
      accuracy_description: The meaning of accuracy, in words.

    Raises:
      InputError: The inputs are no images, or the model is too large for the memory.
    """
    if len(shape) != 3 or min(shape[:2]) < _SMALLEST_SIDE:
        raise InputError(
            f"task.model: {model!r} takes images of height x width (x channels), at least "
            f"{_SMALLEST_SIDE} x {_SMALLEST_SIDE}; inputs have shape {shape}"
        )
    height, width, channels = shape
    return _MAKERS[model]((height, width, channels), num_classes, seed, accuracy_description)
