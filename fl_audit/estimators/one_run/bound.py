"""Correct guesses in one training run: Steinke, Nasr & Jagielski (2023), arXiv:2305.08846.

Each of m canaries is included by an independent fair coin. The auditor guesses for r of them and
is right v times. Under (epsilon, delta)-DP, v is stochastically at most Binomial(r, e^epsilon / (1
+ e^epsilon)), up to a term in delta.

The bound of Corollary 5.4 is `epsilon_lower_bound`. `sharp_epsilon_lower_bound` replaces it: it
uses the exact largest chance of v or more correct guesses out of r under (epsilon, delta)-DP.

If p-values are small, the delta term of Theorem 5.2 and Corollary 5.4 is several times too large
(at the 5 % level 2.6 times at epsilon 0, 11 times at epsilon 2, 70 times at epsilon 4). If p-values
are near 1 it is too small, so Corollary 5.4 as printed is not a theorem: for m = r = 2, v = 1,
epsilon = 1 and delta = 0.1 it says 0.957, and a mechanism with these parameters reaches 0.962 (in
the tests). No such case was found where the chance at delta 0 is below 0.87, far above the level
of any usual bound on epsilon. The gap is in Proposition 5.7: the number F of failures depends on
the coins, as does the number of correct guesses, but the proof ignores that.

The proof here needs no failures. Let c in {0, 1}^r mark the correct guesses, let f(c) be the
indicator of an increasing event, p = e^epsilon / (1 + e^epsilon), and E f the chance of the event
if each guess is right independently with probability p. Let P_t f(c) be the event's chance after
each coordinate of c has been resampled with probability 1 - e^-t; h the integral over t >= 0 of P_t
f - E f; and g_j(c) = (1 - p) (h(c with c_j = 1) - h(c with c_j = 0)). Then f(c) - E f is the sum
over j of h(c) less its mean over a new c_j, that is

    f(c) - E f = (sum over j with c_j = 1 of g_j(c)) - e^epsilon (sum over c_j = 0 of g_j(c)),  (1)
    g_j(c) = (1 - p) (mean over s in [0, 1] of the chance that c_j decides the event, once each
             other coordinate is kept with probability s and else resampled).                   (2)

Now let S be the coins and T = M(S) the output of the mechanism, which decides the guesses and their
order. Write u_i(S, T) for g_j(c) if canary i is guessed j-th and that guess is right, else 0.
Flipping coin i flips c_j alone and leaves g_j as it is, and S with coin i flipped is as likely as
S. So the mean of (1) over S and T is the sum over the m canaries i of

    E u_i(S, M(S)) - e^epsilon E u_i(S, M(S with coin i flipped)) <= delta max g,

by (epsilon, delta)-DP. Hence P(event) <= E f + m delta max g.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import beta_cdf, supremum
from fl_audit.estimators.scores import check_confidence, check_delta, check_epsilon
from fl_audit.estimators.setting import NotApplicableError

_MOST_EXAMPLES = 10**7
"""The largest number of examples for which the bound takes only seconds."""


def p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """An upper bound on the chance of v or more correct guesses under (epsilon, delta)-DP.

    It is f(v) + 2 m delta max over i of (f(v - i) - f(v)) / i, at most 1, where f(v) is the chance
    that Binomial(r, e^epsilon / (1 + e^epsilon)) is at least v. Steinke et al. (2023), Corollary
    5.4 and appendix D.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Number of guesses, at most m; the auditor abstains on the other m - r canaries.
      v: Number of correct guesses, at most r.
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).

    Raises:
      InputError: An argument is out of range.

    >>> round(p_value(100, 100, 75, np.log(3), 0), 3)  # as the paper prints
    0.553
    """
    check_counts(m, r, v)
    check_epsilon(epsilon)
    check_delta(delta)
    return float(p_values(m, np.array([r]), np.array([v]), epsilon, delta)[0])


def epsilon_lower_bound(m: int, r: int, v: int, delta: float, confidence: float) -> float:
    """The largest epsilon that v correct guesses out of r reject; 0 if they reject none.

    Computed to the last bit (Steinke et al. 2023, appendix D). It is a valid lower bound on epsilon
    at the given confidence if r was fixed before the scores were seen.

    Arguments and errors are those of `p_value`; `confidence` is in (0, 1).

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
    m: int, r: IntArray, v: IntArray, epsilon: float | FloatArray, delta: float
) -> FloatArray:
    """`p_value` for many counts and epsilons, which are broadcast and not checked."""
    chance = binomial_tail(r, v, epsilon)
    if delta == 0:
        return chance
    return np.asarray(np.minimum(chance + 2 * m * delta * _steepest(r, v, epsilon), 1.0))


