"""The null distribution of an excluded canary's score, and tests of it.

A `NullTail` bounds the upper tail of the score. `too_large_p_value` and `cosine_p_value` test
whether the excluded scores fit that bound.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import ExactCosine, Gaussian, beta_cdf, closed_form_null
from fl_audit.estimators.random_signs import Concentration, rademacher_sum_log_tail
from fl_audit.estimators.scores import check_dim

LARGEST_COSINE = 1 - 1e-6
"""The largest threshold on a cosine: in a small dimension a cosine may round to 1, with tail 0."""

_ROUNDING = 1e-5
"""The most by which rounding moves a discrete score above its atom, in standard deviations."""


class NullTail(Protocol):
    """An upper bound on P(score >= t) of an excluded canary: all that a lower bound needs.

    A new statistic brings its null as a hashable object, such as a frozen dataclass, with these
    three members.
    """

    @property
    def description(self) -> str:
        """The assumed distribution, as the end of the sentence "excluded scores are ..."."""

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of an upper bound on P(score >= t), at most 0 and never rising with t."""

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of the excluded scores: small if they do not fit this null.

        It is at most p with probability at most p if the null is true and scores are independent.
        """


def _check_hashable(nulls: object) -> None:
    try:
        hash(nulls)
    except TypeError as error:
        raise ValueError(f"a null must be hashable, such as a frozen dataclass: {error}") from error


NullKind = Literal["closed_form", "empirical"]
NullSource = Literal["design", "argument"]


@dataclass(frozen=True)
class Null:
    """What is known of the distribution of an excluded canary's score, and who states it.

    Attributes:
      kind: The null for published estimators: "closed_form" for a cosine with one vector in
        dimension dim, of mean 0 and variance 1 / dim; "empirical" for a distribution fitted to the
        excluded scores.
      tail: The tail on which valid bounds rely. If None, they rely on a bound for canaries of every
        family if `kind` is "closed_form", on nothing if it is "empirical".
      dim: Number of trainable parameters, which the closed-form null needs; None if this number is
        not known.
      source: "design" if this audit's own program made and scored the canaries; "argument" if an
        argument such as --dim states the null, whose test on the scores then takes a part of the
        failure probability (threshold/null_choice.py).
      planned_shift: The mean of included scores under the configured mechanism, in standard
        deviations of the null, computed before there are scores; None if unknown. No bound relies
        on this mean, which helps to choose thresholds (threshold/error_rates.py).

    >>> Null("closed_form", dim=1000).known_tail()
    SignCanaryNull(dim=1000, concentration=None)
    >>> Null().known_tail() is None
    True
    """

    kind: NullKind = "empirical"
    tail: NullTail | None = None
    dim: int | None = None
    source: NullSource = "design"
    planned_shift: float | None = None

    def __post_init__(self) -> None:
        _check_hashable(self.tail)

    def closed_form(self) -> Gaussian | ExactCosine:
        """The null distribution of a cosine in published methods; InputError without dim."""
        if self.dim is None:
            raise InputError("the closed_form null needs dim, the number of trainable parameters")
        return closed_form_null(self.dim)

    def known_tail(self) -> NullTail | None:
        """The tail on which valid bounds may rely; None if nothing is known."""
        if self.tail is None and self.kind == "closed_form" and self.dim is not None:
            return SignCanaryNull(self.dim)
        return self.tail


EMPIRICAL = Null("empirical")
"""The null known only from the excluded scores."""


@dataclass(frozen=True)
class GaussianCanaryNull:
    """The exact null distribution of `gaussian` canaries' cosines with any vector.

    Attributes:
      dim: Number of trainable parameters, 2 to 2^53; InputError if out of range.
    """

    dim: int

    def __post_init__(self) -> None:
        check_dim(self.dim)

    @property
    def description(self) -> str:
        return (
            f"cosines of uniformly random directions in dimension {self.dim:,} (exact distribution)"
        )

    @property
    def unit(self) -> float:
        """The standard deviation of a score."""
        return 1 / math.sqrt(self.dim)

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        return ExactCosine(self.dim).logsf(np.minimum(thresholds, LARGEST_COSINE))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of both tails by the exact distribution, and of the moments."""
        root = math.sqrt(self.dim)
        return cosine_p_value(root * excluded, lambda z: self.log_tail_upper(z / root))


