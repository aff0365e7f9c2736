"""The one-run test when canaries are included with a probability other than 1/2.

Steinke et al. (2023), Proposition 5.7. Given everything else, a guess "included" is right with
probability at most pi e^eps / (pi e^eps + 1 - pi), a guess "excluded" with probability at most
(1 - pi) e^eps / ((1 - pi) e^eps + pi). The proposition as printed has e^-eps in the first; its
proof has e^eps, and only that is true: randomised response is right that often.
"""

import functools

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.one_run.bound import (
    binomial_probability,
    binomial_tail,
    check_counts,
)
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.largest_rejected import largest_rejected
from fl_audit.estimators.one_run.sharp import delta_factors
from fl_audit.estimators.papers.steinke2023.delta_terms import mean_mode, steepest

_DEVIATIONS = 12
_MARGIN = 100
"""Counts farther from the mean than 12 deviations and this have probability below 1e-30."""


def included_logit(inclusion: float, epsilon: float) -> float:
    """The log odds of a right guess "included" in the worst case: epsilon + log(pi / (1 - pi)).

    Steinke et al. (2023), Proposition 5.7, with e^eps for e^-eps.

    >>> round(float(special.expit(included_logit(0.25, float(np.log(9))))), 12)
    0.75
    """
    return epsilon + float(special.logit(inclusion))


def excluded_logit(inclusion: float, epsilon: float) -> float:
    """The log odds of a right guess "excluded" in the worst case: epsilon - log(pi / (1 - pi)).

    >>> round(float(special.expit(excluded_logit(0.25, float(np.log(3))))), 12)
    0.9
    """
    return epsilon - float(special.logit(inclusion))


def right_guesses_tail(
    guesses: Guesses, at_least: npt.ArrayLike, *, inclusion: float, epsilon: float
) -> FloatArray:
    """The worst-case chances of so many right guesses or more under epsilon-DP.

    They are those of the sum of two binomials, one per kind of guess: Steinke et al. (2023),
    Proposition 5.7 with F = 0. Every summand is positive, so small chances keep their digits.

    Args:
      guesses: Guesses, of which the numbers k+ and k- are used.
      at_least: Numbers of right guesses, int64 of shape (n,).
      inclusion: Probability pi of inclusion, in (0, 1).
      epsilon: The epsilon of differential privacy, finite and at least 0.

    Raises:
      InputError: If an argument is out of range.

    >>> two = Guesses(k_plus=1, k_minus=1, correct=0)
    >>> right_guesses_tail(two, [0, 1, 2], inclusion=0.5, epsilon=0.0).tolist()
    [1.0, 0.75, 0.25]
    """
    _check_inclusion(inclusion)
    check_epsilon(epsilon)
    few, many = guesses.k_plus, guesses.k_minus
    few_logit, many_logit = included_logit(inclusion, epsilon), excluded_logit(inclusion, epsilon)
    if few > many:
        few, many, few_logit, many_logit = many, few, many_logit, few_logit
    p = special.expit(few_logit)
    width = _DEVIATIONS * np.sqrt(few * p * special.expit(-few_logit)) + _MARGIN
    right = np.arange(max(int(few * p - width), 0), min(int(few * p + width) + 1, few) + 1)
    law = binomial_probability(np.full_like(right, few), right, few_logit)
    needed = np.asarray(at_least, dtype=np.int64)
    others = needed[..., np.newaxis] - right
    tails = binomial_tail(np.full_like(others, many), others, many_logit)
    return np.asarray(np.where(needed <= 0, 1.0, np.minimum(tails @ law, 1.0)))


