"""Log likelihood ratios for an attacker who knows the pattern, and their null distribution.

The attacker knows the pattern but not a canary's rounds. The standardized score z_t of a canary in
round t is N(m, 1) in a round of an included canary and N(0, 1) otherwise, independently over
rounds. With w_t = m z_t - m^2 / 2 the likelihood ratio of inclusion is the mean of exp(sum of w_t
over S) over the pattern's distribution of the canary's rounds S. By Neyman and Pearson no score is
better. The log of this ratio is `Sampling.log_ratio`.

The null distribution is simulated, with a bound on the error. Let L be the log ratio of
`Sampling.log_ratio` at z. If z is N(0, I) (an excluded canary, distribution Q) then E e^L = 1, and
e^L is the density, against Q, of an included canary's z (distribution P). So for samples of z from
the even mixture of Q and P, whose density against Q is (1 + e^L) / 2,

    Q(L >= x) = E [2 / (1 + e^L); L >= x],

a mean of terms in [0, 2 / (1 + e^x)]. These terms are about as small as the tail, so that some ten
thousand samples give even a tail of 1e-30 to a few percent. At each threshold the tail has the
upper bound of the empirical Bernstein inequality (Maurer & Pontil 2009, theorem 4); all these
bounds hold, except with probability `FAILURE`. Thresholds are from other samples. At every x, also
beyond the last threshold, Q(L >= x) <= e^-x by Markov's inequality.

The scores z of an excluded canary are sqrt(d) times T coordinates of a uniformly random direction,
if directions of rounds are orthonormal. Their density is C (1 - |z|^2 / d)^((d - T - 2) / 2). Its
ratio to the density of N(0, I) is largest where |z|^2 = T + 2. The largest ratio, `sphere_factor`,
multiplies the tail: by 1.0003 for T = 100 and d = 167,178. If this factor is large, another is used
for x >= 0: with R^2 chi-square with d degrees of freedom, independent of z, z R / sqrt(d) is N(0,
I). L is convex and negative at 0, so that L(z) >= x implies L(s z) >= x for every s >= 1, and
P(L(z) >= x) P(R^2 >= d) <= Q(L >= x). P(R^2 >= d) is above 1 / 3.178.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.sampling import Sampling
from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.distributions import log_peak
from fl_audit.estimators.null import too_large_p_value

FAMILY_WITH_NULL = "gaussian"
"""The family of canaries for which the score's null distribution is known."""

FAILURE = 1e-6
"""The largest probability that the bound on the tail fails anywhere."""

_OF_POSITIVE = math.log(3.178)
"""The log of the factor for thresholds from 0 on, which holds in any dimension."""

_SAMPLES = 1_000_000
_MOST_STEPS = 150_000_000
"""The largest product of samples and steps of `log_ratio`, unless 10,000 samples need more."""

SCORES_AT_ONCE = 4_000_000
"""The number of scores that are simulated or standardized at once: 32 MB."""

_THRESHOLDS = 400
"""The number of thresholds at quantiles, and of thresholds at equal distances."""


@dataclass(frozen=True)
class KnownPattern:
    """The attacker's knowledge of a canary's rounds.

    Attributes:
      sampling: The distribution of the canary's rounds; its `has_likelihood` must be true.
      shift: The shift m of the canary's score in its own round, in standard deviations, above 0.
      rounds: The number of rounds of the training.
    """

    sampling: Sampling
    shift: float
    rounds: int

    def log_ratios(self, scores: FloatArray, seen: IntArray) -> FloatArray:
        """The log likelihood ratio of each canary.

        Args:
          scores: Standardized scores z, float64 of shape (n, canaries).
          seen: The rounds of the rows, from 0, int64 of shape (n,); other rounds tell nothing.
        """
        logs = np.zeros((self.rounds, scores.shape[1]))
        logs[seen] = self.shift * scores - self.shift**2 / 2
        return self.sampling.log_ratio(logs)

    def draw_scores(self, canaries: int, seen: IntArray, random: np.random.Generator) -> FloatArray:
        """Standardized scores of canaries, each included by a fair coin, for `log_ratios`."""
        present = self.sampling.draw(self.rounds, canaries, random)
        present &= random.random(canaries) < 0.5
        return random.standard_normal((len(seen), canaries)) + self.shift * present[seen]


