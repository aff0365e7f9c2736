"""The one-run test for weighted guesses by Hoeffding's inequality.

Steinke et al. (2023), Corollary 5.3. All that has to be known of the weights are bounds
||T||_1 <= r1 and ||T||_2 <= r2 that always hold; they may depend on the scores otherwise. Where the
weights are known, `weighted` is tighter.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.one_run.largest_rejected import largest_rejected


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
    delta_terms.py).

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
    _check(m, v, delta)
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
    _check(m, v, delta)
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
    _check(m, 0.0, delta)
    if not 0 < beta < 1:
        raise InputError(f"beta must be in (0, 1), got {beta}")
    above = norms.r2 * math.sqrt(-math.log(beta) / 2)
    if above < 2:
        return 1.0
    return min(beta + 2 * m * delta * max(2 / above, float(beta**0.25)), 1.0)


def hoeffding_p_value(m: int, norms: Norms, v: float, *, epsilon: float, delta: float) -> float:
    """A proven bound on the chance of right weight v or more under (epsilon, delta)-DP.

    It is the least of f(v) + m delta / (1 + e^epsilon) (see delta_terms.py) and f(v - i + 1) + 2 m
    delta / i over i in 1..m (Proposition 5.7's failures, Markov's inequality), at most 1.

    Args:
      m: Number of canaries, each included with probability 1/2.
      norms: Norms of the guesses.
      v: Weight of the right guesses.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    _check(m, v, delta)
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
    _check(m, v, delta)
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


def _check(m: int, v: float, delta: float) -> None:
    if m < 1:
        raise InputError(f"examples (m) must be at least 1, got {m}")
    if not math.isfinite(v):
        raise InputError(f"right weight (v) must be finite, got {v}")
    check_delta(delta)
