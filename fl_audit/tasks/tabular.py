"""Small tables of measurements that come with scikit-learn: breast cancer and wine."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.dealt import deal
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.tables import BreastCancerTask, DealtTask, WineTask

_HOLD_OUT_EVERY = 6


def load_breast_cancer_task(config: BreastCancerTask, seed: int) -> LearningTask:
    """The task of 569 tumours, 30 measurements each, benign or malignant; 94 are held out.

    Args:
      config: The number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.

    Raises:
      InputError: There are more clients than examples for them.
    """
    from sklearn.datasets import load_breast_cancer

    return _task("breast cancer", load_breast_cancer, config, seed)


def load_wine_task(config: WineTask, seed: int) -> LearningTask:
    """The task of 178 wines, 13 measurements each, from three growers; 29 are held out.

    Args:
      config: The number of clients and the widths of the model.
      seed: The seed of the run; it decides the split and the initial weights.

    Raises:
      InputError: There are more clients than examples for them.
    """
    from sklearn.datasets import load_wine

    return _task("wine", load_wine, config, seed)


def _task(name: str, load: Callable[..., Any], config: DealtTask, seed: int) -> LearningTask:
    """The task of a table whose columns are scaled to mean 0 and deviation 1.

    Both are those of the whole published table and the same for every training set: they tell
    nobody which of its rows a model was trained on.
    """
    features, labels = load(return_X_y=True)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    everything = Examples(scaled.astype(np.float32), labels.astype(np.int32))
    num_held_out = len(everything) // _HOLD_OUT_EVERY
    population, held_out = deal(everything, config.num_clients, num_held_out, seed)
    widths = [features.shape[1], *config.hidden, int(labels.max()) + 1]
    return LearningTask(
        name=name,
        classifier=dense_classifier(
            widths, seed, f"share of {num_held_out} held-out rows classified correctly"
        ),
        population=population,
        held_out=held_out,
    )
