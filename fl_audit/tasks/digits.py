"""Handwritten digits that come with scikit-learn, a real task without a download."""

import numpy as np

from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.dealt import deal
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.tables import DigitsTask

_PIXELS = 64
_CLASSES = 10
_NUM_HELD_OUT = 297


def load_digits_task(config: DigitsTask, seed: int) -> LearningTask:
    """The task of 1,500 images dealt at random to the clients, with 297 held out.

    Args:
      config: The number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    everything = Examples((images / 16).astype(np.float32), labels.astype(np.int32))
    population, held_out = deal(everything, config.num_clients, _NUM_HELD_OUT, seed)
    return LearningTask(
        name="digits",
        classifier=dense_classifier(
            [_PIXELS, *config.hidden, _CLASSES],
            seed,
            "share of 297 held-out images classified correctly",
        ),
        population=population,
        held_out=held_out,
    )
