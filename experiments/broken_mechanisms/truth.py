"""The true epsilon of the zoo's mechanisms, where it can be computed.

A Gaussian mechanism whose releases shift by m_1, m_2, ... standard deviations is mu-GDP with mu^2 =
m_1^2 + m_2^2 + ... (Dong, Roth & Su 2022, corollary 3.3). Where the shifts are random, the attacker
here sees them: delta is then the mean of the delta of each mu over their distribution, as for the
claim of `uniform` sampling.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special, stats

from experiments.broken_mechanisms.zoo import WORKERS
from fl_audit.array_types import FloatArray
from fl_audit.estimators.distributions import supremum
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu

_VARIABLES = 8
"""Number of matrices and biases of a model with three hidden layers."""


def epsilon_of_mixture(mus: FloatArray, masses: FloatArray, delta: float) -> float:
    """Epsilon of a mixture of Gaussian mechanisms, where the attacker sees which one is used.

    Args:
      mus: Distance between the two releases of each mechanism, in standard deviations, float64 of
        shape (n,).
      masses: Probability of each mechanism, float64 of shape (n,).
      delta: The delta at which epsilon is computed, in (0, 1).

    >>> round(epsilon_of_mixture(np.array([1.0]), np.array([1.0]), 1e-5), 2)
    4.38
    """
    is_shifted = mus > 0
    shifts, weights = mus[is_shifted], masses[is_shifted]

    def exceeds(epsilon: float) -> bool:
        log_p = special.log_ndtr(shifts / 2 - epsilon / shifts)
        log_q = epsilon + special.log_ndtr(-shifts / 2 - epsilon / shifts)
        deltas = np.exp(log_p) * -np.expm1(np.minimum(log_q - log_p, 0.0))
        return bool(weights @ deltas > delta)

    return supremum(exceeds)


def epsilon_of_counts(masses: FloatArray, rounds: int, noise: float, delta: float) -> float:
    """Epsilon of a mechanism whose rounds add an update a random number of times.

    Args:
      masses: Probability of 0, 1, ... times in one round, the same for all rounds, float64 of shape
        (n,).
      rounds: Number of rounds.
      noise: Noise multiplier of a round.
      delta: The delta at which epsilon is computed, in (0, 1).
    """
    of_one = np.zeros((len(masses) - 1) ** 2 + 1)
    of_one[np.arange(len(masses)) ** 2] = masses
    of_all = np.ones(1)
    for _ in range(rounds):
        of_all = np.convolve(of_all, of_one)
    return epsilon_of_mixture(np.sqrt(np.arange(len(of_all))) / noise, of_all, delta)


def true_epsilon(row: Mapping[str, Any]) -> float:
    """The epsilon of the mechanism that a line of results is about, against any attacker.

    Args:
      row: A line of results of `run.py`.

    Returns:
      Epsilon, infinite where data may be chosen so that no noise is left on a client's update.
    """
    if row["mechanism"].startswith("correct"):
        return float(row["claim"])
    if row["mechanism"] in _TIMES:
        masses = _TIMES[row["mechanism"]](row)
        rounds = row["rounds"] if row["mechanism"] == "drawn with replacement" else _present(row)
        return epsilon_of_counts(masses, rounds, row["noise_multiplier"], row["delta"])
    mu = _mu(row)
    return math.inf if math.isinf(mu) else epsilon_of_mu(mu, row["delta"])


_TIMES: Mapping[str, Callable[[Mapping[str, Any]], FloatArray]] = {
    "one upload in ten counted twice": lambda row: np.array([0.0, 0.9, 0.1]),
    "drawn with replacement": lambda row: np.asarray(
        stats.binom.pmf(np.arange(12), row["sample_size"], 1 / row["sampled_from"])
    ),
}
"""Functions of the probabilities that an update enters a round's sum 0, 1, ... times, by member."""


def _present(row: Mapping[str, Any]) -> int:
    """Number of rounds that a client is in."""
    return int(row["rounds"]) if row["config"] == "every_round" else 1


def _mu(row: Mapping[str, Any]) -> float:
    """The mu of a mechanism that is mu-GDP; infinite where there is no such mu."""
    claimed = math.sqrt(_present(row)) / float(row["noise_multiplier"])
    match row["mechanism"]:
        case "noise not scaled with the adaptive clip":
            return _unscaled_mu(row)
        case "noise over the denominator twice":
            return claimed * float(row["cohort"])
        case "clip by variable":
            return claimed * math.sqrt(_VARIABLES)
        case "same seed: workers sum clients":
            return claimed / math.sqrt(WORKERS)
        case "half the noise multiplier" | "every client counted twice":
            return claimed * 2
    return math.inf


def _unscaled_mu(row: Mapping[str, Any]) -> float:
    """The mu of noise that does not grow with the clip norm, in a client's worst rounds."""
    growth = np.array(row["clip_norms"]) / row["clip_norms"][0]
    shifts = np.sort(growth)[-_present(row) :]
    counts = len(shifts) / (2 * row["count_noise_stddev"]) ** 2
    return math.sqrt(float(shifts @ shifts) / row["sum_noise_multiplier"] ** 2 + counts)
