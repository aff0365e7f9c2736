"""The largest epsilon that bets on included canaries have proven so far.

The wealth of a stake of 1 against one claim is the mixture of the products of its bets' factors
over all canaries so far. Under the claim it is a nonnegative supermartingale over rounds that
starts at 1 (docs/live_verdict.md), so that it ever reaches 1 / alpha with probability at most alpha
(Ville 1939). A claim whose wealth did is rejected for good. Claims on a grid are tested; the bound
is the largest one below which all are rejected, which is valid at all rounds at once: of the
claims at or above the true epsilon, which hold, only the least one's wealth has to stay below.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, ndtri_exp

from fl_audit.array_types import FloatArray
from fl_audit.estimators.anytime.bets import Bets, censored_bets

_GRID = np.concatenate([np.arange(1, 51) / 10, 5 * 1.02 ** np.arange(1, 207)])
"""Claims that are tested: to 5 in steps of 0.1, then to 295 in steps of 2 %."""

LARGEST_TESTED = float(_GRID[-1])
"""The most that can be proven round by round, however much leaks."""

_LEAST_LOG_TAIL = -1e7
_LARGEST_LOG_TAIL = -1e-300
_ROUNDING = 1e-9
"""The amount taken off every deviate, relative to 1 or to its size, which covers rounding."""


def deviates(log_tails: npt.ArrayLike) -> FloatArray:
    """The standard normal deviates that are exceeded with the same probabilities.

    Args:
      log_tails: Logs of p-values, at most 0, float64 of any shape.

    >>> deviates([math.log(0.5), -1e9]).round(1).tolist()
    [-0.0, 4472.1]
    """
    logs = np.clip(np.asarray(log_tails, np.float64), _LEAST_LOG_TAIL, _LARGEST_LOG_TAIL)
    z = -ndtri_exp(logs)
    return np.asarray(z - _ROUNDING * np.maximum(np.abs(z), 1.0))


class AnytimeBound:
    """The bound as rounds come in; the same rounds in the same order give the same numbers.

    Attributes:
      delta: The delta of differential privacy.
      claims: The epsilons that are tested, ascending, float64 of shape (claims,).
    """

    def __init__(self, delta: float, claim: float | None = None) -> None:
        """Starts before the first round.

        Args:
          delta: The delta of differential privacy, in [0, 1).
          claim: An epsilon to test beside those of the grid, in (0, 300]; None for none.
        """
        self.delta = delta
        self.claims = np.unique(_GRID if claim is None else np.append(_GRID, claim))
        self._bets = censored_bets(self.claims, delta)
        self._log_products = np.zeros_like(self._bets.shift)
        self._largest = np.zeros(len(self.claims))

    def add_round(self, log_tails: FloatArray) -> None:
        """Takes in the included canaries of one round.

        Args:
          log_tails: Logs of upper bounds on the probability that an excluded canary scores as high,
            float64 of shape (canaries,).
        """
        self._log_products += log_factors(self._bets, deviates(log_tails))
        log_wealth = logsumexp(self._log_products + self._bets.log_weight, axis=1)
        self._largest = np.maximum(self._largest, log_wealth)

    def epsilon(self, confidence: float, at_least: float = 0.0) -> float:
        """The largest epsilon that is proven; 0 if none is.

        Args:
          confidence: The confidence at all rounds together, in (0, 1).
          at_least: A claim that is tested first, 0 or one of `claims`; those below it are left out,
            and 0 is the bound where it is not rejected. It has to be chosen before the first round.
        """
        first = int(np.searchsorted(self.claims, at_least))
        kept = self._largest[first:] < -math.log1p(-confidence)
        num_rejected = int(np.argmax(kept)) if kept.any() else len(kept)
        return float(self.claims[first + num_rejected - 1]) if num_rejected else 0.0

    def p_value(self, claim: float) -> float:
        """The p-value of one of `claims` at all rounds together: 1 / its largest wealth so far."""
        index = int(np.searchsorted(self.claims, claim))
        return math.exp(-self._largest[index])


def log_factors(bets: Bets, z: FloatArray) -> FloatArray:
    """The logs of each bet's factors, summed over canaries, float64 of shape (claims, bets).

    Args:
      bets: The bets.
      z: The deviates of the canaries' scores, float64 of shape (canaries,).
    """
    ordered = np.sort(z)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    end = bets.start + bets.log_cap / bets.shift
    first, last = np.searchsorted(ordered, bets.start), np.searchsorted(ordered, end)
    rising = sums[last] - sums[first] - (last - first) * bets.start
    capped = (len(z) - last) * bets.log_cap
    return np.asarray(bets.shift * rising + capped - len(z) * bets.log_divisor)
