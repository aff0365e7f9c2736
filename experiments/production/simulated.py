"""Runs whose clients are not trained: their releases, and what a canary's best statistic scores.

An aggregate is noise, correlated as the mechanism correlates it, included canaries of length 1 in
their rounds, and clients of length 1 in random directions. Of what is released only inner products
with the canaries are needed, so that a run takes a second.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.config.design import RunDesign


def precision(run: RunDesign) -> FloatArray:
    """The inverse covariance of the aggregates' noise over rounds, at noise multiplier 1."""
    one_each = np.eye(run.num_rounds)
    correlation = run.release.correlation
    return one_each if correlation is None else correlation.weights(one_each)


def symmetric_root(weights: FloatArray) -> FloatArray:
    """The symmetric root of the covariance whose inverse is given, of shape (rounds, rounds).

    Of all roots it leaves a round's noise nearest to independent noise, so that runs of one seed
    are paired.
    """
    squares, axes = np.linalg.eigh(weights)
    return np.asarray((axes / np.sqrt(squares)) @ axes.T)


def prefix_error(run: RunDesign) -> float:
    """The root mean square of the noise on prefix sums, over all rounds, in clip norms."""
    sums = np.tri(run.num_rounds) @ np.linalg.cholesky(np.linalg.inv(precision(run)))
    return run.noise.sum_noise_multiplier * math.sqrt(np.square(sums).sum() / run.num_rounds)


@functools.lru_cache(maxsize=1)
def random_directions(seed: int, count: int, dim: int) -> Float32Array:
    """Canaries of length 1, float32 of shape (count, dim)."""
    drawn = np.random.default_rng([seed, 11]).standard_normal((count, dim), np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def presences(run: RunDesign) -> FloatArray:
    """Which rounds are each canary's own, float64 of shape (canaries, rounds)."""
    found = np.zeros((len(run.included), run.num_rounds))
    for index, members in run.own_rounds.members().items():
        found[members, index] = 1.0
    return found


def allowed_shifts(run: RunDesign) -> FloatArray:
    """By how many standard deviations the noise lets each canary's best statistic move.

    Of all that is released, so that of a tree the released sums count, not its nodes. Of shape
    (canaries,).
    """
    there = presences(run)
    squares = np.sum(there @ precision(run) * there, axis=1)
    return np.asarray(np.sqrt(squares) / run.noise.sum_noise_multiplier)


@dataclass(frozen=True, eq=False)
class Simulated:
    """The scores of one run, cosines in order of the pool.

    Attributes:
      whitened: With the weighted sum that shows the canary best, knowing the correlation.
      own: With the sum of the canary's own aggregates.
      allowed: The mean of sqrt(dim) times `whitened` that the noise allows if the canary is
        included.
    """

    whitened: FloatArray
    own: FloatArray
    allowed: FloatArray


def simulate(
    run: RunDesign, vectors: Float32Array, clients: float, seed: int, there: FloatArray
) -> Simulated:
    """Scores the canaries of a run.

    Args:
      run: The run; canaries without a round of their own score 0.
      vectors: The canaries, float32 of shape (canaries, dim), of length 1.
      clients: The number of clients in a round.
      seed: The seed of the noise and the clients.
      there: Which rounds are each canary's own, as `presences` gives it.
    """
    random = np.random.default_rng([seed, 12])
    weights = precision(run)
    size, dim = run.num_rounds, vectors.shape[1]
    root = symmetric_root(weights) * run.noise.sum_noise_multiplier
    aggregates = root.astype(np.float32) @ random.standard_normal((size, dim), np.float32)
    aggregates += random.standard_normal((size, dim), np.float32) * math.sqrt(clients / dim)
    aggregates += (there * run.included[:, None]).T.astype(np.float32) @ vectors
    products = (vectors @ aggregates.T).astype(np.float64)
    gram = (aggregates @ aggregates.T).astype(np.float64)

    def cosines(rows: FloatArray) -> FloatArray:
        lengths = np.sqrt(np.einsum("ct,ts,cs->c", rows, gram, rows, optimize=True))
        return np.sum(rows * products, axis=1) / np.maximum(lengths, 1e-300)

    best = there @ weights
    return Simulated(cosines(best), cosines(there), allowed_shifts(run))
