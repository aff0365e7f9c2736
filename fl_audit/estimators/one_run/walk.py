"""The random walk of correct guesses, and the probability that it reaches a boundary.

Guess about the canaries in an order that may depend on all scores but on no coin, and let W_r be
the number right among the first r. Under epsilon-DP each guess, given the scores and all earlier
guesses, is right with probability at most p = e^epsilon / (1 + e^epsilon) (Steinke et al. 2023,
proof of Proposition 5.1). So the walk W is dominated, in all its steps at once, by one with
independent steps of probability p, which is at least as likely to have W_r >= b_r for some r of a
boundary b. One test covers all r without a union bound.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import beta_quantile, first_integers
from fl_audit.estimators.one_run.bound import binomial_probability, binomial_tail, delta_factors

_LARGEST_R0 = 10_000
"""The largest r0 tried in `Boundary.delta_factor`; larger ones gain almost nothing."""

_SLACK = 1e-6
"""Relative margin for rounding, so that a count reaches the boundary drawn through this count."""


@dataclass(frozen=True)
class Boundary:
    """The event that W_r >= b_r for at least one of several r; increasing in every guess."""

    totals: IntArray  # numbers of guesses r, increasing, at least 1
    heights: IntArray  # correct guesses b_r in [1, r]

    def crossing(self, epsilon: float, negligible: float = 1e-20) -> float:
        """The event's chance if each guess is right with chance p = e^epsilon / (1 + e^epsilon).

        A path with k correct guesses out of r has the chance p^k (1 - p)^(r - k), so the paths that
        cross are the same for all epsilons, and only their weights differ, by the ratio of these
        chances. The walk is thus computed at one epsilon of each range (`_WIDTH`), and the chance
        at any other takes a sum. At each r, paths less likely than `negligible` are dropped and
        count as crossed, so that the chance errs upwards.

        >>> boundary = Boundary(np.array([1, 3]), np.array([1, 2]))  # right, or wrong right right
        >>> boundary.crossing(0.0)
        0.625
        """
        width = _WIDTH / np.sqrt(self.totals[-1])
        at = float(np.floor(epsilon / width))
        key = (at, negligible)
        if key not in self._crossings:
            self._crossings[key] = self._crossed(at * width, (at + 1) * width, negligible)
        return self._crossings[key].chance(epsilon)

    @functools.cached_property
    def _crossings(self) -> "dict[tuple[float, float], _Crossings]":
        """The crossing paths by range of epsilons and `negligible`."""
        return {}

    def _crossed(self, low: float, high: float, negligible: float) -> "_Crossings":
        walk = _Walk(low, high, negligible)
        # Where the height rises by as much as the number of guesses, no new path crosses.
        can_cross = np.diff(self.heights, prepend=0) < np.diff(self.totals, prepend=0)
        can_cross[0] = True
        for r, height in zip(self.totals[can_cross], self.heights[can_cross], strict=True):
            walk.go_on_to(int(r))
            walk.stop_at(int(height))
            if walk.has_ended:
                break
        return walk.crossings()

    def delta_factor(self, epsilon: npt.ArrayLike) -> FloatArray:
        """A bound on g, equation (2) of bound.py, for this event, of the shape of epsilon.

        So the chance of the event under (epsilon, delta)-DP with m canaries is at most crossing + m
        delta g.

        Two bounds are combined. First, a flip that decides whether any of several events is true
        decides at least one of them, so the bounds of single events W_r >= b_r add up. Second,
        consider all r >= r0 together: each contains the first r0 guesses. Take r0 - 1 of these
        guesses other than guess j: the number N of resampled guesses among them is uniform on 0,
        ..., r0 - 1, as s is uniform on [0, 1]. Given everything else, guess j decides the event
        only at one value of the resampled guesses' sum, so with at most the probability of the mode
        of Binomial(N, p). The bounds of the events below r0 are added, the events from r0 on taken
        together, for the best r0.
        """
        epsilons = np.asarray(epsilon, dtype=np.float64)[..., None]
        single = np.cumsum(delta_factors(self.totals, self.heights, epsilons), axis=-1)
        r0 = self.totals[self.totals <= max(_LARGEST_R0, self.totals[0])]
        counts = np.arange(r0[-1])
        mode = np.minimum(np.floor((counts + 1) * special.expit(epsilons)), counts).astype(np.int64)
        modes = np.cumsum(binomial_probability(counts, mode, epsilons), axis=-1)[..., r0 - 1] / r0
        below = np.zeros_like(modes)
        below[..., 1:] = single[..., : len(r0) - 1]
        together = np.min(below + special.expit(-epsilons) * modes, axis=-1)
        return np.asarray(np.minimum(single[..., -1], together))


_WIDTH = 48.0
"""The width of a range of epsilons, times the root of the largest r: some standard deviations of
W_r. A path's probabilities at both ends then differ by a factor below e^450, within floats.
"""

_FLOOR = 1e-250
"""The smallest probability of a path to follow, at the low end of its range of epsilons."""


@dataclass(frozen=True, eq=False)
class _Crossings:
    """The ends of a walk's paths, grouped by their numbers of right and wrong guesses."""

    epsilon: float  # the one at which log_chances hold
    log_chances: FloatArray
    right: FloatArray  # numbers of correct guesses
    wrong: FloatArray
    lost: float  # a bound on the chance of paths not followed, at each epsilon of the range

    def chance(self, epsilon: float) -> float:
        """The chance to stop in any way, at most 1."""
        more_right = special.log_expit(epsilon) - special.log_expit(self.epsilon)
        more_wrong = special.log_expit(-epsilon) - special.log_expit(-self.epsilon)
        log_chances = self.log_chances + more_right * self.right + more_wrong * self.wrong
        return min(float(np.exp(log_chances).sum()) + self.lost, 1.0)


