"""The laws of likelihood ratios where an attacker sees every round, and not who was in which.

With noise multiplier sigma, a round that a canary is in moves the released sum by one clip norm.
Whatever later rounds make of earlier ones, the attacker sees no more than a function of x =
(x_1, ..., x_T), where x is N(e_t, sigma^2 I) if round t is the canary's and N(0, sigma^2 I) if it
has none: given what was released before, each round is a function of a Gaussian of its own, and
which function that is does not depend on t. So a round drawn from T gives at most the pair

    P = mean_t N(e_t, sigma^2 I),    Q = N(0, sigma^2 I),

random allocation (Feldman & Shenfeld 2025, arXiv:2502.12773; Chua et al. 2024, "Balls-and-bins
sampling for DP-SGD", arXiv:2412.16802), whose ratio under Q is the mean of T independent
log-normal ratios W_t = exp(z_t / sigma - 1 / (2 sigma^2)).
"""

import functools
import math

import numpy as np
from scipy import special

from fl_audit.accounting.likelihood_ratio import RatioLaw, product, weighted_sum
from fl_audit.formats.folders import Blocks

LARGEST_SHIFT = 25.0
"""The largest shift, in deviations of the noise, of all rounds of a canary together.

Beyond it, where epsilon is above 300 even so, a float cannot hold the chances."""

_POINTS = 3_000
"""The number of points of one round's grid.

Against twice as many, epsilon is at most 1 % larger for T up to 2,000 where it is above 0.01, and
0.01 % for T up to 10."""

_TAIL = 1e-6
"""The share of delta that all cuts of tails may cost together, about."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@functools.lru_cache(maxsize=16)
def one_round_of_each(noise_multiplier: float, blocks: Blocks, delta: float) -> RatioLaw:
    """The law of the ratio where a canary is in one round of each block, drawn uniformly.

    Args:
      noise_multiplier: The noise multiplier of one round, above 0.
      blocks: The blocks of rounds. The shift of all their canary's rounds together, sqrt(blocks) /
        noise_multiplier, is at most `LARGEST_SHIFT`.
      delta: The delta at which epsilon will be asked for; it sets where tails are cut.
    """
    number = sum(count for _, count in blocks)
    tail, shift = _TAIL * delta / number, 1 / noise_multiplier
    step = _width(shift, tail) / _POINTS
    laws = []
    for length, count in blocks:
        if length == 1:
            laws.append(gaussian_ratio(math.sqrt(count) * shift, step, tail))
        else:
            laws.append(_power(_mean_of(shift, length, step, tail), count, tail))
    return functools.reduce(lambda one, other: product(one, other).trimmed(tail), laws)


@functools.lru_cache(maxsize=16)
def sampled_rounds(
    noise_multiplier: float, probability: float, rounds: int, delta: float
) -> RatioLaw:
    """The law of the ratio where a canary is in each round by an independent coin.

    A round's ratio is 1 - q + q W (Abadi et al. 2016, arXiv:1607.00133, lemma 3).

    Args:
      noise_multiplier: The noise multiplier of one round, at least 1 / `LARGEST_SHIFT`.
      probability: The probability q of a round, in (0, 1).
      rounds: The number of rounds.
      delta: The delta at which epsilon will be asked for; it sets where tails are cut.
    """
    tail, shift = _TAIL * delta / rounds, 1 / noise_multiplier
    of_round = gaussian_ratio(shift, _width(shift, tail) / _POINTS, tail)
    logs = np.logaddexp(math.log1p(-probability), math.log(probability) + of_round.logs)
    lowest = math.log1p(-probability)
    step = (float(logs[-1]) - lowest) / _POINTS
    below = np.minimum((logs - lowest) // step, _POINTS - 1).astype(np.int64)
    share = np.clip(np.expm1(logs - lowest - step * below) / np.expm1(step), 0, 1)
    masses = np.zeros(_POINTS + 1)
    np.add.at(masses, below, (1 - share) * of_round.masses)
    np.add.at(masses, below + 1, share * of_round.masses)
    masses[0] += of_round.at_zero
    law = RatioLaw(step, lowest, masses, 0.0, probability * of_round.at_infinity)
    return _power(law.trimmed(tail), rounds, tail)


def _width(shift: float, tail: float) -> float:
    """The width in log R of all but the tails of one round's ratio."""
    return shift * (2 * float(-special.ndtri(tail)) + shift)


def _mean_of(shift: float, length: int, step: float, tail: float) -> RatioLaw:
    """The law of the mean of so many independent ratios, by doubling."""
    doubled, number = gaussian_ratio(shift, step, tail), 1
    made: RatioLaw | None = None
    done = 0
    while True:
        if length & number:
            share = done / (done + number)
            made = weighted_sum(made, share, doubled).trimmed(tail) if made else doubled
            done += number
        if made and done == length:
            return made
        doubled, number = weighted_sum(doubled, 0.5, doubled).trimmed(tail), 2 * number


def _power(law: RatioLaw, exponent: int, tail: float) -> RatioLaw:
    """The law of the product of so many independent ratios, by squaring."""
    if exponent == 1:
        return law
    half = _power(law, exponent // 2, tail)
    square = product(half, half).trimmed(tail)
    return product(square, law).trimmed(tail) if exponent % 2 else square


def gaussian_ratio(shift: float, step: float, tail: float) -> RatioLaw:
    """The law of the ratio of N(shift, 1) to N(0, 1), rounded to the grid.

    Under N(0, 1) the log ratio is shift z - shift^2 / 2. The mass of each cell is shared between
    its ends by Gauss-Legendre quadrature, whose error is far below the rounding of floats.

    Args:
      shift: The distance of the means, above 0.
      step: The step of the grid.
      tail: The Q-mass below the grid, and the P-mass above it.
    """
    reach = float(-special.ndtri(tail))
    low = -shift * reach - shift**2 / 2
    cells = math.ceil((2 * shift * reach + shift**2) / step)
    inside = (_NODES + 1) / 2
    z = (low + step * (np.arange(cells)[:, None] + inside)) / shift + shift / 2
    density = np.exp(-(z**2) / 2) * _WEIGHTS * (step / shift / 2 / math.sqrt(2 * math.pi))
    up = density @ (np.expm1(step * inside) / np.expm1(step))
    down = density @ (np.exp(step * inside) * np.expm1(step * (1 - inside)) / np.expm1(step))
    masses = np.concatenate([down, [0.0]]) + np.concatenate([[0.0], up])
    end = low + step * cells
    below, p_below = special.ndtr([-reach, -reach - shift])
    above, p_above = special.ndtr([-(end / shift + shift / 2), -(end / shift - shift / 2)])
    to_lowest = p_below * math.exp(-low)
    masses[0] += to_lowest
    masses[-1] += above
    return RatioLaw(step, low, masses, below - to_lowest, p_above)
