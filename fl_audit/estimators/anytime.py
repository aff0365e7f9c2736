"""Lower bounds that hold at all rounds at once, for any number of looks: `AnytimeBound`.

**Bets** against a claim of privacy have one factor per included canary. Let u be the p-value of a
canary's score under its known null, and z = -Phi^-1(u). If the mechanism is (epsilon, delta)-
private, P(z >= t) <= e^epsilon Phi(-t) + delta for every t. So for a non-decreasing function f of z
with values in [0, B],

    E f(z) <= e^epsilon E f(N) + delta B,    N standard normal,

and (1 + f(z)) / (1 + e^epsilon E f(N) + delta B) has a mean of at most 1. The f used here are

    1 + f(z) = the number between 1 and 1 + B nearest to L(z) / h,    L(z) = exp(m z - m^2 / 2),

so that log(1 + f) is a straight line in z, clipped at 0 and at log(1 + B). If z is N(m, 1) for a
share s of canaries and N(0, 1) for all others, the factor of fastest growth is the likelihood ratio
of s N(m, 1) to e^epsilon times the null, censored from below and from above (Huber 1965; Huber &
Strassen 1973, whose neighbourhoods are min(1, e^epsilon Q + delta)). This fixes h and B for each m
and s; the stake is divided between bets on a few m and s. A suboptimal f only delays the rejection
of a claim; the test remains valid, because the divisor is computed for the f in use.

**The bound.** Each bet against a claim has a share of a stake of 1 and multiplies it by the bet's
factors for all canaries so far; the wealth is the sum. Under the claim it is a nonnegative
supermartingale over rounds that starts at 1 (docs/live_verdict.md), so that it ever reaches 1 /
alpha with probability at most alpha (Ville 1939). A claim whose wealth has reached 1 / alpha is
rejected for good. Claims on a grid are tested; the bound is the largest one up to which all are
rejected. It is valid at all rounds at once: it exceeds the true epsilon only if the smallest tested
claim at or above the true epsilon is rejected, and that claim is true.

If every canary has at most one round of its own, drawn independently of coins and vectors, the
wealth is a supermartingale in two cases.

First, if canaries' scores are independent given inclusion: given all other scores, a canary's z
keeps its distribution, and its factor's mean is at most 1. Multiply canary by canary.

Second, if delta is 0 and canaries' vectors are independent, under any dependence of the scores: the
canaries of a round have not participated in the history H, so H has the same distribution with and
without them; the round is epsilon-DP given H. Expand the product of 1 + f_i as the sum over sets G
of the products of f_i over G. Leaving out the canaries of G changes each mean by a factor of at
most e^epsilon per canary (group privacy), and then their vectors are independent of the release and
of each other: the mean of the product over G is at most the product of e^epsilon a_i over G, with
a_i = E f_i(N). So the mean of the product of 1 + f_i given H is at most the product of 1 +
e^epsilon a_i. This uses f >= 0, f fixed before the round, and no canary twice.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from fl_audit.array_types import BoolArray, FloatArray
from fl_audit.estimators.distributions import narrowed

_NUM_SHIFTS = 6
"""The number of shifts m of the alternatives, evenly spaced in their logs."""

_SMALLEST_SHIFT, _LARGEST_SHIFT = 1.15, 5.0
"""The least and the largest m, in units of the largest shift of a Gaussian release within the
claim.
"""

_PLAIN_SHIFT = 3.0
"""The largest m is at least this, to find an obvious leak at tiny epsilon and delta."""

_SHARES = (1.0, 0.2)
"""Shares s of canaries that leave any trace."""

_LARGEST_FALL = 30.0
"""The largest loss by one canary without a trace, in nats."""

_LEAST_DELTA = 1e-12
"""In the choice of shifts, a smaller delta counts as this one."""

_LEAST_CENSORING = 1e-200
"""In the choice of the ceiling, a smaller delta counts as this one. Any value would be valid."""

_HALVINGS = 60
_SLACK = 1e-12
"""Added to the log of each divisor, to cover rounding."""


@dataclass(frozen=True, eq=False)
class Bets:
    """Bets against several claims, a row per claim, all float64 of shape (claims, bets)."""

    shift: FloatArray  # m, the slope of log(1 + f)
    start: FloatArray  # the z at which log(1 + f) leaves 0
    log_cap: FloatArray  # the largest log(1 + f)
    log_divisor: FloatArray  # the log of 1 + e^epsilon E f(N) + delta B
    log_weight: FloatArray  # the log of the bet's share of the stake; shares of a row add up to 1


def censored_bets(claims: FloatArray, delta: float) -> Bets:
    """The bets against claims of (epsilon, delta)-privacy, epsilons above 0 and at most 300."""
    epsilon = np.asarray(claims, dtype=np.float64)[:, None]
    edge = _shift_of_release(epsilon, max(delta, _LEAST_DELTA))
    largest = np.maximum(_LARGEST_SHIFT * edge, _PLAIN_SHIFT)[:, 0]
    shifts = np.geomspace(_SMALLEST_SHIFT * edge[:, 0], largest, _NUM_SHIFTS, axis=1)
    shift = np.repeat(shifts, len(_SHARES), axis=1)
    share = np.broadcast_to(np.tile(_SHARES, _NUM_SHIFTS), shift.shape)
    floor, ceiling = _censoring(shift, share, epsilon, delta)
    log_height = epsilon + floor - np.log(share)
    log_cap = ceiling - floor
    useful = log_cap > 0
    weight = np.where(useful.any(axis=1, keepdims=True), useful, True)
    weight = weight / weight.sum(axis=1, keepdims=True)
    mean = _mean(shift, log_height, log_cap)
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    return Bets(
        shift=shift,
        start=log_height / shift + shift / 2,
        log_cap=log_cap,
        log_divisor=np.log1p(np.exp(epsilon) * mean + delta * np.expm1(log_cap)) + _SLACK,
        log_weight=log_weight,
    )


def _shift_of_release(epsilon: FloatArray, delta: float) -> FloatArray:
    """The largest shift at which a Gaussian release is (epsilon, delta)-private, to 1e-9.

    Balle & Wang (2018), theorem 8, solved for the shift m of a release with unit noise.
    """

    def is_private(log_shift: FloatArray) -> BoolArray:
        m = np.exp(log_shift)
        far = np.exp(epsilon + log_ndtr(-m / 2 - epsilon / m))
        return np.asarray(np.exp(log_ndtr(m / 2 - epsilon / m)) - far <= delta)

    low, high = np.full_like(epsilon, math.log(1e-4)), np.full_like(epsilon, math.log(1e3))
    return np.exp(narrowed(is_private, low, high, _HALVINGS)[0])


def _censoring(
    shift: FloatArray, share: FloatArray, epsilon: FloatArray, delta: float
) -> tuple[FloatArray, FloatArray]:
    """Logs of the floor and the ceiling at which the likelihood ratio is censored.

    Between them the least favourable distribution is e^epsilon times the null, beyond them it is
    proportional to the alternative. Above the ceiling, it has delta more mass than e^epsilon times
    the null; its total mass is 1. Both logs are 0, for no bet, if the claim allows the alternative.
    """
    censored = max(delta, _LEAST_CENSORING)

    def masses(log_ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
        t = (log_ratio + epsilon - np.log(share)) / shift + shift / 2
        return share * np.exp(log_ndtr(shift - t)), np.exp(epsilon + log_ndtr(-t))

    def has_too_much_above(log_ratio: FloatArray) -> BoolArray:
        alternative, null = masses(log_ratio)
        return np.asarray(alternative * np.exp(-log_ratio) - null > censored)

    def has_too_much(log_ratio: FloatArray) -> BoolArray:
        alternative, null = masses(log_ratio)
        return np.asarray((1 - alternative) * np.exp(-log_ratio) + null + delta > 1)

    zero = np.zeros_like(shift)
    ceiling, _ = narrowed(has_too_much_above, zero, zero - math.log(censored), _HALVINGS)
    floor, _ = narrowed(has_too_much, zero - _LARGEST_FALL, zero, _HALVINGS)
    is_private = ceiling <= 1e-9
    return np.where(is_private, 0.0, floor), np.where(is_private, 0.0, ceiling)


def _mean(shift: FloatArray, log_height: FloatArray, log_cap: FloatArray) -> FloatArray:
    """E f(N) = P(t <= N + m < u) / h + (1 + B) P(N >= u) - P(N >= t).

    L is h at t and (1 + B) h at u. The first probability is a difference of values below 1/2, or of
    tails, so that it does not cancel.
    """
    t, u = log_height / shift + shift / 2, (log_height + log_cap) / shift + shift / 2
    below, above = ndtr(u - shift) - ndtr(t - shift), ndtr(shift - t) - ndtr(shift - u)
    rising = np.where(u < shift, below, above) * np.exp(-log_height)
    capped = np.exp(log_cap + log_ndtr(-u))
    return np.asarray(np.maximum(rising + capped - np.exp(log_ndtr(-t)), 0.0))


_GRID = np.concatenate([np.arange(1, 51) / 10, 5 * 1.02 ** np.arange(1, 207)])
"""The tested claims: up to 5 in steps of 0.1, then up to 295 in steps of 2 %."""

LARGEST_TESTED = float(_GRID[-1])
"""The largest claim of the grid, and so the largest lower bound unless a larger claim is added."""

_LEAST_LOG_TAIL = -1e7
_LARGEST_LOG_TAIL = -1e-300
_ROUNDING = 1e-9
"""Subtracted from each deviate z, times |z| if that is above 1, to cover rounding."""


def deviates(log_tails: npt.ArrayLike) -> FloatArray:
    """The standard normal deviates of log p-values.

    >>> deviates([math.log(0.5), -1e9]).round(1).tolist()
    [-0.0, 4472.1]
    """
    logs = np.clip(np.asarray(log_tails, np.float64), _LEAST_LOG_TAIL, _LARGEST_LOG_TAIL)
    z = -ndtri_exp(logs)
    return np.asarray(z - _ROUNDING * np.maximum(np.abs(z), 1.0))


class AnytimeBound:
    """The lower bound, round by round; `claims` are the tested epsilons, ascending."""

    def __init__(self, delta: float, claim: float | None = None) -> None:
        """Starts before the first round; `claim` in (0, 300] is tested in addition to the grid."""
        self.delta = delta
        self.claims = np.unique(_GRID if claim is None else np.append(_GRID, claim))
        self._bets = censored_bets(self.claims, delta)
        self._log_products = np.zeros_like(self._bets.shift)
        self._largest = np.zeros(len(self.claims))

    def add_round(self, log_tails: FloatArray) -> None:
        """Adds the included canaries of one round, by logs of upper bounds on their p-values."""
        self._log_products += log_factors(self._bets, deviates(log_tails))
        log_wealth = logsumexp(self._log_products + self._bets.log_weight, axis=1)
        self._largest = np.maximum(self._largest, log_wealth)

    def epsilon(self, confidence: float, at_least: float = 0.0) -> float:
        """The lower bound at a confidence for all rounds together; 0 if no claim is rejected.

        `at_least`, chosen before the first round, is 0 or the claim in `claims` that is tested
        first: smaller claims are skipped, and the bound is 0 if this claim is not rejected.
        """
        first = int(np.searchsorted(self.claims, at_least))
        is_below = self._largest[first:] < -math.log1p(-confidence)
        num_rejected = int(np.argmax(is_below)) if is_below.any() else len(is_below)
        return float(self.claims[first + num_rejected - 1]) if num_rejected else 0.0

    def p_value(self, claim: float) -> float:
        """The p-value of a claim in `claims`, valid at all rounds: 1 / its largest wealth yet."""
        index = int(np.searchsorted(self.claims, claim))
        return math.exp(-self._largest[index])


def log_factors(bets: Bets, z: FloatArray) -> FloatArray:
    """The logs of each bet's factors, summed over canaries with deviates z: (claims, bets)."""
    ordered = np.sort(z)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    end = bets.start + bets.log_cap / bets.shift
    first, last = np.searchsorted(ordered, bets.start), np.searchsorted(ordered, end)
    rising = sums[last] - sums[first] - (last - first) * bets.start
    capped = (len(z) - last) * bets.log_cap
    return np.asarray(bets.shift * rising + capped - len(z) * bets.log_divisor)
