"""CIFAR-10 (Krizhevsky 2009) from the user's folder."""

from pathlib import Path

import numpy as np

from fl_audit.errors import InputError
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.dealt import deal
from fl_audit.tasks.image_models import image_classifier
from fl_audit.tasks.tables import CifarTask

_CLASSES = 10
_SIDE, _CHANNELS = 32, 3
_RECORD = 1 + _CHANNELS * _SIDE * _SIDE


def load_cifar10_task(config: CifarTask, seed: int) -> LearningTask:
    """The task of the training images dealt to clients at random; the test images are held out.

    Args:
      config: The folder of the binary version, the number of clients and the model.
      seed: The seed of the run; it decides the split and the initial weights.

    Raises:
      InputError: A file is missing, cut, or holds a label that is no class.
    """
    folder = Path(config.path)
    batches = sorted(folder.glob("data_batch_*.bin"))
    if not batches:
        raise InputError(
            f"task.path: {folder} must be the folder cifar-10-batches-bin, with data_batch_1.bin "
            "and so on: the binary version, as no pickle is loaded"
        )
    training = Examples.concatenate([_read(path) for path in batches])
    population, _ = deal(training, config.num_clients, 0, seed)
    held_out = _read(folder / "test_batch.bin")
    return LearningTask(
        name="CIFAR-10",
        classifier=image_classifier(
            config.model,
            (_SIDE, _SIDE, _CHANNELS),
            _CLASSES,
            seed,
            f"share of {len(held_out):,} test images classified correctly",
        ),
        population=population,
        held_out=held_out,
    )


def _read(path: Path) -> Examples:
    """The images of a file: of each a byte of class, then red, green and blue row by row."""
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if not data.size or data.size % _RECORD:
        raise InputError(
            f"{path}: must hold whole images of {_RECORD:,} bytes each, has {data.size:,} bytes"
        )
    records = data.reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int32)
    if labels.max() >= _CLASSES:
        raise InputError(f"{path}: labels must be from 0 to {_CLASSES - 1}, got {labels.max()}")
    planes = records[:, 1:].reshape(-1, _CHANNELS, _SIDE, _SIDE)
    return Examples((planes.transpose(0, 2, 3, 1) / np.float32(255)).astype(np.float32), labels)