@dataclass(frozen=True)
class SignCanaryNull:
    """A bound for cosines of random signs (`rademacher`, `hadamard` canaries) with one vector.

    Without the vector's concentration the bound holds for any vector, and for the cosines of
    `gaussian` canaries too: for such a cosine X and an independent R^2 ~ chi-square(dim), Z = X R
    is Gaussian, so P(Z >= z) >= P(X >= z / sqrt(dim)) P(R^2 >= dim), and the last factor is at
    least P(chi-square(1) >= 1) = 1 / 3.15; the bound needs only 1 / 3.178.

    Attributes:
      dim: Number of trainable parameters, at least 2.
      concentration: Concentration of the vector compared with canaries; None if unknown.

    Raises:
      ValueError: dim is below 2, or no vector of that dimension has that concentration.
    """

    dim: int
    concentration: Concentration | None = None

    def __post_init__(self) -> None:
        check_dim(self.dim)
        known = self.concentration
        if known is not None and known.fourth_powers * self.dim < 1 - _ROUNDING:
            raise ValueError(
                f"fourth_powers must be at least 1 / dim = {1 / self.dim:g}, "
                f"got {known.fourth_powers:g}"
            )

    @property
    def description(self) -> str:
        if self.concentration is None:
            return (
                f"cosines of gaussian, rademacher or hadamard canaries in dimension {self.dim:,} "
                "with any vector (by a bound that holds for all of these)"
            )
        return (
            f"cosines of random signs in dimension {self.dim:,} with a vector whose concentration "
            f"is known (by a proven bound; sum of cubes {self.concentration.cubes:.3g})"
        )

    @property
    def unit(self) -> float:
        """The standard deviation of a score, for any concentration."""
        return 1 / math.sqrt(self.dim)

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        """Log of a bound on P(cosine >= t) (random_signs.py)."""
        cosines = np.minimum(np.asarray(thresholds, dtype=np.float64), LARGEST_COSINE)
        return self._standardized_log_tail(math.sqrt(self.dim) * cosines)

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of both tails by the bound, and of the moments."""
        return cosine_p_value(math.sqrt(self.dim) * excluded, self._standardized_log_tail)

    def _standardized_log_tail(self, z: FloatArray) -> FloatArray:
        return rademacher_sum_log_tail(z - _ROUNDING, self.concentration)


@dataclass(frozen=True)
class ScaledNull:
    """The null of a known multiple of a score whose null is known.

    Example: the sum of a canary's cosines with several vectors is its cosine with the sum of their
    directions, times the norm of that sum.

    Attributes:
      unscaled: The null of the score before multiplication.
      scale: The factor, above 0 and finite; else ValueError.
    """

    unscaled: NullTail
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be above 0 and finite, got {self.scale}")

    @property
    def description(self) -> str:
        return f"{self.scale:.4g} times {self.unscaled.description}"

    @property
    def unit(self) -> float | None:
        """The standard deviation of a score; None if that of the unscaled score is not known."""
        unit = unit_of(self.unscaled)
        return None if unit is None else self.scale * unit

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        return self.unscaled.log_tail_upper(np.asarray(thresholds, dtype=np.float64) / self.scale)

    def p_value(self, excluded: FloatArray) -> float:
        return self.unscaled.p_value(excluded / self.scale)


@dataclass(frozen=True)
class AtMostNull:
    """A bound for a score with null `bound`, times an unknown factor from 0 to 1."""

    bound: NullTail

    @property
    def description(self) -> str:
        return f"at most as large as {self.bound.description}"

    @property
    def unit(self) -> float | None:
        """The standard deviation of the score with factor 1; None if it is not known."""
        return unit_of(self.bound)

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        known = self.bound.log_tail_upper(thresholds)
        return np.asarray(np.where(np.asarray(thresholds) > 0, known, 0.0))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of too many large scores; small ones do not contradict this null."""
        return too_large_p_value(excluded, self.log_tail_upper)


