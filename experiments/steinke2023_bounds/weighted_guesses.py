"""The one-run test with weighted guesses: Steinke et al. (2023), Theorem 5.2 and Corollary 5.3.

A guess T_i in [-1, 1] says by its sign whether a canary was included and by its size how much the
guess counts. The first part has what delta adds to the chance of many right guesses, the second the
exact distribution of a weighted sum, the third and fourth the tests.

`steepest` is the term of Steinke et al. (2023), Theorem 5.2, as printed. Its proof takes the number
of failures to be independent of the right guesses, which it is not (one_run/bound.py has a case in
which the theorem fails, though none is known at small p-values). What is called proven here rests
on the proof in one_run/bound.py instead, which carries over to guesses of any weights, each right
with its own probability p_j: with its g_j, and canaries included with probability pi,

    P(event) <= E f + m delta (pi max g_j over guesses "included" + (1 - pi) max g_j over others),

where g_j <= (1 - p_j) A for a bound A on the mean chance that guess j decides about the event.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import binomial_probability, delta_factors, largest_rejected
from fl_audit.estimators.scores import check_confidence, check_delta, check_epsilon

Tail = Callable[[IntArray], FloatArray]
"""Function from an array of integers k to the chances that an integer variable is at least k."""

_DENSE_UP_TO = 1000
_GRID_RATIO = 1.01


def steepest(tail: Tail, v: int, largest: int) -> float:
    """The alpha of Theorem 5.2, equation 9: max over i in 1..largest of (f(v - i) - f(v)) / i.

    Args:
      tail: Tail f of a unimodal distribution on the integers from 0 on.
      v: The point at which the term is taken, at least 0.
      largest: The largest i, m, at least 1.

    >>> steepest(lambda k: np.where(k <= 0, 1.0, np.where(k <= 2, 0.5, 0.0)), 2, 10)
    0.25
    """
    low, high = 1, max(min(v, largest), 1)
    at_v = float(tail(np.array([v]))[0])

    def mean_below(i: int) -> float:
        return (float(tail(np.array([v - i]))[0]) - at_v) / i

    # The mean of the i probabilities below v grows with i as long as the next one exceeds it.
    while low < high:
        middle = (low + high) // 2
        if mean_below(middle + 1) >= mean_below(middle):
            low = middle + 1
        else:
            high = middle
    return mean_below(low)


def mean_mode(n: int, logit: float) -> float:
    """The mean over N = 0..n-1 of the largest probability of Binomial(N, p), p = expit(logit).

    It is a bound on the mean chance that one of n equal guesses decides about an event: of the n -
    1 others, the number that is drawn anew is uniform on 0..n-1, and given all else the guess
    decides at one value of their sum. More than 1000 values of N are taken in blocks, each by its
    first, which is at most 1 % too much.

    >>> mean_mode(1, 0.0), mean_mode(2, 0.0)
    (1.0, 0.75)
    """
    steps = max(int(np.log(max(n, 1) / _DENSE_UP_TO) / np.log(_GRID_RATIO)) + 2, 1)
    sparse = (_DENSE_UP_TO * _GRID_RATIO ** np.arange(steps)).astype(np.int64)
    starts = np.concatenate([np.arange(_DENSE_UP_TO), sparse])
    starts = starts[starts < n]
    lengths = np.diff(starts, append=n)
    mode = np.floor((starts + 1) * special.expit(logit)).astype(np.int64)
    largest = binomial_probability(starts, np.minimum(mode, starts), logit)
    return float(np.sum(lengths * np.minimum(largest, 1.0)) / n)


# The distribution of a weighted sum of right guesses, on a lattice (Steinke et al. 2023, Theorem
# 5.2).


_NEGLIGIBLE = 1e-25
"""The mass below which tails of a distribution are cut off: the lower end is moved up, the upper
lost. What is lost is far below any level of a test."""

_ROUNDING = 1e-12


@dataclass(frozen=True)
class LatticeWeights:
    """Weights of guesses, as whole multiples of a unit, rounded up.

    Rounding up can only make the distribution larger, so p-values stay valid; the total right
    weight that is observed is never rounded. They are exact if the weights are multiples of the
    unit.

    Attributes:
      unit: Unit of the lattice, above 0.
      multiples: Different weights in units, increasing, at least 1, int64 of shape (n,).
      numbers: Numbers of guesses of each weight, int64 of shape (n,).
    """

    unit: float
    multiples: IntArray
    numbers: IntArray

    @classmethod
    def of(cls, weights: npt.ArrayLike, unit: float) -> "LatticeWeights":
        """The weights rounded up to a lattice; guesses of weight 0 are abstentions.

        Args:
          weights: Weights |t_i| in [0, 1], float64 of shape (r,).
          unit: Unit of the lattice, in (0, 1]; rounding adds half of it per guess on average, to be
            compared with the standard deviation of W.

        Raises:
          InputError: If a weight or the unit is out of range.

        >>> LatticeWeights.of([0.5, 0.0, 1.0, 0.4], unit=0.25).multiples.tolist()
        [2, 4]
        """
        values = np.asarray(weights, dtype=np.float64)
        if values.ndim != 1:
            raise InputError(f"weights must be one-dimensional, got shape {values.shape}")
        bad = ~((values >= 0) & (values <= 1))
        if np.any(bad):
            raise InputError(f"weights must be in [0, 1], got {values[bad][0]}")
        if not 0 < unit <= 1:
            raise InputError(f"unit must be in (0, 1], got {unit}")
        rounded = np.ceil(values[values > 0] / unit * (1 - _ROUNDING)).astype(np.int64)
        multiples, numbers = np.unique(np.maximum(rounded, 1), return_counts=True)
        return cls(unit, multiples, numbers)

    @property
    def total(self) -> int:
        """Number of guesses."""
        return int(self.numbers.sum())

    @property
    def total_weight(self) -> float:
        """The sum of all weights, rounded up as they are."""
        return self.unit * int(self.multiples @ self.numbers)

    def distribution(self, epsilon: float) -> tuple[int, FloatArray]:
        """The worst-case distribution of the right weight: first multiple of the unit, and masses.

        Guesses of one weight are a binomial; the binomials are convolved, smallest weight first.
        """
        first, masses = 0, np.ones(1)
        for multiple, number in zip(self.multiples.tolist(), self.numbers.tolist(), strict=True):
            lowest, chances = _binomial(number, epsilon)
            first += lowest * multiple
            masses = _add_multiple(masses, chances, multiple)
            dropped, masses = _without_ends(masses)
            first += dropped
        return first, masses

    def tail(self, at_least: npt.ArrayLike, epsilon: float) -> FloatArray:
        """The chances of a right weight of at least so much under epsilon-DP.

        Args:
          at_least: Weights of right guesses, float64 of shape (n,).
          epsilon: The epsilon of differential privacy, finite and at least 0.

        Raises:
          InputError: If epsilon is out of range.

        >>> LatticeWeights.of([0.5, 1.0], unit=0.5).tail([0, 0.5, 1.0, 1.5], 0.0).tolist()
        [1.0, 0.75, 0.5, 0.25]
        """
        check_epsilon(epsilon)
        first, masses = self.distribution(epsilon)
        needed = np.asarray(at_least, dtype=np.float64) / self.unit
        # An observed sum carries rounding errors: down with it, which errs to the valid side.
        index = np.ceil(needed - _ROUNDING * (1 + np.abs(needed))).astype(np.int64) - first
        chances = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        tail = chances[np.clip(index, 0, len(masses))]
        return np.asarray(np.where(index <= 0, 1.0, np.minimum(tail, 1.0)))


def _binomial(number: int, epsilon: float) -> tuple[int, FloatArray]:
    k = np.arange(number + 1)
    chances = binomial_probability(np.full_like(k, number), k, epsilon)
    return _without_ends(chances)


def _add_multiple(masses: FloatArray, chances: FloatArray, multiple: int) -> FloatArray:
    """The distribution of a lattice variable plus `multiple` times an independent count."""
    total = np.zeros(len(masses) + multiple * (len(chances) - 1))
    for k, chance in enumerate(chances.tolist()):
        total[k * multiple : k * multiple + len(masses)] += chance * masses
    return total


def _without_ends(masses: FloatArray) -> tuple[int, FloatArray]:
    """The distribution without its tails; the lower mass moves up, so it can only grow."""
    kept = np.flatnonzero(masses > _NEGLIGIBLE)
    low, high = int(kept[0]), int(kept[-1]) + 1
    inner = masses[low:high].copy()
    inner[0] += masses[:low].sum()
    return low, inner


# The one-run test with weighted guesses in [-1, 1].
#
# Steinke et al. (2023), Theorem 5.2 for T in [-1, 1]^m: the sign of T_i guesses, its size is what
# the guess counts for, and W is the sum of |T_i| over the right guesses. The distribution that W is
# compared with is that of the sum of |t_i| Bernoulli(e^eps / (1 + e^eps)).
#
# What the weights may depend on. Their multiset has to be fixed before the scores are seen; which
# canary gets which weight may depend on the scores in any way. (The k-th surest guess weighs w_k,
# for instance.) Then the distribution below is that of Theorem 5.2 for every t in the support of T,
# so W-check* is it. For delta = 0, the weights themselves may be any function of the scores too:
# Proposition 5.1 holds given T = t. They may never depend on the coins.


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
    that a guess decides, see the head of this file and `_decides`.

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
    _check_weights(m, weights, v, delta)
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

    For delta > 0 its proof has a gap (see the head of this file): rely on `weighted_p_value`.

    Args:
      m: Number of canaries, each included with probability 1/2.
      weights: Weights of the guesses, fixed in advance as a multiset.
      v: Weight of the right guesses, at most that of all guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check_weights(m, weights, v, delta)
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


def _check_weights(m: int, weights: LatticeWeights, v: float, delta: float) -> None:
    if m < max(weights.total, 1):
        raise InputError(
            f"examples (m) must be at least 1 and the {weights.total} guesses, got {m}"
        )
    if not 0 <= v <= weights.total_weight * (1 + _ROUNDING):
        total = weights.total_weight
        raise InputError(f"right weight (v) must be in [0, {total:g}], the total weight, got {v}")
    check_delta(delta)


# The one-run test for weighted guesses by Hoeffding's inequality.
#
# Steinke et al. (2023), Corollary 5.3. All that has to be known of the weights are bounds ||T||_1
# <= r1 and ||T||_2 <= r2 that always hold; they may depend on the scores otherwise. Where the
# weights are known, `weighted_p_value` is tighter.


@dataclass(frozen=True)
class Norms:
    """Bounds on the norms of the guesses T in [-1, 1]^m.

    Attributes:
      r1: Number that is at least the sum of |T_i|, with certainty.
      r2: Number that is at least the root of the sum of T_i^2, with certainty.

    Raises:
      InputError: If a bound is not positive and finite.
    """

    r1: float
    r2: float

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        for name, value in (("r1", self.r1), ("r2", self.r2)):
            if not 0 < value < math.inf:
                raise InputError(f"{name} must be positive and finite, got {value}")

    def mean(self, epsilon: float) -> float:
        """The largest mean of the right weight, e^epsilon / (e^epsilon + 1) r1."""
        return float(special.expit(epsilon)) * self.r1


def hoeffding_tail(norms: Norms, v: npt.ArrayLike, epsilon: float) -> FloatArray:
    """The bound f(v) = exp(-2 (v - mean)^2 / r2^2) above the mean, 1 below (Corollary 5.3).

    Args:
      norms: Norms of the guesses.
      v: Weights of right guesses, float64 of shape (n,).
      epsilon: The epsilon of differential privacy, finite and at least 0.

    Raises:
      InputError: If epsilon is out of range.

    >>> hoeffding_tail(Norms(r1=100, r2=10), [40, 60], 0.0).round(4).tolist()
    [1.0, 0.1353]
    """
    check_epsilon(epsilon)
    above = np.maximum(np.asarray(v, dtype=np.float64) - norms.mean(epsilon), 0.0)
    return np.asarray(np.exp(-2 * (above / norms.r2) ** 2))


def equation_10(m: int, norms: Norms, v: float, *, epsilon: float, delta: float) -> float:
    """Corollary 5.3, equation 10: f(v) + 2 m delta max (f(v - i) - f(v)) / i, at most 1.

    This is the bound as printed; for delta > 0 the proof of Theorem 5.2 has a gap (see
    the head of this file).

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      v: Weight of the right guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(equation_10(100, Norms(100, 10), 75, epsilon=0.5, delta=1e-4), 4)
    0.0403
    """
    _check_weight(m, v, delta)
    i = np.arange(min(m, math.ceil(max(v, 0.0)) + 1) + 1)
    f = hoeffding_tail(norms, v - i, epsilon)
    slope = np.max((f[1:] - f[0]) / i[1:])
    return float(min(f[0] + 2 * m * delta * slope, 1.0))


def equation_11(m: int, norms: Norms, v: float, *, epsilon: float, delta: float) -> float:
    """Corollary 5.3, equation 11: f(v) + 2 m delta max{2 / (v - mean), f((v + mean) / 2)}.

    It is simpler and weaker than equation 10. It is the bound as printed, at most 1, and 1 where it
    does not apply (v < mean + 2).

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      v: Weight of the right guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(equation_11(100, Norms(100, 10), 75, epsilon=0.5, delta=1e-4), 4)
    0.0475
    """
    _check_weight(m, v, delta)
    mean = norms.mean(epsilon)
    f = hoeffding_tail(norms, [v, (v + mean) / 2], epsilon)
    if v < mean + 2:
        return 1.0
    return float(min(f[0] + 2 * m * delta * max(2 / (v - mean), f[1]), 1.0))


def equation_12(m: int, norms: Norms, beta: float, *, delta: float) -> float:
    """Corollary 5.3, equation 12: the chance of right weight mean + r2 sqrt(log(1 / beta) / 2).

    It is beta + 2 m delta max{1 / (r2 sqrt(log(1 / beta) / 2)), beta^(1/4)}, at most 1. Equation 11
    has twice the first term of the maximum, 2 / (v - mean), at this v. So as printed, equation 12
    does not follow from it; here the factor 2 is kept.

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      beta: Value of f at that right weight, in (0, 1).
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(equation_12(100, Norms(100, 10), 0.05, delta=1e-4), 4)
    0.0595
    """
    _check_weight(m, 0.0, delta)
    if not 0 < beta < 1:
        raise InputError(f"beta must be in (0, 1), got {beta}")
    above = norms.r2 * math.sqrt(-math.log(beta) / 2)
    if above < 2:
        return 1.0
    return min(beta + 2 * m * delta * max(2 / above, float(beta**0.25)), 1.0)


def hoeffding_p_value(m: int, norms: Norms, v: float, *, epsilon: float, delta: float) -> float:
    """A proven bound on the chance of right weight v or more under (epsilon, delta)-DP.

    It is the least of f(v) + m delta / (1 + e^epsilon) (see the head of this file) and f(v - i + 1)
    + 2 m delta / i over i in 1..m (Proposition 5.7's failures, Markov's inequality), at most 1.

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      v: Weight of the right guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check_weight(m, v, delta)
    i = np.arange(1, min(m, math.ceil(max(v, 0.0)) + 1) + 1)
    f = hoeffding_tail(norms, v - i + 1, epsilon)
    decided = f[0] + m * delta * float(special.expit(-epsilon))
    return float(min(decided, np.min(f + 2 * m * delta / i), 1.0))