def inclusion_p_value(
    m: int, guesses: Guesses, *, inclusion: float, epsilon: float, delta: float
) -> float:
    """A proven bound on the chance of so many right guesses under (epsilon, delta)-DP.

    It is f(v) + m delta (pi g+ + (1 - pi) g-), at most 1, with f from `right_guesses_tail`; see
    delta_terms.py for g and the proof. At inclusion 1/2 f is that of Corollary 5.4.

    Args:
      m: Number of canaries, each included independently.
      guesses: Guesses about m canaries, k+ and k- fixed in advance.
      inclusion: Probability pi of inclusion, in (0, 1).
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> seen = Guesses(k_plus=50, k_minus=50, correct=75)
    >>> null = {"epsilon": float(np.log(3)), "delta": 0.0}
    >>> round(inclusion_p_value(100, seen, inclusion=0.5, **null), 3)
    0.553
    >>> round(inclusion_p_value(100, seen, inclusion=0.2, **null), 3)
    0.04
    """
    chance = _checked_chance(m, guesses, inclusion, epsilon, delta)
    if delta == 0 or guesses.total == 0:
        return chance
    factor = inclusion * _largest_g(
        guesses.k_plus, guesses.k_minus, guesses.correct, _logits(inclusion, epsilon)
    ) + (1 - inclusion) * _largest_g(
        guesses.k_minus, guesses.k_plus, guesses.correct, _logits(1 - inclusion, epsilon)
    )
    return min(chance + m * delta * factor, 1.0)


def printed_inclusion_p_value(
    m: int, guesses: Guesses, *, inclusion: float, epsilon: float, delta: float
) -> float:
    """The bound with the delta term of Theorem 5.2: f(v) + 2 m delta max (f(v - i) - f(v)) / i.

    Steinke et al. (2023), Proposition 5.7, simplified as in the proof of Theorem 5.2. For delta > 0
    that proof has a gap (see delta_terms.py): rely on `inclusion_p_value`.

    Args:
      m: Number of canaries, each included independently.
      guesses: Guesses about m canaries, k+ and k- fixed in advance.
      inclusion: Probability pi of inclusion, in (0, 1).
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    chance = _checked_chance(m, guesses, inclusion, epsilon, delta)
    if delta == 0:
        return chance
    tail = functools.partial(right_guesses_tail, guesses, inclusion=inclusion, epsilon=epsilon)
    return min(chance + 2 * m * delta * steepest(tail, guesses.correct, m), 1.0)


def inclusion_epsilon_lower_bound(
    m: int, guesses: Guesses, *, inclusion: float, delta: float, confidence: float
) -> float:
    """The largest epsilon that these guesses reject by `inclusion_p_value`, 0 if none.

    It is a valid lower bound at the given confidence if k+ and k- were fixed before scores were
    seen.

    Args:
      m: Number of canaries, each included independently.
      guesses: Guesses about m canaries.
      inclusion: Probability pi of inclusion, in (0, 1).
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> seen = Guesses(k_plus=50, k_minus=50, correct=75)
    >>> made = inclusion_epsilon_lower_bound(100, seen, inclusion=0.5, delta=0.0, confidence=0.95)
    >>> round(made, 3)
    0.702
    """
    check_confidence(confidence)
    p_value = functools.partial(inclusion_p_value, m, guesses, inclusion=inclusion)
    return largest_rejected(
        lambda epsilon: p_value(epsilon=epsilon, delta=delta),
        lambda epsilon: p_value(epsilon=epsilon, delta=0.0),
        1 - confidence,
    )


def _largest_g(own: int, other: int, v: int, logits: tuple[float, float]) -> float:
    """A bound on g for `own` guesses of one kind beside `other` of the other kind."""
    own_logit, other_logit = logits
    if own == 0 or not 1 <= v <= own + other:
        return 0.0
    if other == 0:
        counts = np.array([own]), np.array([v])
        return float(delta_factors(*counts, own_logit)[0])
    decides = min(mean_mode(own, own_logit), mean_mode(other + 1, other_logit))
    return float(special.expit(-own_logit)) * decides


def _logits(inclusion: float, epsilon: float) -> tuple[float, float]:
    return included_logit(inclusion, epsilon), excluded_logit(inclusion, epsilon)


def _checked_chance(
    m: int, guesses: Guesses, inclusion: float, epsilon: float, delta: float
) -> float:
    check_counts(m, guesses.total, guesses.correct)
    if min(guesses.k_plus, guesses.k_minus) < 0:
        raise InputError(
            f"k+ and k- must be at least 0, got {guesses.k_plus} and {guesses.k_minus}"
        )
    check_delta(delta)
    needed = np.array([guesses.correct])
    return float(right_guesses_tail(guesses, needed, inclusion=inclusion, epsilon=epsilon)[0])


def _check_inclusion(inclusion: float) -> None:
    if not 0 < inclusion < 1:
        raise InputError(f"inclusion probability must be in (0, 1), got {inclusion}")
