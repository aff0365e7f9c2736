"""Attacks on noise that is not fresh and independent, which find bugs that cosines miss.

Each attack sees what the statistics `max` and `sum` see, the aggregate of every round.
"""

import itertools

import numpy as np

from experiments.broken_mechanisms.audited_run import Aggregates
from fl_audit.array_types import FloatArray
from fl_audit.canaries.families import CanaryFamily
from fl_audit.inner_products import euclidean_norm, inner_product


def largest_difference(family: CanaryFamily, aggregates: Aggregates) -> FloatArray:
    """The largest absolute cosine with the difference of two consecutive aggregates.

    Noise that is the same in both aggregates cancels. A canary that takes part in one of them is in
    the difference, with either sign; one that takes part in both is not.

    Returns:
      float64 of shape (num_canaries,); zeros for a single round.
    """
    scores = np.zeros(family.num_canaries)
    for before, after in itertools.pairwise(aggregates):
        scores = np.maximum(scores, np.abs(family.cosines(after - before)))
    return scores


def sum_of_unshared(family: CanaryFamily, aggregates: Aggregates, num_pieces: int) -> FloatArray:
    """Cosine with the sum of all aggregates, less the mean of its equal pieces.

    Noise that is the same in every piece cancels.

    Returns:
      float64 of shape (num_canaries,).
    """
    total = np.sum(aggregates, axis=0, dtype=np.float32)
    size = -(-total.size // num_pieces)
    pieces = np.pad(total, (0, size * num_pieces - total.size)).reshape(num_pieces, size)
    return family.cosines((pieces - pieces.mean(axis=0)).ravel()[: total.size])


def mean_correlation(aggregates: Aggregates) -> float | None:
    """The mean cosine of consecutive aggregates, about 0 for fresh noise; None for one round."""
    cosines = [
        inner_product(before, after) / (euclidean_norm(before) * euclidean_norm(after))
        for before, after in itertools.pairwise(aggregates)
    ]
    return float(np.mean(cosines)) if cosines else None
