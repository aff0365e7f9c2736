"""The exact worst case of v or more right guesses out of r under (epsilon, delta)-DP.

It takes the place of Steinke et al. (2023), Theorem 5.2 and Corollary 5.4. Where p-values are
small, their delta term is several times too large (at the 5 % level by 2.6 at epsilon 0, by 11 at
epsilon 2, by 70 at epsilon 4). Where they are near 1 it is too small, so Corollary 5.4 as printed
is not a theorem: for m = r = 2, v = 1, epsilon = 1 and delta = 0.1 it says 0.957, and a mechanism
with these parameters reaches 0.962 (see the tests). No such case was found with f(v) below 0.87,
so the bounds on epsilon that the corollary gives at the usual confidences do hold. The gap is in
Proposition 5.7: the number F of failures depends on the coins, as does the number of right guesses,
and its proof leaves that out.

The proof here needs no failures. Let c in {0, 1}^r tell which guesses are right, let f(c) be the
indicator of an increasing event, p = e^epsilon / (1 + e^epsilon), and E f the chance of the event
if each guess is right independently with probability p. Let P_t f(c) be its chance after each
coordinate of c has been drawn anew with probability 1 - e^-t; h the integral over t >= 0 of
P_t f - E f; and g_j(c) = (1 - p) (h(c with c_j = 1) - h(c with c_j = 0)). Then f(c) - E f is the
sum over j of h(c) less its mean over a new c_j, that is

    f(c) - E f = (sum over j with c_j = 1 of g_j(c)) - e^epsilon (sum over c_j = 0 of g_j(c)),  (1)
    g_j(c) = (1 - p) (mean over s in [0, 1] of the chance that c_j decides about the event, once
             each other coordinate is kept with probability s and else drawn anew).             (2)

Now let S be the coins, T the output of the mechanism; T decides the guesses and their order.
Suppose canary i is guessed j-th, and write u_i(S, T) for g_j(c) if that guess is right, else 0.
Flipping coin i turns c_j alone, leaves g_j as it is, and S with it flipped is as likely as S. So
the mean of (1) over S and T is a sum over the guessed canaries i of

    E u_i(S, M(S)) - e^epsilon E u_i(S, M(S with coin i flipped)) <= delta max g,

by (epsilon, delta)-DP. Hence P(event) <= E f + m delta max g.
"""

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.arguments import check_confidence, check_delta
from fl_audit.estimators.one_run.bound import (
    binomial_probability,
    binomial_tail,
    check_counts,
)
from fl_audit.estimators.one_run.largest_rejected import largest_rejected

_UNDERFLOW = 1e-290


def sharp_p_values(m: int, r: IntArray, v: IntArray, epsilon: float, delta: float) -> FloatArray:
    """The largest chance of v or more right guesses out of r under (epsilon, delta)-DP.

    It is f(v) + m delta g, at most 1, with f(v) the chance that Binomial(r, p) is at least v for p
    = e^epsilon / (1 + e^epsilon), and g from `delta_factors`. The proof that it is a bound is
    above. It is reached: on r canaries drawn at random give randomised response, conditional on v
    or more right answers with probability min(1, m delta g / (1 - f(v))). That satisfies (epsilon,
    delta)-DP.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [1, m], each fixed in advance, int64 of shape (n,).
      v: Numbers of right guesses in [1, r], int64 of shape (n,).
      epsilon: The epsilon of differential privacy, at least 0.
      delta: The delta of differential privacy, in [0, 1).

    Returns:
      The chances, float64 of shape (n,).

    >>> two, one = np.array([2]), np.array([1])
    >>> sharp_p_values(2, two, one, epsilon=1.0, delta=0.1).round(4).tolist()
    [0.9618]
    """
    chance = binomial_tail(r, v, epsilon)
    if delta == 0:
        return chance
    return np.asarray(np.minimum(chance + m * delta * delta_factors(r, v, epsilon), 1.0))


def sharp_epsilon_lower_bound(m: int, r: int, v: int, delta: float, confidence: float) -> float:
    """The largest epsilon that v right guesses out of r reject by `sharp_p_values`, or 0.

    It is a valid lower bound on epsilon at the given confidence if r was fixed before the scores
    were seen. With delta 0 it is that of Steinke et al. (2023), Corollary 5.4.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Number of guesses, at most m.
      v: Number of right guesses, at most r.
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).

    Raises:
      InputError: If an argument is out of range.

    >>> round(sharp_epsilon_lower_bound(100, 100, 75, 1e-3, 0.95), 3)  # Corollary 5.4: 0.673
    0.695
    """
    check_counts(m, r, v)
    check_delta(delta)
    check_confidence(confidence)
    if v == 0:
        return 0.0
    guesses, right = np.array([r]), np.array([v])
    return largest_rejected(
        lambda epsilon: float(sharp_p_values(m, guesses, right, epsilon, delta)[0]),
        lambda epsilon: float(binomial_tail(guesses, right, epsilon)[0]),
        1 - confidence,
    )


def delta_factors(r: IntArray, v: IntArray, epsilon: float) -> FloatArray:
    """The largest g in (2) if the event is v or more right guesses, float64 of shape (n,).

    It is f(v) (1 - f(v)) / (v P(Binomial(r, p) = v)): there g depends on the number of right
    guesses alone, (1) is Stein's equation of the binomial law, and its solution is largest at v.
    """
    chance = binomial_tail(r, v, epsilon)
    at_v = binomial_probability(r, v, epsilon)
    # Where both underflow: beyond v, probabilities fall faster than this geometric series.
    fall = (r - v) / (v + 1) * np.exp(min(epsilon, 700.0))
    series = 1 / np.maximum(1 - fall, np.finfo(float).tiny)
    tail_ratio = np.where(at_v > _UNDERFLOW, chance / np.maximum(at_v, _UNDERFLOW), series)
    # No chance to decide is above 1.
    return np.asarray(np.minimum((1 - chance) * tail_ratio / v, special.expit(-epsilon)))
