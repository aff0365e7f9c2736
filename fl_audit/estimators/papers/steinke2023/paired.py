"""The one-run test for a training set of fixed size: of each pair exactly one is included.

Steinke et al. (2023), appendix A. A fair coin per pair says which of the two examples is trained
on, and the auditor guesses which one was. The theory is unchanged with pairs for canaries, but what
is tested is (epsilon, delta)-DP for the REPLACEMENT of an example, not its addition or removal.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.one_run.bound import binomial_tail, check_counts, epsilon_lower_bound
from fl_audit.estimators.one_run.largest_rejected import largest_rejected
from fl_audit.estimators.one_run.pair_scores import PairScores, right_among_surest
from fl_audit.estimators.one_run.sharp import sharp_epsilon_lower_bound, sharp_p_values
from fl_audit.estimators.result import Estimate


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
    the proven and smaller delta term of sharp.py.

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


def paired_epsilon_lower_bound(m: int, r: int, v: int, *, delta: float, confidence: float) -> float:
    """The largest epsilon under replacement that v right guesses out of r pairs reject.

    Args:
      m: Number of pairs.
      r: Number of guesses, at most m, fixed in advance.
      v: Number of right guesses, at most r.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(paired_epsilon_lower_bound(100, 100, 75, delta=0.0, confidence=0.95), 3)
    0.702
    """
    return sharp_epsilon_lower_bound(m, r, v, delta, confidence)


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
    scores: PairScores, *, delta: float, confidence: float, guesses: int | None = None
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

    >>> scores = PairScores(included=np.arange(1.0, 51.0), excluded=np.zeros(50))
    >>> round(paired_one_run(scores, delta=0.0, confidence=0.95).epsilon, 3)
    2.785
    """
    m = scores.num_pairs
    r = m if guesses is None else guesses
    if not 0 <= r <= m:
        raise InputError(f"guesses (r) must be in [0, {m}], the number of pairs, got {r}")
    v = int(right_among_surest(scores)[r])
    epsilon = paired_epsilon_lower_bound(m, r, v, delta=delta, confidence=confidence)
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
            "delta as in our one_run/sharp.py"
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