def binomial_tail(r: IntArray, v: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """f(v), P(Binomial(r, expit(epsilon)) >= v), broadcast: 1 for v <= 0, 0 for v > r."""
    safe = np.clip(v, 1, r)
    tail = beta_cdf(safe, r - safe + 1, special.expit(epsilon))
    # For a large epsilon expit(epsilon) rounds to 1; for a small one 1 - beta_cdf loses digits.
    large = tail > 0.5
    if np.any(large):
        tail = np.where(large, 1 - beta_cdf(r - safe + 1, safe, special.expit(-epsilon)), tail)
    return np.where(v <= 0, 1.0, np.where(v > r, 0.0, tail))


def _steepest(r: IntArray, v: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """Max over i in 1..v of (f(v - i) - f(v)) / i: the mean of the i probabilities below v.

    The binomial is unimodal, so this mean grows with i while the next probability is at least the
    mean so far; bisection finds the last such i. Beyond v the numerator is constant.
    """
    at_v = binomial_tail(r, v, epsilon)

    def mean_below(i: IntArray) -> FloatArray:
        return np.asarray((binomial_tail(r, v - i, epsilon) - at_v) / i)

    low, high = np.ones_like(v), np.maximum(v, 1)
    while np.any(low < high):
        middle = (low + high + 1) // 2
        growing = binomial_probability(r, v - middle, epsilon) >= mean_below(
            np.maximum(middle - 1, 1)
        )
        low, high = np.where(growing, middle, low), np.where(growing, high, middle - 1)
    return mean_below(low)


def binomial_probability(r: IntArray, k: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """The probability that Binomial(r, e^epsilon / (1 + e^epsilon)) is k in [0, r]; broadcasts."""
    # By betaln: differences of gammaln lose digits for a million guesses.
    log_choices = -np.log1p(r) - special.betaln(r - k + 1.0, k + 1.0)
    with np.errstate(over="ignore"):  # underflows if epsilon is near the largest float
        log_chance = k * special.log_expit(epsilon) + (r - k) * special.log_expit(-epsilon)
    return np.asarray(np.exp(log_choices + log_chance))


def check_counts(m: int, r: int, v: int) -> None:
    """Raise InputError unless 0 <= v <= r <= m and m is from 1 to 10^7."""
    if m < 1:
        raise InputError(f"examples (m) must be at least 1, got {m}")
    if m > _MOST_EXAMPLES:
        raise NotApplicableError(f"examples (m) must be at most {_MOST_EXAMPLES:,}, got {m:,}")
    if not 0 <= r <= m:
        raise InputError(f"guesses (r) must be in [0, {m}], the number of examples, got {r}")
    if not 0 <= v <= r:
        raise InputError(f"correct (v) must be in [0, {r}], the number of guesses, got {v}")


_TRIED = 24
_TOLERANCE = 1e-9
_XTOL = _TOLERANCE / 10
_TINY = 1e-300
_LARGEST = 700.0


def largest_rejected(
    p_value: Callable[[float], float], chance: Callable[[float], float], alpha: float
) -> float:
    """The largest epsilon found with a p-value below alpha, by refining a grid; 0 if there is none.

    `chance` is the p-value at delta = 0, which grows with epsilon and is at most `p_value`. The
    result is 700, beyond which e^epsilon overflows, if everything up to there is rejected.

    A test that rejects (epsilon, delta)-DP may reject all smaller epsilons too, since these imply
    the larger (Steinke et al. 2023, Lemma 4.7). So every epsilon with a p-value below alpha is a
    valid bound, even if the p-value grows again towards epsilon = 0, as terms in delta do. The
    search goes down from the point where the chance at delta = 0 reaches alpha; 1e-9 is subtracted,
    to err on the valid side.

    >>> round(largest_rejected(lambda x: x / 10 + 0.01, lambda x: x / 10, 0.05), 6)
    0.4
    """
    if chance(0.0) >= alpha:
        return 0.0
    above = 1.0
    while chance(above) < alpha:
        above *= 2
        if above > _LARGEST:
            return _LARGEST
    limit = crossing_point(chance, alpha, above / 2 if above > 1 else 0.0, above, _XTOL)
    grid = np.linspace(0.0, limit, _TRIED + 1)
    for low, high in zip(grid[-2::-1], grid[:0:-1], strict=True):
        if p_value(float(low)) < alpha:
            crossing = crossing_point(p_value, alpha, float(low), float(high), _XTOL)
            return max(crossing - _TOLERANCE, float(low))
    return 0.0


def crossing_point(
    p_value: Callable[[float], float], alpha: float, low: float, high: float, xtol: float
) -> float:
    """The epsilon at which a p-value, below alpha at `low`, reaches alpha; at most `high`."""

    def excess(epsilon: float) -> float:
        # As normal quantiles, which are nearly linear in epsilon.
        quantile = special.ndtri(np.clip(p_value(epsilon), _TINY, 1 - 1e-16))
        return float(quantile - special.ndtri(alpha))

    if excess(high) <= 0:
        return high
    return float(optimize.brentq(excess, low, high, xtol=xtol))


_UNDERFLOW = 1e-290


def sharp_p_values(m: int, r: IntArray, v: IntArray, epsilon: float, delta: float) -> FloatArray:
    """The largest chance of v or more correct guesses out of r under (epsilon, delta)-DP.

    It is f(v) + m delta g, at most 1, with f(v) the chance that Binomial(r, p) is at least v for p
    = e^epsilon / (1 + e^epsilon), and g from `delta_factors`. The module's docstring proves the
    bound. It is attained by randomised response on r canaries drawn at random which, with
    probability min(1, m delta g / (1 - f(v))), is conditioned on v or more correct answers. This
    mechanism satisfies (epsilon, delta)-DP.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [1, m], each fixed in advance, int64 of shape (n,).
      v: Numbers of correct guesses in [1, r], int64 of shape (n,).
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
    """The largest epsilon that v correct guesses out of r reject by `sharp_p_values`, or 0.

    It is a valid lower bound on epsilon at the given confidence if r was fixed before the scores
    were seen. With delta 0 the bound is Corollary 5.4 of Steinke et al. (2023).

    Arguments and errors are those of `p_value`; `confidence` is in (0, 1).

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


def delta_factors(r: IntArray, v: IntArray, epsilon: float | FloatArray) -> FloatArray:
    """The largest g in (2) if the event is v or more correct guesses; broadcasts.

    It is f(v) (1 - f(v)) / (v P(Binomial(r, p) = v)): there g depends on the number of correct
    guesses alone, (1) is Stein's equation of the binomial distribution, and its solution is largest
    at v.
    """
    chance = binomial_tail(r, v, epsilon)
    at_v = binomial_probability(r, v, epsilon)
    # If both underflow: beyond v, probabilities fall faster than this geometric series.
    fall = (r - v) / (v + 1) * np.exp(np.minimum(epsilon, 700.0))
    series = 1 / np.maximum(1 - fall, np.finfo(float).tiny)
    tail_ratio = np.where(at_v > _UNDERFLOW, chance / np.maximum(at_v, _UNDERFLOW), series)
    # The chance in (2) is at most 1.
    return np.asarray(np.minimum((1 - chance) * tail_ratio / v, special.expit(-epsilon)))


# A mechanism for which the one-run test is nearly tight: Steinke et al. (2023), Algorithm 4.
#
# It guesses by randomised response about r canaries drawn at random. With probability beta, all its
# guesses are better at once, as if delta were m / (r beta) times larger. So delta matters far more
# than for independent guesses: each guess is private, but the guesses are dependent.


@dataclass(frozen=True)
class PathologicalMechanism:
    """Algorithm 4, which is (epsilon, delta)-DP in each canary's inclusion.

    Attributes:
      num_canaries: Number of canaries m.
      num_guesses: Number of guesses r, in [1, m].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1); 0 gives randomised response on r
        canaries.
      beta: The probability of the bad case, in (0, 1], at least m delta / r.

    Raises:
      InputError: A field is out of range.
    """

    num_canaries: int
    num_guesses: int
    epsilon: float
    delta: float
    beta: float

    def __post_init__(self) -> None:
        check_counts(self.num_canaries, self.num_guesses, 0)
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.num_guesses < 1:
            raise InputError("guesses (r) must be at least 1, got 0")
        if not 0 < self.beta <= 1:
            raise InputError(f"beta must be in (0, 1], got {self.beta}")
        if self.num_canaries * self.delta > self.num_guesses * self.beta * (1 + 1e-12):
            least = self.num_canaries * self.delta / self.num_guesses
            raise InputError(f"beta must be at least m delta / r = {least:g}, got {self.beta}")

    @property
    def revealed(self) -> float:
        """The probability m delta / (r beta) with which the bad case reveals a guessed canary."""
        return min(self.num_canaries * self.delta / (self.num_guesses * self.beta), 1.0)

    def guesses(self, inclusion: IntArray, rng: np.random.Generator) -> IntArray:
        """One run: the guesses T in {-1, 0, 1} of shape (m,), of which r are not 0.

        Args:
          inclusion: Signs S of shape (m,), 1 for an included canary and -1 for an excluded one.
          rng: The source of all randomness.

        Raises:
          InputError: inclusion is not of shape (m,) or holds other values than signs.
        """
        signs = np.asarray(inclusion)
        if signs.shape != (self.num_canaries,) or not np.all(np.abs(signs) == 1):
            raise InputError(f"inclusion must be {self.num_canaries} signs, -1 or 1")
        guessed = rng.choice(self.num_canaries, self.num_guesses, replace=False)
        logit = self.bad_logit() if rng.random() < self.beta else self.epsilon
        right = rng.random(self.num_guesses) < special.expit(logit)
        guesses = np.zeros(self.num_canaries, dtype=np.int64)
        guesses[guessed] = np.where(right, signs[guessed], -signs[guessed])
        return guesses

    def bad_logit(self) -> float:
        """The log odds of a correct guess in the bad case, infinite if everything is revealed.

        With x for `revealed` the odds are x + (1 - x) p to (1 - x) (1 - p), so the result is
        log(e^epsilon + x) - log(1 - x).
        """
        x = self.revealed
        if x == 1:
            return math.inf
        return self.epsilon + math.log1p(x * math.exp(-self.epsilon)) - math.log1p(-x)

    def tail(self, v: npt.ArrayLike) -> FloatArray:
        """The exact chances of v or more correct guesses, whatever the inclusion.

        >>> PathologicalMechanism(2, 2, 0.0, 0.25, 0.5).tail([0, 1, 2]).round(9).tolist()
        [1.0, 0.84375, 0.40625]
        """
        needed = np.asarray(v, dtype=np.int64)
        r = np.full_like(needed, self.num_guesses)
        bad = binomial_tail(r, needed, self.bad_logit())
        good = binomial_tail(r, needed, self.epsilon)
        return np.asarray(self.beta * bad + (1 - self.beta) * good)