@dataclass(frozen=True)
class LargestOfRoundsNull:
    """A bound on the tail of a canary's largest score over rounds (union bound).

    P(max >= t) <= sum of P(score of round >= t), for any dependence between rounds.

    Attributes:
      rounds: Nulls of the rounds, at least one (else ValueError); rounds may share one.
    """

    rounds: tuple[NullTail, ...]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise ValueError("rounds must hold at least one null, got none")
        _check_hashable(self.rounds)

    @property
    def description(self) -> str:
        return (
            f"the largest of {len(self.rounds):,} round scores, bounded by the sum of the rounds' "
            f"tail probabilities; the scores of one round are {self.rounds[0].description}"
        )

    @property
    def unit(self) -> float | None:
        """The standard deviation of the first round's score; None if it is not known."""
        return unit_of(self.rounds[0])

    def log_tail_upper(self, thresholds: npt.ArrayLike) -> FloatArray:
        counted = Counter(self.rounds)
        tails = np.stack([null.log_tail_upper(thresholds) for null in counted])
        tails += np.log(list(counted.values())).reshape(-1, *[1] * (tails.ndim - 1))
        return np.asarray(np.minimum(special.logsumexp(tails, axis=0), 0.0))

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of too many large scores; small ones do not contradict this null."""
        return too_large_p_value(excluded, self.log_tail_upper)


def unit_of(tail: NullTail) -> float | None:
    """The standard deviation of an excluded score, the unit of shifts; None if unknown."""
    unit: float | None = getattr(tail, "unit", None)
    return unit


# Tests of whether excluded scores fit the assumed null distribution.
#
# Every p-value here is valid: under the null it is at most p with probability at most p, for any
# number of scores, ties included. The scores are taken as independent.


LogTail = Callable[[FloatArray], FloatArray]
"""Function that gives the log of an upper bound on P(X >= t) for each t."""

_FOURTH_MOMENT = 3.0
"""Bound on E X^4 of a standardized cosine X, which is 3 - 2 A4 for signs (A4 in random_signs.py)
and 3 d / (d + 2) for directions in dimension d.
"""


def too_large_p_value(scores: FloatArray, log_tail_upper: LogTail) -> float:
    """A p-value of too many large scores under a bound on their tail, at many ranks at once.

    If P(X >= t) <= U(t) (`log_tail_upper` is log U), the k-th largest of n scores reaches t with
    probability at most P(Binomial(n, U(t)) >= k), which at t = that score is a p-value; so is r
    times the smallest p-value of r ranks (Bonferroni). If U is exact, this tests the whole
    distribution against larger scores, as the test of Berk & Jones (1979) does; on negated scores
    it tests against smaller ones.
    """
    n = len(scores)
    ranks = spaced_ranks(n)
    largest = np.sort(scores)[::-1][ranks - 1]
    p_values = beta_cdf(ranks, n - ranks + 1, np.exp(log_tail_upper(largest)))
    return min(1.0, len(ranks) * float(np.min(p_values)))


def cosine_p_value(z: FloatArray, log_tail_upper: LogTail) -> float:
    """A p-value of the claim that scores are cosines of random directions or of random signs.

    Five tests share the level (Bonferroni): too many large and too many small scores, by the bound
    on the tail and the symmetry of the distribution; the mean; too large and too small a sum of
    squares. The last three use only common properties of all these cosines (proofs in the
    functions). `z` are scores times sqrt(dim).
    """
    p_values = (
        too_large_p_value(z, log_tail_upper),
        too_large_p_value(-z, log_tail_upper),
        _mean_p_value(z),
        _large_squares_p_value(z),
        _small_squares_p_value(z),
    )
    return min(1.0, len(p_values) * min(p_values))


def _mean_p_value(z: FloatArray) -> float:
    """The two-sided p-value by Hoeffding: E exp(h X) <= exp(h^2 / 2) for signs and directions."""
    total = float(np.sum(z)) / math.sqrt(len(z))
    return min(1.0, 2 * math.exp(-total * total / 2))


def _large_squares_p_value(z: FloatArray) -> float:
    """The p-value by Chernoff: no moment of X exceeds a Gaussian's, so neither does E exp(h X^2).

    P(mean X^2 >= q) <= exp(-n (q - 1 - log q) / 2) for q >= 1, as for chi-square.
    """
    mean = float(np.mean(z**2))
    return math.exp(-len(z) * (mean - 1 - math.log(mean)) / 2) if mean > 1 else 1.0


def _small_squares_p_value(z: FloatArray) -> float:
    """The p-value by Chernoff from E X^2 = 1, E X^4 <= 3: E exp(-h X^2) <= 1 - h + 3 h^2 / 2.

    For every h >= 0, P(mean X^2 <= q) <= (exp(h q) (1 - h + 3 h^2 / 2))^n; here the best h is
    taken.
    """
    mean = float(np.mean(z**2))
    if mean >= 1:
        return 1.0
    # The derivative of h q + log(1 - h + 3 h^2 / 2) is zero where q times this parabola is 1 - 3 h.
    a, b, c = _FOURTH_MOMENT / 2 * mean, _FOURTH_MOMENT - mean, mean - 1
    h = 2 * -c / (b + math.sqrt(b * b - 4 * a * c))
    return math.exp(len(z) * (h * mean + math.log1p(-h + _FOURTH_MOMENT / 2 * h * h)))


_SPACING = 1.2
"""Ratio of adjacent ranks. Ranks are dense because for clustered scores only a cluster's edge
matters.
"""


def growing_ranks(n: int) -> IntArray:
    """Ranks that grow by a fifth from 1 up to n // 2, and the next one beyond.

    >>> growing_ranks(20).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    """
    ranks = [1]
    while ranks[-1] <= max(n // 2, 1):
        ranks.append(max(ranks[-1] + 1, round(_SPACING * ranks[-1])))
    return np.array(ranks)


def spaced_ranks(n: int) -> IntArray:
    """Ranks in [1, n] that grow by a fifth from 1 and, mirrored, from n, up to the middle.

    >>> spaced_ranks(20).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20]
    """
    from_end = growing_ranks(n)[:-1]
    return np.asarray(np.unique(np.concatenate([from_end, n + 1 - from_end])))