class _Walk:
    """The distribution of a walk of independent steps that stops at a boundary.

    It is computed at the low end of a range of epsilons. Dropped paths, of probability at most
    `lost`, are negligible in the whole range: those with few correct guesses even at its low end,
    those with many even at its high end.
    """

    def __init__(self, low: float, high: float, negligible: float) -> None:
        self.lost = 0.0
        self._low, self._high = low, high
        self._negligible = negligible
        self._steps = 0
        self._lowest = 0
        self._chances = np.ones(1)  # the probabilities of _lowest, _lowest + 1, ... right guesses
        self._chances_of_steps: dict[int, tuple[int, FloatArray]] = {}
        # One empty part, as all paths may be dropped before the boundary.
        self._stopped = [(0, 0, np.zeros(0))]

    @property
    def has_ended(self) -> bool:
        return len(self._chances) == 0

    def go_on_to(self, r: int) -> None:
        """Take steps until there are r."""
        n = r - self._steps
        if n not in self._chances_of_steps:
            self._chances_of_steps[n] = _chances_after(n, self._low, self._high, self._negligible)
        first, chances = self._chances_of_steps[n]
        if len(chances) <= n:
            self.lost += self._negligible
        self._chances = np.convolve(self._chances, chances)
        self._lowest += first
        self._steps = r

    def stop_at(self, height: int) -> None:
        """Stop paths with at least `height` correct guesses, and paths of negligible chance."""
        start, end = 0, min(max(height - self._lowest, 0), len(self._chances))
        if end and self._chances[0] <= self._negligible:
            some = np.flatnonzero(self._chances[:end] > self._negligible)
            start = int(some[0]) if len(some) else end
        if end > start and self._chances[end - 1] <= _FLOOR:
            end = start + int(np.count_nonzero(self._chances[start:end] > _FLOOR))
        self._stop(0, start)
        self._stop(end, len(self._chances))
        self._chances = self._chances[start:end]
        self._lowest += start

    def _stop(self, start: int, end: int) -> None:
        if end > start:
            self._stopped.append((self._steps, self._lowest + start, self._chances[start:end]))

    def crossings(self) -> _Crossings:
        chances = np.concatenate([part for _, _, part in self._stopped])
        right = np.concatenate([np.arange(k, k + len(part)) for _, k, part in self._stopped])
        steps = np.repeat(
            [r for r, _, _ in self._stopped], [len(part) for _, _, part in self._stopped]
        )
        some = chances > 0
        right, steps = right[some], steps[some]
        return _Crossings(
            self._low,
            np.log(chances[some]),
            right.astype(np.float64),
            (steps - right).astype(np.float64),
            self.lost,
        )


def _chances_after(n: int, low: float, high: float, negligible: float) -> tuple[int, FloatArray]:
    """The smallest relevant number of correct guesses out of n, and probabilities from there on."""
    # Bernstein's inequality: at most `negligible` is farther than this from the mean.
    log = np.log(2 / negligible)
    first, last = (
        n * special.expit(epsilon)
        + side
        * (
            log / 3
            + np.sqrt(log**2 / 9 + 2 * log * n * special.expit(epsilon) * special.expit(-epsilon))
        )
        for epsilon, side in ((low, -1), (high, 1))
    )
    right = np.arange(max(int(np.ceil(first)), 0), min(int(last), n) + 1)
    return int(right[0]), binomial_probability(np.array(n), right, low)


def single_bounds(totals: IntArray, correct: IntArray, level: float | FloatArray) -> FloatArray:
    """The epsilon at which W_r >= correct has probability `level` in the walk, for each r.

    It is the Clopper-Pearson bound of a single r: negative if most guesses are wrong, and -inf if
    none is right.
    """
    right = np.maximum(correct, 1)
    bounds = special.logit(beta_quantile(right, totals - right + 1, level))
    return np.asarray(np.where(correct > 0, bounds, -np.inf))


def boundary_at(totals: IntArray, epsilon: float, level: float | FloatArray) -> Boundary:
    """The boundary of the fewest correct guesses whose `single_bounds` are at least epsilon.

    The larger epsilon, the higher the boundary. Numbers of guesses that are too few even if all are
    right are left out; the boundary may be empty.

    >>> boundary_at(np.array([4, 6, 10]), epsilon=0.0, level=0.05)
    Boundary(totals=array([ 6, 10]), heights=array([6, 9]))
    """
    heights = first_integers(
        lambda right: binomial_tail(totals, right, epsilon) <= level * (1 + _SLACK),
        np.ones_like(totals),
        totals + 1,
    )
    possible = heights <= totals
    return Boundary(totals[possible], heights[possible])
