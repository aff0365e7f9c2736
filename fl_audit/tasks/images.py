"""Models of images: the CNN of Reddi et al. 2020 (appendix C), and Wide ResNets.

The Wide ResNets (Zagoruyko & Komodakis 2016) follow De et al. (2022, arXiv:2204.13650); Steinke et
al. (2023) also use them. They normalise 16 groups of channels and standardise filters; batch
normalisation would mix examples, so that there would be no per-example gradients.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.dense import check_model_size, glorot_uniform, he_normal, zeros
from fl_audit.tasks.learning_task import Network, NetworkModel


@dataclass(frozen=True)
class Cnn(Network):
    """Two 3 x 3 convolutions, max-pooling and two dense layers.

    ReLU follows both convolutions and the first dense layer. Without the dropout of Reddi et al., a
    client's update depends only on the client's data and the data's order.
    """


def cnn_classifier(
    shape: tuple[int, int, int], num_classes: int, seed: int, accuracy_description: str
) -> NetworkModel:
    """The CNN with weights drawn from the seed; 1,206,590 parameters for EMNIST."""
    return NetworkModel(
        network=Cnn(),
        initial_weights=_cnn_weights(shape, num_classes, seed),
        input_shape=shape,
        accuracy_description=accuracy_description,
    )


def _cnn_weights(
    shape: tuple[int, int, int], num_classes: int, seed: int
) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    height, width, channels = shape
    flat = ((height - 4) // 2) * ((width - 4) // 2) * 64  # 9,216 for 28 x 28 pixels
    check_model_size(
        [(9 * channels + 1, 32), (9 * 32 + 1, 64), (flat + 1, 128), (128 + 1, num_classes)]
    )
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

_Variable = tuple[str, tuple[int, ...]]
"""A variable's kind (filters, matrix, scale or offset) and its shape."""

_STEM_WIDTH = 16


@dataclass(frozen=True)
class ResidualBlock:
    """A residual block of two convolutions; widths are numbers of channels."""

    width_before: int
    width: int
    stride: int  # of the first convolution

    @property
    def is_projected(self) -> bool:
        """Whether the shortcut is a 1 x 1 convolution."""
        return self.width_before != self.width or self.stride != 1


@dataclass(frozen=True)
class WideResnet(Network):
    """A convolution, residual blocks, the mean over the image and a dense layer.

    Normalisation and ReLU come before each convolution of a block, before a projected shortcut, and
    before the mean.
    """

    blocks: tuple[ResidualBlock, ...]


def wide_resnet_classifier(
    shape: tuple[int, int, int],
    num_classes: int,
    seed: int,
    accuracy_description: str,
    *,
    depth: int = 16,
    widening: int = 4,
) -> NetworkModel:
    """WRN-`depth`-`widening`; depth is 4 + 6 n. WRN-16-4 has 2,748,890 parameters for CIFAR-10."""
    blocks = _blocks(depth, widening)
    plan = list(_plan(shape[2], blocks, num_classes))
    check_model_size(of_variable for _, of_variable in plan)
    return NetworkModel(
        network=WideResnet(tuple(blocks)),
        initial_weights=_resnet_weights(plan, seed),
        input_shape=shape,
        accuracy_description=accuracy_description,
    )


def _blocks(depth: int, widening: int) -> list[ResidualBlock]:
    blocks, before = [], _STEM_WIDTH
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range((depth - 4) // 6):
            blocks.append(ResidualBlock(before, width * widening, 1 if number else stride))
            before = width * widening
    return blocks


def _plan(channels: int, blocks: Sequence[ResidualBlock], num_classes: int) -> Iterator[_Variable]:
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

    def initial(kind: str, shape: tuple[int, ...]) -> Float32Array:
        if kind == "filters":
            return he_normal(random, math.prod(shape[:3]), shape[3]).reshape(shape)
        if kind == "matrix":
            return glorot_uniform(random, shape, *shape)
        return np.full(shape, float(kind == "scale"), np.float32)

    return tuple(initial(kind, shape) for kind, shape in plan)


# The models by their names in a config.

_SMALLEST_SIDE = 6
"""The smallest side of an image, in pixels, for the CNN's two convolutions and pooling."""

_MAKERS: Mapping[str, Callable[[tuple[int, int, int], int, int, str], NetworkModel]] = {
    "cnn": cnn_classifier,
    "wrn_16_4": wide_resnet_classifier,
}


def image_classifier(
    model: str, shape: tuple[int, ...], num_classes: int, seed: int, accuracy_description: str
) -> NetworkModel:
    """A model of images, by its name in a config, with weights drawn from the seed."""
    if len(shape) != 3 or min(shape[:2]) < _SMALLEST_SIDE:
        raise InputError(
            f"task.model: {model!r} takes images of height x width (x channels), at least "
            f"{_SMALLEST_SIDE} x {_SMALLEST_SIDE}; inputs have shape {shape}"
        )
    height, width, channels = shape
    return _MAKERS[model]((height, width, channels), num_classes, seed, accuracy_description)
