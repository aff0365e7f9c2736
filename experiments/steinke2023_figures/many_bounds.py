"""The one-run bound for many numbers of guesses at once (Steinke et al. 2023, appendix D)."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import beta_quantile
from fl_audit.estimators.one_run.bound import binomial_probability, binomial_tail, p_values
from fl_audit.estimators.scores import check_confidence, check_delta, check_epsilon

_CLOSE = 1e-9
"""Relative change of epsilon at which the search ends: that step leaves about its square."""

_MOST_STEPS = 40
_HALVINGS = 55
_IN_TURN = 8
"""The number of steps of both together, after which epsilon waits until its window is the best."""


def epsilon_lower_bounds(
    m: int, r: npt.ArrayLike, v: npt.ArrayLike, *, delta: float, confidence: float
) -> FloatArray:
    """The bounds of `bound.epsilon_lower_bound` for arrays of guesses and of right guesses.

    Steinke et al. (2023), Theorem 5.2 in the form of Corollary 5.4 and appendix D. All bounds are
    searched for together, by Newton's method.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [0, m], int64 of shape (n,).
      v: Numbers of right guesses in [0, r], int64 of shape (n,).
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of each bound by itself, in (0, 1).

    Returns:
      The lower bounds on epsilon, at least 0 and finite, float64 of shape (n,).

    Raises:
      InputError: If an argument is out of range.

    >>> epsilon_lower_bounds(1000, 100, [60, 75, 90], delta=1e-4, confidence=0.95).round(3).tolist()
    [0.027, 0.673, 1.581]
    """
    check_delta(delta)
    check_confidence(confidence)
    guesses, correct = checked_counts(m, r, v)
    bounds = np.zeros(guesses.size)
    r, v = guesses.ravel(), correct.ravel()
    alpha = 1 - confidence
    start = _without_delta(r, v, alpha)
    rejects = np.flatnonzero(start > 0)
    if delta > 0:
        rejects = rejects[_rejects_zero(m, r[rejects], v[rejects], delta, alpha)]
    search = _Search.at(r[rejects], v[rejects], start[rejects], 2 * m * delta, alpha)
    bounds[rejects] = search.roots()
    rest = rejects[np.isnan(bounds[rejects])]
    bounds[rest] = _bisected(m, r[rest], v[rest], delta=delta, alpha=alpha)
    return bounds.reshape(guesses.shape)


def checked_counts(m: int, r: npt.ArrayLike, v: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Numbers of guesses and of right guesses as integer arrays of one shape.

    Raises:
      InputError: If not 0 <= v <= r <= m and 1 <= m, or a number is not whole.
    """
    if m < 1:
        raise InputError(f"examples (m) must be at least 1, got {m}")
    guesses, correct = np.broadcast_arrays(
        _whole("guesses (r)", r, f"[0, {m}], the number of examples"),
        _whole("correct (v)", v, "[0, r], the number of guesses"),
    )
    _refuse(
        "guesses (r)", guesses, (guesses < 0) | (guesses > m), f"[0, {m}], the number of examples"
    )
    _refuse(
        "correct (v)", correct, (correct < 0) | (correct > guesses), "[0, r], the number of guesses"
    )
    return guesses, correct


def _whole(name: str, counts: npt.ArrayLike, wanted: str) -> IntArray:
    values = np.asarray(counts)
    if values.size and not np.issubdtype(values.dtype, np.integer):
        raise InputError(f"{name} must be whole numbers in {wanted}, got {values.ravel()[0]!r}")
    return values.astype(np.int64)


def _refuse(name: str, counts: IntArray, bad: npt.NDArray[np.bool_], wanted: str) -> None:
    if np.any(bad):
        raise InputError(f"{name} must be in {wanted}, got {counts[bad][0]}")


def _without_delta(r: IntArray, v: IntArray, alpha: float) -> FloatArray:
    """The bound at delta = 0, that of Clopper and Pearson; 0 where it is not positive."""
    bounds = np.zeros(len(r))
    some = np.flatnonzero(binomial_tail(r, v, 0.0) < alpha)
    bounds[some] = special.logit(beta_quantile(v[some], r[some] - v[some] + 1, alpha))
    # A quantile that rounds to 1 is no start.
    return np.clip(bounds, 0.0, 36.0)


