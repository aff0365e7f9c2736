"""The one-run test with weighted guesses in [-1, 1].

Steinke et al. (2023), Theorem 5.2 for T in [-1, 1]^m: the sign of T_i guesses, its size is what the
guess counts for, and W is the sum of |T_i| over the right guesses. The law that W is compared with
is that of the sum of |t_i| Bernoulli(e^eps / (1 + e^eps)).

What the weights may depend on. Their multiset has to be fixed before the scores are seen; which
canary gets which weight may depend on the scores in any way. (The k-th surest guess weighs w_k, for
instance.) Then the law below is that of Theorem 5.2 for every t in the support of T, so W-check* is
it. For delta = 0, the weights themselves may be any function of the scores too: Proposition 5.1
holds given T = t. They may never depend on the coins.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta
from fl_audit.estimators.one_run.largest_rejected import largest_rejected
from fl_audit.estimators.one_run.sharp import delta_factors
from fl_audit.estimators.papers.steinke2023.delta_terms import mean_mode
from fl_audit.estimators.papers.steinke2023.lattice_weights import LatticeWeights

_ROUNDING = 1e-12


def right_weight(guesses: npt.ArrayLike, inclusion: npt.ArrayLike) -> float:
    """The right weight W, the sum of max(0, T_i S_i): Steinke et al. (2023), section 5.

    Args:
      guesses: Guesses T in [-1, 1], of shape (m,); 0 abstains.
      inclusion: Signs S, -1 or 1, of shape (m,).

    Raises:
      InputError: If shapes differ, or a value is out of range.

    >>> right_weight([0.5, -1.0, 0.25], [1, 1, 1])
    0.75
    """
    T, S = np.asarray(guesses, dtype=np.float64), np.asarray(inclusion)
    if T.shape != S.shape:
        raise InputError(f"guesses and inclusion must have one shape, got {T.shape} and {S.shape}")
    if not np.all(np.abs(T) <= 1):
        raise InputError("guesses must be in [-1, 1]")
    if not np.all(np.abs(S) == 1):
        raise InputError("inclusion must be -1 (excluded) or 1 (included)")
    return math.fsum(np.maximum(T * S, 0.0).tolist())


def weighted_p_value(
    m: int, weights: LatticeWeights, v: float, *, epsilon: float, delta: float
) -> float:
    """A proven bound on the chance of right weight v or more under (epsilon, delta)-DP.

    It is the least of f(v) + m delta g and of f(v - i + 1) + 2 m delta / i over i in 1..m, at most
    1, where f is `LatticeWeights.tail`. The second is Proposition 5.7's mean number of failures F
    and Markov's inequality, as in Corollary 5.8: W >= v needs W' >= v - i + 1 or F >= i, as F is
    whole and no guess weighs more than 1. For the first, with g at most (1 - p) times the chance
    that a guess decides, see delta_terms.py and `_decides`.

    Args:
      m: Number of canaries, each included with probability 1/2.
      weights: Weights of the guesses, fixed in advance as a multiset.
      v: Weight of the right guesses, at most that of all guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> equal = LatticeWeights.of(np.ones(100), unit=1.0)
    >>> round(weighted_p_value(100, equal, 75, epsilon=float(np.log(3)), delta=0.0), 3)
    0.553
    """
    _check(m, weights, v, delta)
    i = np.arange(1, min(m, math.ceil(v) + 1) + 1)
    tails = weights.tail(v - i + 1, epsilon)
    chance = float(tails[0])
    if delta == 0 or weights.total == 0:
        return chance
    by_failures = np.min(tails + 2 * m * delta / i)
    g = _largest_g(weights, v, epsilon)
    return float(min(chance + m * delta * g, by_failures, 1.0))


def printed_weighted_p_value(
    m: int, weights: LatticeWeights, v: float, *, epsilon: float, delta: float
) -> float:
    """The bound by Theorem 5.2 as printed: f(v) + 2 m delta max (f(v - i) - f(v)) / i, at most 1.

    For delta > 0 its proof has a gap (see delta_terms.py): rely on `weighted_p_value`.

    Args:
      m: Number of canaries, each included with probability 1/2.
      weights: Weights of the guesses, fixed in advance as a multiset.
      v: Weight of the right guesses, at most that of all guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check(m, weights, v, delta)
    i = np.arange(min(m, math.ceil(v) + 1) + 1)
    tails = weights.tail(v - i, epsilon)
    slope = np.max((tails[1:] - tails[0]) / i[1:])
    return float(min(tails[0] + 2 * m * delta * slope, 1.0))


def weighted_epsilon_lower_bound(
    m: int, weights: LatticeWeights, v: float, *, delta: float, confidence: float
) -> float:
    """The largest epsilon that right weight v rejects by `weighted_p_value`, 0 if none.

    Args:
      m: Number of canaries, each included with probability 1/2.
      weights: Weights of the guesses, fixed in advance as a multiset.
      v: Weight of the right guesses, at most that of all guesses.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> equal = LatticeWeights.of(np.ones(100), unit=1.0)
    >>> round(weighted_epsilon_lower_bound(100, equal, 75, delta=0.0, confidence=0.95), 3)
    0.702
    """
    check_confidence(confidence)
    p_value = functools.partial(weighted_p_value, m, weights, v)
    return largest_rejected(
        lambda epsilon: p_value(epsilon=epsilon, delta=delta),
        lambda epsilon: p_value(epsilon=epsilon, delta=0.0),
        1 - confidence,
    )


def _largest_g(weights: LatticeWeights, v: float, epsilon: float) -> float:
    """A bound on g, which is exact if all guesses weigh the same; for others see `_decides`."""
    if len(weights.multiples) == 1:
        weight = weights.unit * int(weights.multiples[0])
        needed = math.ceil(v / weight * (1 - _ROUNDING))
        if not 1 <= needed <= weights.total:
            return 0.0
        return float(delta_factors(np.array([weights.total]), np.array([needed]), epsilon)[0])
    return float(special.expit(-epsilon)) * _decides(weights, epsilon)


def _decides(weights: LatticeWeights, epsilon: float) -> float:
    """A bound on the mean chance that one guess decides whether W >= v.

    Guess j decides if the right weight of the others is in [v - w_j, v). Let only guesses of weight
    u or more vary. Cut the interval into ceil(w_j / u) pieces of length u at most: in each, no set
    of right guesses contains another, and such a family has at most the largest probability of a
    binomial (the LYM inequality). The number that varies is uniform, see `mean_mode`. Best u.
    """
    at_least = np.cumsum(weights.numbers[::-1])[::-1]
    pieces = -(-int(weights.multiples[-1]) // weights.multiples)
    chances = [int(k) * mean_mode(int(n), epsilon) for k, n in zip(pieces, at_least, strict=True)]
    return min(1.0, *chances)


def _check(m: int, weights: LatticeWeights, v: float, delta: float) -> None:
    if m < max(weights.total, 1):
        raise InputError(
            f"examples (m) must be at least 1 and the {weights.total} guesses, got {m}"
        )
    if not 0 <= v <= weights.total_weight * (1 + _ROUNDING):
        total = weights.total_weight
        raise InputError(f"right weight (v) must be in [0, {total:g}], the total weight, got {v}")
    check_delta(delta)
