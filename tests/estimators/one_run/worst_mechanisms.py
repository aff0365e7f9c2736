"""The mechanisms that make walks of right guesses cross their boundaries most often."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, sparse

from fl_audit.estimators.one_run.walk import Boundary


def guess_vectors(n: int) -> np.ndarray:
    """All vectors of n right (1) and wrong (0) guesses."""
    return np.array(list(itertools.product([0, 1], repeat=n)))


def crosses(boundary: Boundary, vectors: np.ndarray) -> np.ndarray:
    """Which vectors of guesses cross a boundary."""
    right = np.cumsum(vectors, axis=1)[:, boundary.totals - 1]
    return np.any(right >= boundary.heights, axis=1)


def worst_chance(boundaries: Sequence[Boundary], epsilon: float, m_delta: float) -> float:
    """The largest chance, over all mechanisms, that the boundary which the output decides is met.

    If the mechanism draws which canary is guessed j-th at random, a law w on boundaries and right
    guesses is that of some (epsilon, delta)-DP mechanism exactly if the excesses of w over
    e^epsilon times w with guess j flipped, summed over j, are at most m delta.
    """
    n = int(max(boundary.totals[-1] for boundary in boundaries))
    vectors = guess_vectors(n)
    met = np.concatenate([crosses(boundary, vectors) for boundary in boundaries]).astype(float)
    size = len(met)
    here = np.arange(size)
    flipped = np.concatenate([here ^ (1 << j) for j in range(n)])
    k = np.arange(n * size)
    rows = np.concatenate([k, k, k, np.full(n * size, n * size)])
    columns = np.concatenate([np.tile(here, n), flipped, size + k, size + k])
    values = np.repeat([1.0, -math.exp(epsilon), -1.0, 1.0], n * size)
    solved = optimize.linprog(
        np.concatenate([-met, np.zeros(n * size)]),
        sparse.csr_matrix((values, (rows, columns))),
        np.append(np.zeros(n * size), m_delta),
        np.concatenate([np.ones(size), np.zeros(n * size)])[None],
        [1.0],
        method="highs",
    )
    return -float(solved.fun)