def hoeffding_epsilon_lower_bound(
    m: int, norms: Norms, v: float, *, delta: float, confidence: float
) -> float:
    """The largest epsilon that right weight v rejects by `hoeffding_p_value`, 0 if none.

    At delta = 0 it is explicit: the logit of (v - r2 sqrt(log(1 / alpha) / 2)) / r1, where f(v) is
    alpha.

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      v: Weight of the right guesses, at most r1.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> made = hoeffding_epsilon_lower_bound(100, Norms(100, 10), 75, delta=0.0, confidence=0.95)
    >>> round(made, 3)
    0.522
    """
    _check_weight(m, v, delta)
    check_confidence(confidence)
    if v > norms.r1:
        raise InputError(f"right weight (v) must be at most r1 = {norms.r1}, got {v}")
    alpha = 1 - confidence
    share = (v - norms.r2 * math.sqrt(-math.log(alpha) / 2)) / norms.r1
    if delta == 0:
        return max(float(special.logit(share)), 0.0) if share > 0 else 0.0
    return largest_rejected(
        lambda epsilon: hoeffding_p_value(m, norms, v, epsilon=epsilon, delta=delta),
        lambda epsilon: float(hoeffding_tail(norms, v, epsilon)),
        alpha,
    )


def _check_weight(m: int, v: float, delta: float) -> None:
    if m < 1:
        raise InputError(f"examples (m) must be at least 1, got {m}")
    if not math.isfinite(v):
        raise InputError(f"right weight (v) must be finite, got {v}")
    check_delta(delta)
