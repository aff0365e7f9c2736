"""Steinke, Nasr & Jagielski (2023): auditing with one training run, arXiv:2305.08846.

Each of m canaries is included by an independent fair coin. The auditor guesses for r of them and
is right v times. Under (epsilon, delta)-DP, v is hardly more than Binomial(r, e^eps / (1 + e^eps)).
"""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.beta_cdf import beta_cdf
from fl_audit.estimators.bisection import supremum

_MOST_EXAMPLES = 10**7
"""The largest number of examples whose bound is found within seconds."""


def p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """A bound on the chance of v or more correct guesses under (epsilon, delta)-DP.

    It is f(v) + 2 m delta max over i of (f(v - i) - f(v)) / i, at most 1, where f(v) is the chance
    that Binomial(r, e^epsilon / (1 + e^epsilon)) is at least v. Steinke et al. (2023), Corollary
    5.4 and appendix D.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Number of guesses, at most m; on the others the auditor abstains.
      v: Number of correct guesses, at most r.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(p_value(100, 100, 75, np.log(3), 0), 3)
    0.553
    """
    check_counts(m, r, v)
    check_epsilon(epsilon)
    check_delta(delta)
    return float(p_values(m, np.array([r]), np.array([v]), epsilon, delta)[0])


def epsilon_lower_bound(m: int, r: int, v: int, delta: float, confidence: float) -> float:
    """The largest epsilon that v correct guesses out of r reject, 0 if they reject none.

    It is found to the last bit (Steinke et al. 2023, appendix D). It is a valid lower bound on
    epsilon at the given confidence if r was fixed before the scores were seen.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Number of guesses, at most m.
      v: Number of correct guesses, at most r.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(epsilon_lower_bound(100, 100, 75, 1e-4, 0.95), 3)
    0.699
    """
    check_counts(m, r, v)
    check_delta(delta)
    check_confidence(confidence)
    guesses, correct = np.array([r]), np.array([v])
    return supremum(
        lambda epsilon: bool(p_values(m, guesses, correct, epsilon, delta)[0] < 1 - confidence)
    )


def p_values(
    m: int,
    r: npt.NDArray[np.int64],
    v: npt.NDArray[np.int64],
    epsilon: float | FloatArray,
    delta: float,
) -> FloatArray:
    """The p-values for arrays of guesses r, correct guesses v and perhaps epsilons, unchecked."""
    chance = binomial_tail(r, v, epsilon)
    if delta == 0:
        return chance
    return np.asarray(np.minimum(chance + 2 * m * delta * _steepest(r, v, epsilon), 1.0))


def binomial_tail(
    r: npt.NDArray[np.int64], v: npt.NDArray[np.int64], epsilon: float | FloatArray
) -> FloatArray:
    """The tail f(v), the chance that Binomial(r, e^epsilon / (1 + e^epsilon)) is at least v."""
    wrong = special.expit(-epsilon)
    safe = np.clip(v, 1, r)
    below = beta_cdf(r - safe + 1, safe, wrong)
    above = beta_cdf(safe, r - safe + 1, special.expit(epsilon))
    # 1 - wrong rounds where epsilon is large; one minus the other side rounds where it is small.
    tail = np.where(below < 0.5, 1 - below, above)
    return np.where(v <= 0, 1.0, np.where(v > r, 0.0, tail))


def _steepest(
    r: npt.NDArray[np.int64], v: npt.NDArray[np.int64], epsilon: float | FloatArray
) -> FloatArray:
    """Max over i in 1..v of (f(v - i) - f(v)) / i: the mean of the i probabilities below v.

    The binomial is unimodal, so this mean grows with i just as long as the next probability is at
    least the mean so far: the last such i is found by bisection. Beyond v the numerator is
    constant.
    """
    at_v = binomial_tail(r, v, epsilon)

    def mean_below(i: npt.NDArray[np.int64]) -> FloatArray:
        return np.asarray((binomial_tail(r, v - i, epsilon) - at_v) / i)

    low, high = np.ones_like(v), np.maximum(v, 1)
    while np.any(low < high):
        middle = (low + high + 1) // 2
        growing = binomial_probability(r, v - middle, epsilon) >= mean_below(
            np.maximum(middle - 1, 1)
        )
        low, high = np.where(growing, middle, low), np.where(growing, high, middle - 1)
    return mean_below(low)


def binomial_probability(
    r: npt.NDArray[np.int64], k: npt.NDArray[np.int64], epsilon: float | FloatArray
) -> FloatArray:
    """The probability that Binomial(r, e^epsilon / (1 + e^epsilon)) is k."""
    # By betaln: differences of gammaln lose digits for a million guesses.
    log_choices = -np.log1p(r) - special.betaln(r - k + 1.0, k + 1.0)
    with np.errstate(over="ignore"):  # below every float where epsilon is near the largest one
        log_chance = k * special.log_expit(epsilon) + (r - k) * special.log_expit(-epsilon)
    return np.asarray(np.exp(log_choices + log_chance))


def check_counts(m: int, r: int, v: int) -> None:
    """Refuse counts unless 0 <= v <= r <= m and m is at least 1.

    Raises:
      InputError: If a count is out of range; the message names it.
    """
    if m < 1:
        raise InputError(f"examples (m) must be at least 1, got {m}")
    if m > _MOST_EXAMPLES:
        raise InputError(f"examples (m) must be at most {_MOST_EXAMPLES:,}, got {m:,}")
    if not 0 <= r <= m:
        raise InputError(f"guesses (r) must be in [0, {m}], the number of examples, got {r}")
    if not 0 <= v <= r:
        raise InputError(f"correct (v) must be in [0, {r}], the number of guesses, got {v}")
