"""The one-run test with other coins than fair ones, and with pairs of canaries.

The first part is for canaries that are included with a probability other than 1/2: Steinke et al.
(2023), Proposition 5.7. Given everything else, a guess "included" is right with probability at most
pi e^eps / (pi e^eps + 1 - pi), a guess "excluded" with probability at most (1 - pi) e^eps / ((1 -
pi) e^eps + pi). The proposition as printed has e^-eps in the first; its proof has e^eps, and only
that is true: randomised response is right that often. The second part is for a training set of
fixed size, appendix A.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from experiments.steinke2023_bounds.weighted_guesses import mean_mode, steepest
from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import (
    binomial_probability,
    binomial_tail,
    check_counts,
    delta_factors,
    epsilon_lower_bound,
    largest_rejected,
    sharp_epsilon_lower_bound,
    sharp_p_values,
)
from fl_audit.estimators.one_run.guesses import Guesses, right_among_surest
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores, check_confidence, check_delta, check_epsilon

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
    distribution = binomial_probability(np.full_like(right, few), right, few_logit)
    needed = np.asarray(at_least, dtype=np.int64)
    others = needed[..., np.newaxis] - right
    tails = binomial_tail(np.full_like(others, many), others, many_logit)
    return np.asarray(np.where(needed <= 0, 1.0, np.minimum(tails @ distribution, 1.0)))


def inclusion_p_value(
    m: int, guesses: Guesses, *, inclusion: float, epsilon: float, delta: float
) -> float:
    """A proven bound on the chance of so many right guesses under (epsilon, delta)-DP.

    It is f(v) + m delta (pi g+ + (1 - pi) g-), at most 1, with f from `right_guesses_tail`; see
    weighted_guesses.py for g and the proof. At inclusion 1/2 f is that of Corollary 5.4.

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
    that proof has a gap (see weighted_guesses.py): rely on `inclusion_p_value`.

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
    """A bound on g for `own` guesses of one kind and `other` of the other kind."""
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


# A training set of fixed size: of each pair exactly one canary is included.
#
# Steinke et al. (2023), appendix A. A fair coin per pair says which of the two examples is trained
# on, and the auditor guesses which one was. The theory is unchanged with pairs for canaries, but
# what is tested is (epsilon, delta)-DP for the REPLACEMENT of an example, not its addition or
# removal.


@dataclass(frozen=True)
class PrivacyParameters:
    """Epsilon and delta of a definition of differential privacy.

    Attributes:
      epsilon: Value of epsilon, at least 0.
      delta: Value of delta, at least 0; with 1 or more nothing is private.
    """

    epsilon: float
    delta: float


def replacement_parameters(epsilon: float, delta: float) -> PrivacyParameters:
    """The parameters for replacement that (epsilon, delta)-DP for addition or removal implies.

    They are (2 epsilon, (e^epsilon + 1) delta): Steinke et al. (2023), appendix A, footnote 5.

    Args:
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> replacement_parameters(0.0, 0.25)
    PrivacyParameters(epsilon=0.0, delta=0.5)
    """
    check_epsilon(epsilon)
    check_delta(delta)
    grown = math.exp(min(epsilon, 700.0)) + 1
    return PrivacyParameters(2 * epsilon, grown * delta)


def paired_p_value(m: int, r: int, v: int, *, epsilon: float, delta: float) -> float:
    """The p-value of v right guesses out of r pairs for (epsilon, delta)-DP under replacement.

    At delta = 0 it is that of Corollary 5.4 for m pairs in place of canaries. For delta > 0 it has
    the proven and smaller delta term of one_run/bound.py.

    Args:
      m: Number of pairs.
      r: Number of guesses, at most m, fixed in advance.
      v: Number of right guesses, at most r.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(paired_p_value(100, 100, 75, epsilon=float(np.log(3)), delta=0.0), 3)
    0.553
    """
    check_counts(m, r, v)
    check_epsilon(epsilon)
    check_delta(delta)
    if v == 0:
        return 1.0
    return float(sharp_p_values(m, np.array([r]), np.array([v]), epsilon, delta)[0])


def add_remove_p_value(m: int, r: int, v: int, *, epsilon: float, delta: float) -> float:
    """The p-value of v right guesses out of r pairs for (epsilon, delta)-DP under add or remove.

    It is `paired_p_value` for the parameters that follow for replacement; 1 where their delta
    reaches 1.

    Args:
      m: Number of pairs.
      r: Number of guesses, at most m.
      v: Number of right guesses, at most r.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: If an argument is out of range.
    """
    implied = replacement_parameters(epsilon, delta)
    if implied.delta >= 1:
        return 1.0
    return paired_p_value(m, r, v, epsilon=implied.epsilon, delta=implied.delta)


def add_remove_epsilon_lower_bound(
    m: int, r: int, v: int, *, delta: float, confidence: float
) -> float:
    """The largest epsilon under add or remove that v right guesses out of r pairs reject.

    At delta = 0 it is half the bound for replacement.

    Args:
      m: Number of pairs.
      r: Number of guesses, at most m.
      v: Number of right guesses, at most r.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> made = add_remove_epsilon_lower_bound(100, 100, 75, delta=0.0, confidence=0.95)
    >>> round(made, 3)
    0.351
    """
    check_confidence(confidence)
    p_of = functools.partial(add_remove_p_value, m, r, v, delta=delta)
    check_counts(m, r, v)
    check_delta(delta)
    counts = np.array([r]), np.array([v])
    return largest_rejected(
        lambda epsilon: p_of(epsilon=epsilon),
        lambda epsilon: float(binomial_tail(*counts, 2 * epsilon)[0]),
        1 - confidence,
    )


def paired_one_run(
    scores: CanaryScores, *, delta: float, confidence: float, guesses: int | None = None
) -> Estimate:
    """The one-run bound from pairs, for epsilon under replacement.

    Steinke et al. (2023), appendix A; only the surest guesses are made, as many as asked for.

    Args:
      scores: Scores of all pairs.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).
      guesses: Number of guesses r, fixed before the scores were seen; by default all pairs.

    Raises:
      InputError: If an argument is out of range.

    >>> scores = CanaryScores(np.arange(1.0, 51.0), np.zeros(50), "pairs")
    >>> round(paired_one_run(scores, delta=0.0, confidence=0.95).epsilon, 3)
    2.785
    """
    m = scores.num_coins
    r = m if guesses is None else guesses
    if not 0 <= r <= m:
        raise InputError(f"guesses (r) must be in [0, {m}], the number of pairs, got {r}")
    v = int(right_among_surest(scores)[r])
    epsilon = sharp_epsilon_lower_bound(m, r, v, delta, confidence)
    add_remove = add_remove_epsilon_lower_bound(m, r, v, delta=delta, confidence=confidence)
    return Estimate(
        method="paired_one_run",
        kind="lower_bound",
        epsilon=epsilon,
        lower=epsilon,
        valid_for="any mechanism",
        assumes="Of each pair exactly one example was included, by an independent fair coin.",
        guarantee=(
            f"True epsilon for the replacement of one example is at least this with "
            f"{100 * confidence:g} % confidence, if the number of guesses was fixed before the "
            "scores were seen."
        ),
        source=(
            "Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, appendix A; "
            "delta as in our one_run/bound.py"
        ),
        details={
            "m": m,
            "guesses": r,
            "correct": v,
            "p_value_at_epsilon_0": paired_p_value(m, r, v, epsilon=0.0, delta=delta),
            "epsilon_by_corollary_5_4": epsilon_lower_bound(m, r, v, delta, confidence),
            "epsilon_add_or_remove": add_remove,
        },
    )
