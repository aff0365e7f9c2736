"""Initial weights of many models, drawn after those of the task's."""

import math

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.inner_products import euclidean_norm
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Classifier


def initial_weights(classifier: Classifier, seed: int, model: int) -> list[Float32Array]:
    """Weights of one model's own: normal, with the root mean square of each array of the task's.

    Arrays of zeros (biases) stay zeros. For He's normal initial weights this is their own law; for
    a uniform one it is a normal law of the same variance.

    Args:
      classifier: The model whose initial weights give the scales.
      seed: The seed of the run.
      model: The number of the model.
    """
    rng = generator(seed, Stream.MODEL_WEIGHTS, model)
    return [
        rng.standard_normal(weight.shape, np.float32)
        * np.float32(euclidean_norm(weight.ravel()) / math.sqrt(weight.size))
        for weight in classifier.initial_weights
    ]
