"""Whether every single coordinate has noise: the sums of its squared changes over rounds.

If a tenth of the coordinates, scattered over the model, have no noise, no variable is much shorter.
On one coordinate it shows in several rounds together: given what came before, (s + g -
m)^2 / stddev^2 is stochastically larger than chi-square with one degree of freedom, for any m
that is known before g is drawn. So the sums over rounds of all coordinates are together at least
as large as independent chi-square numbers are, whatever the clients send, and the number of
coordinates below a quantile is at most binomial. The round before is used as m: this removes what
clients send alike in all rounds, and noise that is used again.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray

_QUANTILES = 10.0 ** -np.arange(1, 13)
"""The probabilities of the lower quantiles of chi-square below which coordinates are counted."""

_GRID = 0.125
"""The largest rounding error of a coordinate, over the noise: a grid of a quarter of it."""

_PIECE = 1 << 20
"""Coordinates per step."""


@dataclass(frozen=True, eq=False)
class CoordinateLengths:
    """The squared changes of each coordinate.

    Attributes:
      total: The sums over rounds of squared changes since the round before, each over the round's
        variance of the noise on a coordinate, float64 of shape (dim,).
    """

    total: FloatArray
    num_rounds: int


def add_squares(
    total: FloatArray, aggregate: Float32Array, last: Float32Array | None, stddev: float
) -> None:
    """Adds an aggregate's squared changes, over the noise's variance, to a sum in place.

    Without a round before, the changes are from zero.
    """
    for start in range(0, len(aggregate), _PIECE):
        piece = aggregate[start : start + _PIECE].astype(np.float64)
        if last is not None:
            piece -= last[start : start + _PIECE]
        piece /= stddev
        total[start : start + _PIECE] += piece * piece


def scarcest(
    coordinates: CoordinateLengths, moving: npt.NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Bounds the probability that so many coordinates are short; `moving` ones should have noise.

    Returns:
      The logarithm of the bound, over all quantiles that were tested; the number of short
      coordinates over the expected one, at the quantile that looks worst; and the number of
      quantiles.
    """
    rounds = coordinates.num_rounds
    limits = 2 * special.gammaincinv(rounds / 2, _QUANTILES) if rounds else np.zeros(0)
    # Rounding to a grid moves the length of a coordinate's numbers by the root of rounds at most.
    shortened = np.sqrt(limits) - _GRID * math.sqrt(rounds)
    is_tested = shortened > 0
    if not is_tested.any() or not moving.any():
        return 0.0, 1.0, 0
    lengths, count = np.sqrt(coordinates.total[moving]), int(moving.sum())
    below = np.array([np.count_nonzero(lengths <= limit) for limit in shortened[is_tested]])
    chance = _QUANTILES[is_tested]
    log_p = -count * binomial_divergence(np.maximum(below / count, chance), chance)
    worst = int(np.argmin(log_p))
    return (
        min(0.0, float(log_p[worst]) + math.log(len(chance))),
        float(below[worst] / (count * chance[worst])),
        len(chance),
    )


def binomial_divergence(share: FloatArray, chance: FloatArray) -> FloatArray:
    """The divergence of coins, by which Chernoff bounds binomial tails: P(X >= n q) <= e^(-n D).

    It is the Kullback-Leibler divergence D(q || p) of shares q, in nats.
    """
    return np.asarray(special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance))
