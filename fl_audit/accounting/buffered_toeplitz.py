"""Buffered linear Toeplitz strategies (BLTs), whose noise needs a few buffers and no past rounds.

The first column of such a strategy C is 1 and then sums of geometric sequences, c_k = sum_i omega_i
theta_i^(k-1). C^-1 is of the same form, with decays theta-hat (Dvijotham et al. 2024,
arXiv:2404.16706, lemma 5.2). If the decays interlace,

    1 > theta_1 > theta-hat_1 > theta_2 > theta-hat_2 > ... > 0,

all omega of C are positive and all of C^-1 negative (McMahan & Pillutla 2025, arXiv:2504.21413,
theorem 1), so that both columns fall in absolute value. Among these strategies `optimise` minimises
the largest error of prefix sums times the sensitivity under one participation, as in McMahan et al.
2024 (arXiv:2408.08868).
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize as scipy_optimize

from fl_audit.array_types import FloatArray

MOST_BUFFERS = 10
"""The largest number of buffers; the same as in jax_privacy. Three to seven are usual."""


@dataclass(frozen=True)
class BufferedToeplitz:
    """Each buffer's decay theta in (0, 1), largest first, and scale omega."""

    decays: tuple[float, ...]
    scales: tuple[float, ...]

    def column(self, num_rounds: int) -> FloatArray:
        """The first column of C, float64 of shape (num_rounds,)."""
        return _column(np.array(self.decays), np.array(self.scales), num_rounds)


def optimise(num_buffers: int, num_rounds: int) -> BufferedToeplitz:
    """The strategy with the least product of the last prefix sum's error and one-round sensitivity.

    The search is deterministic. It starts from decays that are evenly spaced in log(1 - decay), as
    in rational approximations of the square root.

    >>> blt = optimise(2, 100)
    >>> [round(decay, 3) for decay in blt.decays], [round(scale, 3) for scale in blt.scales]
    ([0.989, 0.773], [0.146, 0.324])
    """
    if not 1 <= num_buffers <= MOST_BUFFERS:
        raise ValueError(f"buffers must be from 1 to {MOST_BUFFERS}, got {num_buffers}")

    def log_loss(parameters: FloatArray) -> float:
        decays, inverse_decays = _interlaced(parameters)
        column = _column(decays, _scales(decays, inverse_decays), num_rounds)
        inverse = _column(inverse_decays, _scales(inverse_decays, decays), num_rounds)
        return float(np.log(column @ column) + np.log(np.square(np.cumsum(inverse)).sum()))

    steps = np.full(2 * num_buffers, np.log(2 * num_rounds) / (2 * num_buffers))
    optimum = scipy_optimize.minimize(
        log_loss,
        np.log(steps),
        method="L-BFGS-B",
        bounds=[(-7.0, 4.0)] * (2 * num_buffers),
        options={"maxiter": 2_000, "maxfun": 200_000, "ftol": 1e-10, "gtol": 1e-7},
    )
    decays, inverse_decays = _interlaced(optimum.x)
    scales = _scales(decays, inverse_decays)
    return BufferedToeplitz(tuple(decays.tolist()), tuple(scales.tolist()))


def _interlaced(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The decays of C and of C^-1, falling; `parameters` are logs of steps in -log(1 - decay)."""
    rising = -np.expm1(-np.cumsum(np.exp(parameters)))
    return rising[1::2][::-1], rising[::2][::-1]


def _scales(decays: FloatArray, inverse_decays: FloatArray) -> FloatArray:
    """The scales omega of a strategy, from its decays and its inverse's decays."""
    distances = decays[:, None] - decays
    np.fill_diagonal(distances, 1.0)
    return np.asarray((decays[:, None] - inverse_decays).prod(axis=1) / distances.prod(axis=1))


def _column(decays: FloatArray, scales: FloatArray, num_rounds: int) -> FloatArray:
    powers = decays[:, None] ** np.arange(num_rounds - 1)
    return np.concatenate([[1.0], scales @ powers])
