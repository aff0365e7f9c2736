"""The models of images by the names that a config gives them."""

from collections.abc import Callable, Mapping

from fl_audit.errors import InputError
from fl_audit.tasks.classifier import Classifier
from fl_audit.tasks.convolutional import cnn_classifier
from fl_audit.tasks.wide_resnet import wide_resnet_classifier

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
