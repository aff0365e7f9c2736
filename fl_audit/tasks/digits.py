"""Handwritten digits that come with scikit-learn, a real task without a download."""

import numpy as np

from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Examples, InMemoryPopulation, LearningTask
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.tables import DigitsTask

_PIXELS = 64
_CLASSES = 10
_NUM_TRAINING = 1500


def load_digits_task(config: DigitsTask, seed: int) -> LearningTask:
    """The task of 1,500 images dealt at random to the clients, with 297 held out.

    Args:
      config: The number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = generator(seed, Stream.PARTITION).permutation(len(labels))
    everything = Examples((images / 16).astype(np.float32), labels.astype(np.int32)).take(order)
    shares = np.array_split(np.arange(_NUM_TRAINING), config.num_clients)
    return LearningTask(
        name="digits",
        classifier=dense_classifier(
            [_PIXELS, *config.hidden, _CLASSES],
            seed,
            "share of 297 held-out images classified correctly",
        ),
        population=InMemoryPopulation(
            client_ids=[f"client-{i}" for i in range(config.num_clients)],
            data=[everything.take(share) for share in shares],
        ),
        held_out=everything.take(np.arange(_NUM_TRAINING, len(labels))),
    )
