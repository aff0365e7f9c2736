"""The start of the chains: parameters under which every base has rates of positive weight."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.chain_parameters import Parameters
from fl_audit.estimators.challenge_bases.count_models import Correlations, ErrorRates
from fl_audit.estimators.challenge_bases.prior import BetaStrength, FixedStrength
from fl_audit.estimators.challenge_bases.regions import below_diagonal

_EPSILONS = np.geomspace(1e-3, 700.0, 200)
_HALVINGS = 100


@dataclass(frozen=True, eq=False)
class Start:
    """The start of each chain.

    Attributes:
      parameters: Parameters of each chain, with tau and rho at 0.
      rates: One point for each base, in R_s(epsilon, delta).
    """

    parameters: Parameters
    rates: ErrorRates


def find_start(
    rates: ErrorRates,
    delta: float,
    strength: BetaStrength | FixedStrength,
    rng: np.random.Generator,
) -> Start:
    """A start for each chain, spread out over what the error rates allow.

    With a free strength s, epsilon is the least that allows one pair per base, and a random amount
    more; then s is halved until R(s epsilon, s delta) holds none of them. With a fixed one, epsilon
    is chosen at random among those under which each base has a pair in R_s(epsilon, delta).

    Args:
      rates: Candidates; with a free strength, only the first of each base counts.
      delta: The delta of differential privacy, in [0, 1).
      strength: Prior of the strength.
      rng: The only source of randomness.

    Raises:
      InputError: If a fixed strength allows no epsilon for these candidates.
    """
    if isinstance(strength, FixedStrength):
        return _start_fixed(rates, delta, strength.value, rng)
    return _start_free(rates, delta, rng)


def _start_free(rates: ErrorRates, delta: float, rng: np.random.Generator) -> Start:
    alpha, beta = rates.alpha[:, :, :1], rates.beta[:, :, :1]
    folded = below_diagonal(alpha, beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.log(np.maximum(1 - delta - folded.high, 0) / folded.low)
    chains = len(alpha)
    epsilon = np.maximum(np.max(least, axis=(1, 2)), 0.0) + rng.exponential(0.5, chains)
    strength = rng.uniform(0.5, 1.0, chains)
    for _ in range(_HALVINGS):
        shrunk = (strength * epsilon)[:, None, None], (strength * delta)[:, None, None]
        inside = np.any(folded.inside(*shrunk), axis=(1, 2))
        strength = np.where(inside, strength / 2, strength)
    return _start(epsilon, strength, ErrorRates(alpha, beta))


def _start_fixed(
    rates: ErrorRates, delta: float, strength: float, rng: np.random.Generator
) -> Start:
    folded = below_diagonal(rates.alpha, rates.beta)
    chains = len(rates.alpha)
    epsilon, chosen = np.zeros(chains), np.zeros(rates.alpha.shape[:2], dtype=np.int64)
    for candidate in rng.permutation(_EPSILONS):
        reached = folded.inside(candidate, delta) & ~folded.inside(
            strength * candidate, strength * delta
        )
        new = np.all(np.any(reached, axis=2), axis=1) & (epsilon == 0)
        epsilon[new] = candidate
        chosen[new] = np.argmax(reached, axis=2)[new]
    if np.any(epsilon == 0):
        raise InputError(
            f"mhaar found no epsilon to start from at a fixed strength of {strength:g}: "
            "use grid, or let the strength vary"
        )
    rows = np.arange(chains)[:, None], np.arange(chosen.shape[1]), chosen
    picked = ErrorRates(rates.alpha[rows][:, :, None], rates.beta[rows][:, :, None])
    return _start(epsilon, np.full(chains, strength), picked)


def _start(epsilon: FloatArray, strength: FloatArray, rates: ErrorRates) -> Start:
    zeros = np.zeros_like(epsilon)
    return Start(Parameters(epsilon, strength, Correlations(zeros, zeros)), rates)
