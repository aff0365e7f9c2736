"""The walk of right guesses counted one by one, and the chance that it reaches a boundary.

Guess about the canaries in an order that may depend on all scores but on no coin, and let W_r be
the number right among the first r. Under epsilon-DP, given the scores, each guess is right with
probability at most p = e^epsilon / (1 + e^epsilon) whatever came before (Steinke et al. 2023, proof
of Proposition 5.1). So the walk W is dominated, in all its steps at once, by one with independent
steps of probability p, and so is the chance that W_r >= b_r for any r of a boundary b. One test
asks about all r, and nothing is lost to a union bound.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.beta_distribution import beta_quantile
from fl_audit.estimators.one_run.bound import binomial_probability, binomial_tail, delta_factors

_LARGEST_R0 = 10_000
"""The largest r0 tried; a larger one would gain next to nothing and cost time."""

_SLACK = 1e-6
"""The relative room for rounding, so that a boundary drawn through a count is reached by it."""


@dataclass(frozen=True)
class Boundary:
    """The event that W_r >= b_r for at least one of several r; it increases with every guess.

    Attributes:
      totals: Numbers of guesses r, increasing, at least 1, int64 of shape (n,).
      heights: Right guesses b_r in [1, r], int64 of shape (n,).
    """

    totals: IntArray
    heights: IntArray

    def crossing(self, epsilon: float, negligible: float = 1e-20) -> float:
        """The chance of the event if each guess is right with e^epsilon / (1 + e^epsilon).

        Args:
          epsilon: The epsilon of the chance of a right guess, finite.
          negligible: Walks less likely than this are no longer followed at each r. They count
            as crossed, so that the chance errs upwards.

        >>> boundary = Boundary(np.array([1, 3]), np.array([1, 2]))  # right, or wrong right right
        >>> boundary.crossing(0.0)
        0.625
        """
        walk = _Walk(epsilon, negligible)
        # Where the height rises by 1 with every guess, none crosses who has not before.
        for r, height in zip(*self._where_it_can_be_crossed(), strict=True):
            walk.go_on_to(int(r))
            walk.stop_at(int(height))
        return min(walk.stopped, 1.0)

    def delta_factor(self, epsilon: float) -> float:
        """A bound on g, equation (2) of bound.py, for this event.

        So the chance of the event under (epsilon, delta)-DP with m canaries is at most crossing + m
        delta g.

        Two bounds are combined. A flip that decides whether any of several events is true decides
        about at least one of them, so single events W_r >= b_r add up. And for all r >= r0
        together: each contains the first r0 guesses. Of r0 - 1 of these other than j, the number N
        that is drawn anew is uniform on 0, ..., r0 - 1, as s is uniform on [0, 1]. Given all else,
        guess j decides at one value of their sum only, so with a chance of at most the mode of
        Binomial(N, p). The events below r0 are added one by one, the others taken together, for
        the best r0.
        """
        single = np.cumsum(delta_factors(self.totals, self.heights, epsilon))
        r0 = self.totals[self.totals <= max(_LARGEST_R0, self.totals[0])]
        drawn = np.arange(r0[-1])
        mode = np.minimum(np.floor((drawn + 1) * special.expit(epsilon)), drawn).astype(np.int64)
        modes = np.cumsum(binomial_probability(drawn, mode, epsilon))[r0 - 1] / r0
        below = np.concatenate([[0.0], single])[: len(r0)]
        return float(min(single[-1], np.min(below + special.expit(-epsilon) * modes)))

    def _where_it_can_be_crossed(self) -> tuple[IntArray, IntArray]:
        reachable = np.diff(self.heights, prepend=0) < np.diff(self.totals, prepend=0)
        reachable[0] = True
        return self.totals[reachable], self.heights[reachable]


class _Walk:
    """The distribution of a walk of independent steps that stops at a boundary.

    Attributes:
      stopped: The chance that the walk has stopped.
    """

    def __init__(self, epsilon: float, negligible: float) -> None:
        self.stopped = 0.0
        self._epsilon = epsilon
        self._negligible = negligible
        self._steps = 0
        self._lowest = 0
        self._chances = np.ones(1)  # of _lowest, _lowest + 1, ... right guesses
        self._laws: dict[int, tuple[int, FloatArray]] = {}

    def go_on_to(self, r: int) -> None:
        """Take steps until there are r."""
        n = r - self._steps
        if n not in self._laws:
            self._laws[n] = _law_of_steps(n, self._epsilon, self._negligible)
        first, law = self._laws[n]
        if len(law) <= n:
            self.stopped += self._negligible
        if len(self._chances):
            self._chances = np.convolve(self._chances, law)
        self._lowest += first
        self._steps = r

    def stop_at(self, height: int) -> None:
        """Stop where at least `height` guesses are right, and where next to none are."""
        below = max(height - self._lowest, 0)
        self.stopped += float(self._chances[below:].sum())
        going = self._chances[:below]
        start = int(np.argmax(going > self._negligible)) if len(going) else 0
        self.stopped += float(going[:start].sum())
        self._chances = going[start:]
        self._lowest += start


def _law_of_steps(n: int, epsilon: float, negligible: float) -> tuple[int, FloatArray]:
    """The least number of right guesses out of n that matters, and the chances from there on."""
    p = special.expit(epsilon)
    # Bernstein's inequality: no more than `negligible` is farther than this from the mean.
    log = np.log(2 / negligible)
    width = log / 3 + np.sqrt(log**2 / 9 + 2 * log * n * p * special.expit(-epsilon))
    first, last = max(int(np.ceil(n * p - width)), 0), min(int(n * p + width), n)
    return first, binomial_probability(np.array(n), np.arange(first, last + 1), epsilon)


def single_bounds(totals: IntArray, correct: IntArray, level: float | FloatArray) -> FloatArray:
    """The epsilon at which W_r >= correct has probability `level` in the walk, for each r.

    It is the Clopper-Pearson bound of a single r: negative if the guesses are wrong more often than
    not, and -inf if none is right.

    Args:
      totals: Numbers of guesses r, int64 of shape (n,).
      correct: Right guesses in [0, r], int64 of shape (n,).
      level: The probability, in (0, 1), the same for all or float64 of shape (n,).

    Returns:
      The bounds, float64 of shape (n,).
    """
    right = np.maximum(correct, 1)
    bounds = special.logit(beta_quantile(right, totals - right + 1, level))
    return np.asarray(np.where(correct > 0, bounds, -np.inf))


def boundary_at(totals: IntArray, epsilon: float, level: float | FloatArray) -> Boundary:
    """The fewest right guesses whose `single_bounds` at these levels are at least epsilon.

    The larger epsilon, the higher the boundary. Numbers of guesses of which not even all right are
    enough are left out, so that no boundary may be left.

    >>> boundary_at(np.array([4, 6, 10]), epsilon=0.0, level=0.05)
    Boundary(totals=array([ 6, 10]), heights=array([6, 9]))
    """
    low, high = np.ones_like(totals), totals + 1
    while np.any(low < high):
        middle = (low + high) // 2
        enough = binomial_tail(totals, middle, epsilon) <= level * (1 + _SLACK)
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    possible = low <= totals
    return Boundary(totals[possible], low[possible])
