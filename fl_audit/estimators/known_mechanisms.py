"""Mechanisms with known epsilon, and lower bounds on it from many releases.

`bounds_on` runs methods on many releases: a lower bound at 95 % confidence may exceed the
mechanism's epsilon in at most 5 % of these releases.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import EXACT_COSINE_BELOW
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.estimators.methods import estimate
from fl_audit.estimators.null import GaussianCanaryNull
from fl_audit.estimators.one_run.bound import PathologicalMechanism
from fl_audit.estimators.scores import CanaryScores, Inclusion


@dataclass(frozen=True)
class KnownMechanism:
    """A mechanism that releases a score for each canary's inclusion bit."""

    name: str
    epsilon: float  # the smallest with which it is (epsilon, delta)-private
    delta: float
    release: Callable[[np.random.Generator, IntArray], FloatArray]  # scores of k bits, (k,)
    dim: int | None = None  # of the canaries' null, if scores are like cosines


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

    Scores are in units of the noise: N(0, 1) for an excluded canary. With `dim` they are like
    cosines of gaussian canaries of that dimension: N(0, 1 / dim). Raises InputError for a dimension
    below EXACT_COSINE_BELOW, where cosines are not so.
    """
    if dim is not None and dim < EXACT_COSINE_BELOW:
        raise InputError(
            f"dim must be at least {EXACT_COSINE_BELOW:,} for scores like cosines, got {dim}"
        )
    shift, unit = 1 / sigma_of_epsilon(epsilon, delta), (dim or 1) ** -0.5

    def release(rng: np.random.Generator, bits: IntArray) -> FloatArray:
        return np.asarray(unit * (shift * bits + rng.standard_normal(len(bits))))

    name = "Gaussian" if dim is None else "Gaussian, null known"
    return KnownMechanism(name, epsilon, delta, release, dim)


def pathological(epsilon: float, delta: float, beta: float) -> KnownMechanism:
    """Algorithm 4 of Steinke et al. (2023): all guesses improve at once with probability beta."""

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
    """The `lower` of estimates from independent releases, or `epsilon` if it is None, by method.

    All methods see the same releases; arrays have shape (runs,). `seed` decides inclusion and
    releases. Raises InputError for an odd num_canaries with pairs or a fixed half.

    >>> bounds = bounds_on(
    ...     randomised_response(1.0), ["one_run_valid"], num_canaries=100, runs=5, seed=1
    ... )
    >>> bounds["one_run_valid"].shape
    (5,)
    """
    if inclusion in ("pairs", "fixed_half") and num_canaries % 2:
        raise InputError(f"num_canaries must be even with {inclusion}, got {num_canaries}")
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
    """Inclusion bits of the canaries; the two canaries of a pair are adjacent."""
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