def _rejects_zero(
    m: int, r: IntArray, v: IntArray, delta: float, alpha: float
) -> npt.NDArray[np.bool_]:
    """Whether the p-value at epsilon 0 is below alpha.

    Mostly a bound on it will do: (f(v - i) - f(v)) / i is at most f(v - c) for i <= c and at most
    1 / c for i >= c (Steinke et al., proof of Corollary 5.3).
    """
    c = np.maximum((2 * v - r) // 4, 1)
    slope = np.maximum(binomial_tail(r, v - c, 0.0), 1 / c)
    rejects = np.asarray(binomial_tail(r, v, 0.0) + 2 * m * delta * slope < alpha)
    unclear = np.flatnonzero(~rejects)
    rejects[unclear] = p_values(m, r[unclear], v[unclear], 0.0, delta) < alpha
    return rejects


def _bisected(m: int, r: IntArray, v: IntArray, *, delta: float, alpha: float) -> FloatArray:
    """The bounds by bisection between 0, which is rejected, and the bound without delta."""
    low, high = np.zeros(len(r)), _without_delta(r, v, alpha) * (1 + _CLOSE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = p_values(m, r, v, middle, delta) < alpha
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def _best_window(z: float) -> float:
    """The x > 0 with the largest (Q(z - x) - Q(z)) / x for a standard normal's upper tail Q."""
    if z <= 0.1:
        return 0.0

    def excess(x: float) -> float:
        density = math.exp(-((z - x) ** 2) / 2) / math.sqrt(2 * math.pi)
        return density * x - float(special.ndtr(x - z) - special.ndtr(-z))

    return float(optimize.brentq(excess, z, 3 * z + 10))


@dataclass
class _Search:
    """Newton's method on Phi^-1 of the p-value, which is nearly a line in epsilon.

    The p-value is a maximum over windows i = 1..v. At fixed i its derivative is known, and by the
    envelope theorem it is that of the maximum; so i and epsilon are improved in turn.

    Attributes:
      r: Numbers of guesses, int64 of shape (n,).
      v: Numbers of right guesses, at least 1, int64 of shape (n,).
      epsilon: Points where the p-value is taken next, float64 of shape (n,).
      window: Windows i in [1, v], int64 of shape (n,).
      low: Points where the p-value is below alpha, float64 of shape (n,).
      high: Points where the p-value is not below alpha, float64 of shape (n,).
      weight: The factor 2 m delta.
      alpha: Level of the test, in (0, 1).
    """

    r: IntArray
    v: IntArray
    epsilon: FloatArray
    window: IntArray
    low: FloatArray
    high: FloatArray
    weight: float
    alpha: float

    @classmethod
    def at(
        cls, r: IntArray, v: IntArray, start: FloatArray, weight: float, alpha: float
    ) -> "_Search":
        deviation = np.sqrt(r * special.expit(start) * special.expit(-start))
        window = np.rint(_best_window(-float(special.ndtri(alpha))) * deviation)
        return cls(
            r=r,
            v=v,
            epsilon=start,
            window=np.clip(window.astype(np.int64), 1, v),
            low=np.zeros_like(start),
            high=np.full_like(start, np.inf),
            weight=weight,
            alpha=alpha,
        )

    def roots(self) -> FloatArray:
        """The points where the p-value reaches alpha, of shape (n,); NaN if none was found."""
        found = np.full(len(self.r), np.nan)
        open_ = np.arange(len(self.r))
        for step in range(_MOST_STEPS):
            if len(open_) == 0:
                break
            settled = self._step(waits=step >= _IN_TURN)
            found[open_[settled]] = self.epsilon[settled]
            open_ = open_[~settled]
            for name in ("r", "v", "epsilon", "window", "low", "high"):
                setattr(self, name, getattr(self, name)[~settled])
        return found

    def _step(self, waits: bool) -> npt.NDArray[np.bool_]:
        """Take one step for all, and return which have arrived."""
        i, epsilon = self.window, self.epsilon
        at_v = binomial_tail(self.r, self.v, epsilon)
        slope = self.weight / i
        if self.weight == 0:
            best, p, growth = np.ones(len(i), dtype=bool), at_v, self._growth(self.v)
        else:
            mass = binomial_tail(self.r, self.v - i, epsilon) - at_v
            best = self._improve_window(mass)
            p = at_v + slope * mass
            growth = self._growth(self.v) * (1 - slope) + slope * self._growth(self.v - i)
        below = p < self.alpha
        self.low = np.where(below & best, epsilon, self.low)
        self.high = np.where(below, self.high, np.minimum(self.high, epsilon))
        moved = self._newton(p, growth)
        self.epsilon = np.where(best | (not waits), moved, epsilon)
        return np.asarray(best & (np.abs(self.epsilon - epsilon) <= _CLOSE * epsilon))

    def _newton(self, p: FloatArray, growth: FloatArray) -> FloatArray:
        """The next epsilon, by Newton's step where it stays between low and high."""
        z = special.ndtri(p)
        with np.errstate(all="ignore"):
            density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
            newton = self.epsilon - (z - special.ndtri(self.alpha)) * density / growth
        inside = (newton >= self.low) & (newton <= self.high)
        middle = np.where(np.isinf(self.high), 2 * self.epsilon + 1, (self.low + self.high) / 2)
        return np.where(inside, newton, middle)

    def _growth(self, k: IntArray) -> FloatArray:
        """The derivative by epsilon of the chance of k or more right guesses."""
        safe = np.clip(k, 1, self.r)
        grown = (
            safe * binomial_probability(self.r, safe, self.epsilon) * special.expit(-self.epsilon)
        )
        return np.where(k < 1, 0.0, grown)

    def _improve_window(self, mass: FloatArray) -> npt.NDArray[np.bool_]:
        """Move each window towards its best, and return which were best already.

        The mean of the i probabilities below v is largest where the last of them is at least this
        mean and the next is not: where i times the last is the sum, for which Newton steps lead.
        """
        i = self.window
        last = binomial_probability(self.r, self.v - i, self.epsilon)
        following = np.where(
            i < self.v,
            binomial_probability(self.r, np.maximum(self.v - i - 1, 0), self.epsilon),
            0.0,
        )
        longer, shorter = (
            (following > mass / i * (1 + 1e-10)) & (i < self.v),
            last < mass / i * (1 - 1e-10),
        )
        vanished = mass <= 0
        with np.errstate(all="ignore"):
            newton = (last * i - mass) / (i * (last - following))
        ahead = np.where(last > following, np.clip(newton, -i // 2, i // 2 + 2), i // 2 + 2)
        step = np.rint(np.nan_to_num(ahead)).astype(np.int64)
        step = np.where(
            longer | vanished, np.maximum(step, 1), np.where(shorter, np.minimum(step, -1), 0)
        )
        self.window = np.clip(i + step, 1, self.v)
        return np.asarray((self.window == i) & ~vanished)


# The one-run test with a number of guesses chosen from the scores, but not from the coins.
#
# Steinke et al. (2023), Corollary 5.8, for guesses that are right (1), wrong or not made (0).


def dynamic_p_values(
    m: int, r: npt.ArrayLike, v: npt.ArrayLike, *, epsilon: float, delta: float, tau: float
) -> FloatArray:
    """P-values of v right guesses out of r for (epsilon, delta)-DP, r chosen from the scores.

    Each is the chance that Binomial(r, e^epsilon / (1 + e^epsilon)) is at least v - tau, plus 2 m
    delta / tau, at most 1. It is at most gamma + 2 m delta / tau exactly if v >= g(T, gamma) + tau
    for some g that Corollary 5.8 allows. The corollary needs from Proposition 5.7 no more than the
    mean number of failures, so that what is wrong with the proposition (see one_run/bound.py) does
    no harm here.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [0, m], int64 of shape (n,); any function of the scores, but not of
        the coins.
      v: Numbers of right guesses in [0, r], int64 of shape (n,).
      epsilon: The epsilon of the null hypothesis, finite and at least 0.
      delta: The delta of the null hypothesis, in [0, 1).
      tau: Number of right guesses given away to failures, above 0, chosen before the scores are
        seen.

    Raises:
      InputError: If an argument is out of range.

    >>> p = dynamic_p_values(100, [30, 100], [28, 75], epsilon=np.log(3), delta=1e-5, tau=1)
    >>> p.round(3).tolist()
    [0.039, 0.644]
    """
    guesses, correct = checked_counts(m, r, v)
    check_epsilon(epsilon)
    check_delta(delta)
    _check_tau(tau)
    chance = binomial_tail(guesses, _surely_right(correct, tau), epsilon)
    return np.asarray(np.minimum(chance + 2 * m * delta / tau, 1.0))


def dynamic_epsilon_bounds(
    m: int, r: npt.ArrayLike, v: npt.ArrayLike, *, delta: float, confidence: float, tau: float
) -> FloatArray:
    """The largest epsilon that v right guesses out of r reject, r chosen from the scores.

    It is 0 where they reject none. Each is a valid lower bound on epsilon at the given confidence:
    the Clopper-Pearson bound of v - tau right guesses at level 1 - confidence - 2 m delta / tau.
    The largest of several, with r chosen by several rules, is not.

    Args:
      m: Number of canaries, each included with probability 1/2.
      r: Numbers of guesses in [0, m], int64 of shape (n,); any function of the scores, but not of
        the coins.
      v: Numbers of right guesses in [0, r], int64 of shape (n,).
      delta: The delta of differential privacy, in [0, 1).
      confidence: Confidence of the bound, in (0, 1).
      tau: Number of right guesses given away to failures, above 0, chosen before the scores are
        seen.

    Raises:
      InputError: If an argument is out of range.

    >>> found = dynamic_epsilon_bounds(
    ...     100, [30, 100], [28, 75], delta=1e-5, confidence=0.95, tau=1
    ... )
    >>> found.round(3).tolist()
    [1.151, 0.65]
    """
    guesses, correct = checked_counts(m, r, v)
    check_delta(delta)
    check_confidence(confidence)
    _check_tau(tau)
    gamma = 1 - confidence - 2 * m * delta / tau
    if gamma <= 0:
        return np.zeros(guesses.shape)
    sure = _surely_right(correct, tau)
    right = np.maximum(sure, 1)
    bounds = special.logit(beta_quantile(right, np.maximum(guesses - right, 0) + 1, gamma))
    return np.asarray(np.where(sure >= 1, np.maximum(bounds, 0.0), 0.0))


def _surely_right(v: IntArray, tau: float) -> IntArray:
    """The least number of right guesses that is at least v - tau."""
    given_away = min(tau, float(np.max(v, initial=0)) + 1)  # tau may be infinite
    return np.asarray(np.ceil(v - given_away), dtype=np.int64)


def _check_tau(tau: float) -> None:
    if not tau > 0:
        raise InputError(f"tau must be above 0, got {tau}")
