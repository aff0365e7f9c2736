"""Mechanisms whose epsilon is known, and how often a bound on them exceeds it.

This is how a method's claim is checked: `bounds_on` runs methods on many releases, and a lower
bound at 95 % confidence may exceed the mechanism's epsilon in at most 5 % of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.audit import estimate
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.estimators.null import GaussianCanaryNull
from fl_audit.estimators.one_run.bound import PathologicalMechanism
from fl_audit.estimators.scores import CanaryScores, Inclusion


@dataclass(frozen=True)
class KnownMechanism:
    """A mechanism that releases a score for each canary's inclusion bit.

    Attributes:
      name: Name of the mechanism.
      epsilon: The least epsilon with which it is (epsilon, delta)-private.
      delta: The delta at which that epsilon holds.
      release: Function that takes random numbers and bits, 0 or 1, of shape (k,), and returns
        float64 scores of shape (k,).
      dim: Number of dimensions where scores are cosines, which the closed-form null needs; None
        where they are not.
    """

    name: str
    epsilon: float
    delta: float
    release: Callable[[np.random.Generator, IntArray], FloatArray]
    dim: int | None = None


def randomised_response(epsilon: float) -> KnownMechanism:
    """Randomised response, which keeps a bit with probability e^epsilon / (1 + e^epsilon)."""

    def release(rng: np.random.Generator, bits: IntArray) -> FloatArray:
        lies = rng.random(len(bits)) < 1 / (1 + math.exp(epsilon))
        return (bits ^ lies).astype(np.float64)

    return KnownMechanism("randomised response", epsilon, 0.0, release)


def laplace(epsilon: float) -> KnownMechanism:
    """The Laplace mechanism, with delta 0: each bit plus noise of scale 1 / epsilon."""

    def release(rng: np.random.Generator, bits: IntArray) -> FloatArray:
        return bits + rng.laplace(scale=1 / epsilon, size=len(bits))

    return KnownMechanism("Laplace", epsilon, 0.0, release)


def gaussian(epsilon: float, delta: float, dim: int | None = None) -> KnownMechanism:
    """The Gaussian mechanism: each bit plus noise calibrated to epsilon (Balle & Wang 2018).

    Scores are in units of the noise, so that an excluded canary's score is standard normal; with
    `dim` they are like cosines of gaussian canaries, N(0, 1 / dim) for an excluded one.

    Args:
      epsilon: The epsilon that it has at delta, above 0.
      delta: The delta, in (0, 1).
      dim: The length of the canaries whose cosines the scores are like; None for scores in units of
        the noise.
    """
    shift, unit = 1 / sigma_of_epsilon(epsilon, delta), (dim or 1) ** -0.5

    def release(rng: np.random.Generator, bits: IntArray) -> FloatArray:
        return np.asarray(unit * (shift * bits + rng.standard_normal(len(bits))))

    name = "Gaussian" if dim is None else "Gaussian, null known"
    return KnownMechanism(name, epsilon, delta, release, dim)


def pathological(epsilon: float, delta: float, beta: float) -> KnownMechanism:
    """Algorithm 4 of Steinke et al. (2023): randomised response that is better with chance beta.

    Args:
      epsilon: The epsilon of each guess, at least 0.
      delta: The delta that all guesses share.
      beta: The probability that all guesses are better at once, in (0, 1].
    """

    def release(rng: np.random.Generator, bits: IntArray) -> FloatArray:
        k = len(bits)
        mechanism = PathologicalMechanism(k, k, epsilon, delta, beta)
        return mechanism.guesses(2 * bits - 1, rng).astype(np.float64)

    return KnownMechanism("Algorithm 4", epsilon, delta, release)


def bounds_on(
    mechanism: KnownMechanism,
    methods: Sequence[str],
    *,
    num_canaries: int,
    runs: int,
    seed: int,
    confidence: float = 0.95,
    inclusion: Inclusion = "coins",
    inclusion_probability: float = 0.5,
) -> Mapping[str, FloatArray]:
    """The bounds that methods find on independent releases.

    Args:
      mechanism: The mechanism to audit, at its own delta.
      methods: Names of methods in METHODS; they see the same releases.
      num_canaries: Number of canaries k in each release.
      runs: Number of releases.
      seed: Seed of who is included and of the releases.
      confidence: Confidence of each bound, in (0, 1).
      inclusion: How it is decided which canaries are included; of pairs or halves num_canaries must
        be even.
      inclusion_probability: Probability with which a canary is included.

    Returns:
      An array by method, float64 of shape (runs,): lower ends, or epsilons where a method has none.

    >>> found = bounds_on(
    ...     randomised_response(1.0), ["one_run_valid"], num_canaries=100, runs=5, seed=1
    ... )
    >>> found["one_run_valid"].shape
    (5,)
    """
    rng = np.random.default_rng(seed)
    null_tail = None if mechanism.dim is None else GaussianCanaryNull(mechanism.dim)
    epsilons: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(runs):
        bits = _included(rng, num_canaries, inclusion, inclusion_probability)
        scores = mechanism.release(rng, bits)
        split = scores[bits == 1], scores[bits == 0]
        result = estimate(
            CanaryScores(*split, inclusion, inclusion_probability),
            delta=mechanism.delta,
            dim=mechanism.dim,
            null_tail=null_tail,
            confidence=confidence,
            methods=methods,
        )
        for row in result.estimates:
            epsilons[row.method].append(row.epsilon if row.lower is None else row.lower)
    return {method: np.array(values) for method, values in epsilons.items()}


def _included(
    rng: np.random.Generator, num_canaries: int, inclusion: Inclusion, probability: float
) -> IntArray:
    """Positions of the canaries that are included, those of a pair next to each other."""
    match inclusion:
        case "coins":
            return rng.integers(0, 2, num_canaries)
        case "unequal_coins":
            return (rng.random(num_canaries) < probability).astype(np.int64)
        case "fixed_half":
            return rng.permutation(np.arange(num_canaries) % 2)
        case "pairs":
            first = rng.integers(0, 2, num_canaries // 2)
            bits = np.repeat(first, 2)
            bits[1::2] = 1 - first
            return bits