class LikelihoodNull(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upper bound on the tail of an excluded canary's log likelihood ratio.

    Attributes:
      thresholds: The scores at which the tail was simulated, ascending.
      log_tails: The log of an upper bound on the tail at each threshold, never rising.
      log_factor: The log of the factor by which these bounds and Markov's e^-x are multiplied.
    """

    thresholds: tuple[float, ...]
    log_tails: tuple[float, ...]
    log_factor: float

    @property
    def description(self) -> str:
        return (
            "log likelihood ratios of uniformly random directions under the pattern's distribution "
            "of rounds (simulated, with an upper bound on the error)"
        )

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        at = np.asarray(thresholds, np.float64)
        index = np.searchsorted(self.thresholds, at, side="right")
        simulated = np.concatenate([[0.0], self.log_tails])[index]
        return np.asarray(np.minimum(np.minimum(simulated, -at) + self.log_factor, 0.0))

    @property
    def makes_sense(self) -> bool:
        """Whether values are finite, thresholds ascend, tails never rise and `log_factor` >= 0."""
        at, tails = np.array(self.thresholds), np.array(self.log_tails)
        return (
            len(at) == len(tails) > 0
            and bool(np.isfinite(at).all() and np.isfinite(tails).all())
            and bool((np.diff(at) > 0).all() and (np.diff(tails) <= 0).all())
            and self.log_factor >= 0
        )

    def p_value(self, excluded: FloatArray) -> float:
        """The p-value of too many large scores; small ones do not contradict this null."""
        return too_large_p_value(excluded, self.log_tail_upper)


def largest_tail(nulls: Sequence[LikelihoodNull]) -> LikelihoodNull:
    """The largest tail at each threshold, for canaries that each have one of `nulls`."""
    if len(nulls) == 1:
        return nulls[0]
    at = np.unique(np.concatenate([null.thresholds for null in nulls]))
    factor = max(null.log_factor for null in nulls)
    tails = np.max([null.log_tail_upper(at) for null in nulls], axis=0) - factor
    return LikelihoodNull(tuple(at.tolist()), tuple(tails.tolist()), factor)


def sphere_factor(rounds: int, dim: int) -> float:
    """The log of the largest density of `rounds` scores of a random direction, against N(0, I).

    Infinite if `dim` is at most `rounds` + 2.

    >>> round(math.exp(sphere_factor(100, 167_178)), 4)
    1.0003
    """
    left = dim - rounds
    if left <= 2:
        return math.inf
    # The logs of the Gamma functions of dim / 2 and left / 2 would cancel: in steps of a half.
    half_step = 0.5 * math.log(math.pi) - 0.5 * math.log(dim / 2)
    constant = math.fsum(log_peak(step) + half_step for step in range(left + 1, dim + 1))
    peak = (left - 2) / 2 * math.log1p(-(rounds + 2) / dim) + (rounds + 2) / 2
    return max(constant + peak, 0.0)


def likelihood_null(pattern: KnownPattern, seen: IntArray, dim: int) -> LikelihoodNull:
    """The null of a pattern's log ratios in the `seen` rounds, simulated.

    The bound fails with probability at most `FAILURE`, independently of training and coins.
    """
    random = np.random.default_rng([pattern.rounds, len(seen)])
    steps = pattern.rounds * pattern.sampling.likelihood_steps
    count = min(_SAMPLES, max(_MOST_STEPS // steps, 10_000))
    pilot = np.sort(_mixed_ratios(pattern, seen, count // 10, random))
    ranks = np.unique(np.geomspace(1, len(pilot), _THRESHOLDS).astype(np.int64))
    even = np.linspace(pilot[0], pilot[-1], _THRESHOLDS)
    thresholds = np.unique(np.concatenate([pilot[-ranks], even]))
    log_factor = sphere_factor(len(seen), dim)
    if log_factor > _OF_POSITIVE:
        log_factor, thresholds = _OF_POSITIVE, np.unique(np.maximum(thresholds, 0))
    bounds = _upper_bounds(_mixed_ratios(pattern, seen, count, random), thresholds)
    log_tails = np.minimum.accumulate(np.log(bounds))
    return LikelihoodNull(tuple(thresholds.tolist()), tuple(log_tails.tolist()), log_factor)


def _upper_bounds(ratios: FloatArray, thresholds: FloatArray) -> FloatArray:
    """The upper bounds on Q(L >= x), by the empirical Bernstein inequality."""
    order = np.sort(ratios)[::-1]
    number = np.searchsorted(-order, -thresholds, side="right")
    weights = 2 * special.expit(-order)
    sums, squares = (np.concatenate([[0.0], np.cumsum(weights**k)])[number] for k in (1, 2))
    count, largest = len(order), 2 * special.expit(-thresholds)
    spread = np.maximum(squares - sums**2 / count, 0) / (count - 1)
    log_chance = math.log(2 * len(thresholds) / FAILURE)
    return np.asarray(
        sums / count
        + np.sqrt(2 * spread * log_chance / count)
        + 7 * largest * log_chance / (3 * (count - 1))
    )


def _mixed_ratios(
    pattern: KnownPattern, seen: IntArray, count: int, random: np.random.Generator
) -> FloatArray:
    """Log ratios of samples from the even mixture, independent, of shape (count,)."""
    size = max(SCORES_AT_ONCE // pattern.rounds, 1)
    parts = [
        pattern.log_ratios(pattern.draw_scores(min(size, count - start), seen, random), seen)
        for start in range(0, count, size)
    ]
    return np.concatenate(parts)
