"""The vectors that canaries were compared with, as far as null distributions depend on them.

How large a cosine may be by chance follows, for canaries of signs, from how much of a vector lies
on few coordinates. Attackers keep that of every vector that they compared canaries with, as
`ComparedVectors`, from which a statistic's null distribution is computed.

A likelihood ratio is the score of an attacker who knows the pattern, and not a canary's rounds. It
has z_t, the standardized score of a canary in round t, which is N(m, 1) in a round of an included
canary and N(0, 1) in any other, independently over rounds. With w_t = m z_t - m^2 / 2 the
likelihood ratio of inclusion is the mean of exp(sum of w_t over S) over the pattern's distribution
of the canary's rounds S (`Sampling.log_ratio`). By Neyman and Pearson no score is better.

The null distribution is simulated, with a bound on the error. Let L be the log ratio of
`Sampling.log_ratio` at z. If z is N(0, I) (an excluded canary, distribution Q) then E e^L = 1, and
e^L is the density, against Q, of an included canary's z (distribution P). So for samples of z from
the even mixture of Q and P, whose density against Q is (1 + e^L) / 2,

    Q(L >= x) = E [2 / (1 + e^L); L >= x],

a mean of terms in [0, 2 / (1 + e^x)]. Their scale is that of the tail itself, so that some ten
thousand samples give a tail of 1e-30 to a few percent. Each threshold has the upper bound of the
empirical Bernstein inequality (Maurer & Pontil 2009, theorem 4); all hold at once but for a chance
of `FAILURE`. Thresholds are quantiles of other samples. Beyond the last one Q(L >= x) <= e^-x by
Markov's inequality, and so everywhere.

The scores z of an excluded canary are sqrt(d) times T coordinates of a uniformly random direction,
where directions of rounds are orthonormal. Their density is C (1 - |z|^2 / d)^((d - T - 2) / 2),
which is largest against that of N(0, I) where |z|^2 = T + 2. That ratio, `sphere_factor`,
multiplies the tail: by 1.0003 for T = 100 and d = 167,178. Where it is large another factor holds
for x >= 0: with R^2 chi-square with d degrees of freedom, independent of z, z R / sqrt(d) is
N(0, I). L is convex and negative at 0, so that L(z) >= x implies L(s z) >= x for every s >= 1, and
P(L(z) >= x) P(R^2 >= d) <= Q(L >= x). The second probability is above 1 / 3.178.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.sampling import AllocatedRounds, Sampling
from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.canaries.families import FAMILIES
from fl_audit.errors import InputError
from fl_audit.estimators.null import (
    AtMostNull,
    LargestOfRoundsNull,
    NullTail,
    ScaledNull,
    too_large_p_value,
)
from fl_audit.estimators.random_signs import Concentration, concentration_of
from fl_audit.formats.text_files import read_json, write_text


@dataclass(frozen=True)
class KnownPattern:
    """What the attacker knows of a canary's rounds.

    Attributes:
      sampling: The distribution of its rounds, with `has_likelihood`.
      shift: The shift m of its score in such a round, in standard deviations, above 0.
    """

    sampling: Sampling
    shift: float
    rounds: int

    def log_ratios(self, scores: FloatArray, seen: IndexArray) -> FloatArray:
        """The log likelihood ratio of each canary.

        Args:
          scores: Standardized scores z, float64 of shape (n, canaries).
          seen: Their rounds from 0, int64 of shape (n,); others say nothing.
        """
        logs = np.zeros((self.rounds, scores.shape[1]))
        logs[seen] = self.shift * scores - self.shift**2 / 2
        return self.sampling.log_ratio(logs)

    def draw_scores(
        self, canaries: int, seen: IndexArray, random: np.random.Generator
    ) -> FloatArray:
        """Standardized scores of canaries, each included by a fair coin, as `log_ratios` takes."""
        present = self.sampling.draw(self.rounds, canaries, random)
        present &= random.random(canaries) < 0.5
        return random.standard_normal((len(seen), canaries)) + self.shift * present[seen]


FAILURE = 1e-6
"""The chance that the bound on the tail fails anywhere."""

_OF_POSITIVE = math.log(3.178)
"""The log of a factor that holds for thresholds from 0 on in any dimension."""

_SAMPLES = 1_000_000
_MOST_STEPS = 150_000_000
"""The number of samples; fewer if these, times the rounds, are more than the steps above."""

_CHUNK = 4_000_000
"""The number of scores that are simulated at once: 32 MB."""

_THRESHOLDS = 400
"""The number of quantiles with a bound of their own, and of thresholds at equal distances."""


class LikelihoodNull(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An upper bound on the tail of an excluded canary's log likelihood ratio.

    Attributes:
      log_tails: The log of an upper bound on the tail at each, falling.
      log_factor: The log of the factor of both that tail and that of Markov's inequality.
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
        """Whether thresholds ascend and tails fall, as those of `likelihood_null` do."""
        at, tails = np.array(self.thresholds), np.array(self.log_tails)
        return (
            len(at) == len(tails) > 0
            and bool(np.isfinite(at).all() and np.isfinite(tails).all())
            and bool((np.diff(at) > 0).all() and (np.diff(tails) <= 0).all())
            and self.log_factor >= 0
        )

    def p_value(self, excluded: FloatArray) -> float:
        """A p-value of too many large scores; small ones do not contradict this null."""
        return too_large_p_value(excluded, self.log_tail_upper)


def sphere_factor(rounds: int, dim: int) -> float:
    """The log of the largest density of `rounds` scores of a random direction against N(0, I).

    Infinite where directions have about as many coordinates as there are rounds.

    >>> round(math.exp(sphere_factor(100, 167_178)), 4)
    1.0003
    """
    left = dim - rounds
    if left <= 2:
        return math.inf
    constant = float(special.gammaln(dim / 2) - special.gammaln(left / 2))
    constant -= rounds / 2 * math.log(dim / 2)
    return constant + (left - 2) / 2 * math.log1p(-(rounds + 2) / dim) + (rounds + 2) / 2


def likelihood_null(pattern: KnownPattern, seen: IndexArray, dim: int) -> LikelihoodNull:
    """The null of a pattern's log ratios; the failure probability of its bounds is `FAILURE`.

    The simulation depends on nothing that training or coins decided.

    Args:
      seen: The rounds that were scored, from 0, int64 of shape (n,).
      dim: The number of coordinates of a canary, at least n.
    """
    random = np.random.default_rng([pattern.rounds, len(seen)])
    sampling = pattern.sampling
    steps = pattern.rounds * (sampling.number if isinstance(sampling, AllocatedRounds) else 1)
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
    pattern: KnownPattern, seen: IndexArray, count: int, random: np.random.Generator
) -> FloatArray:
    """Log ratios of samples from the even mixture, independent, of shape (count,)."""
    size = max(_CHUNK // pattern.rounds, 1)
    parts = [
        pattern.log_ratios(pattern.draw_scores(min(size, count - start), seen, random), seen)
        for start in range(0, count, size)
    ]
    return np.concatenate(parts)


_FORMAT_VERSION = 1

_GROUPS_PER_OCTAVE = 4
"""The number of groups that vectors form per factor of two in their sums of cubes.

All vectors of a group count with its largest sum, which costs up to 19 % of a remainder term that
is itself a few percent of the tail; groups keep bounds fast with thousands of rounds."""


class Vectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` vectors with the same null distribution.

    `concentration` bounds both sums of each of them from above; None if they are not known, or the
    canaries' null distribution does not depend on them.
    """

    count: int
    concentration: Concentration | None = None


class ComparedVectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a score that is `scale` times the largest cosine with any of them.

    With `is_limit` that product is only an upper bound on the size of the score. A log likelihood
    ratio is no such product: it has a `null` of its own, and no vectors.
    """

    vectors: tuple[Vectors, ...]
    scale: float = 1.0
    is_limit: bool = False
    likelihood: LikelihoodNull | msgspec.UnsetType = msgspec.UNSET

    def null_tail(self, family: str, dim: int) -> NullTail:
        """The tail of an excluded canary's score; raises ValueError for impossible vectors."""
        if self.likelihood is not msgspec.UNSET:
            return self.likelihood
        tails: tuple[NullTail, ...] = tuple(
            tail
            for group in self.vectors
            for tail in group.count * (FAMILIES[family].null_tail(dim, group.concentration),)
        )
        largest: NullTail = tails[0] if len(tails) == 1 else LargestOfRoundsNull(tails)
        scaled = largest if self.scale == 1 else ScaledNull(largest, self.scale)
        return AtMostNull(scaled) if self.is_limit else scaled


ANY_VECTOR = ComparedVectors((Vectors(1),))
"""One vector of unknown concentration."""


def depends_on_vectors(family: str | None) -> bool:
    """Whether a family's null distribution depends on the compared vectors."""
    return family is not None and FAMILIES[family].null_depends_on_vector


def concentration_row(vector: Float32Array) -> FloatArray:
    """A vector's sums of cubes and of fourth powers, a row of `ConcentrationLog`."""
    sums = concentration_of(vector)
    return np.zeros(2) if sums is None else np.array([sums.cubes, sums.fourth_powers])


def unknown_rows(num_rounds: int) -> FloatArray:
    """Rows of NaN, of shape (num_rounds, 2): vectors of unknown concentration."""
    return np.full((num_rounds, 2), np.nan)


def one_vector(family: str | None, vector: FloatArray | Float32Array) -> ComparedVectors | None:
    """The vector of a cosine with one vector; None for zero, which has no direction."""
    if not np.any(vector):
        return None
    concentration = concentration_of(vector) if depends_on_vectors(family) else None
    return ComparedVectors((Vectors(1, concentration),))


def any_one_of(rows: FloatArray) -> ComparedVectors | None:
    """Null of each round's vector, from rows of `ConcentrationLog`; None if one has zero norm."""
    if len(rows) == 0 or (rows[:, 1] == 0).any():
        return None
    if np.isnan(rows).any():
        return ANY_VECTOR
    return ComparedVectors((Vectors(1, Concentration(*map(float, rows.max(axis=0)))),))


def largest_cosine(rows: FloatArray) -> ComparedVectors | None:
    """The vectors of a largest cosine, from rows of `ConcentrationLog`; None if all are 0.

    A zero vector's cosine is 0, and P(0 >= t) is 1 for t <= 0. For such t the tails of two other
    rounds add up to at least 1 already, as each of these distributions is symmetric about 0. So a
    zero vector is left out if there are two others, and otherwise counted like any vector.
    """
    is_zero = rows[:, 1] == 0
    others = rows[~is_zero]
    if len(others) == 0:
        return None
    unknown = np.isnan(others).any(axis=1)
    not_known = int(unknown.sum()) + (int(is_zero.sum()) if len(others) < 2 else 0)
    groups = _grouped(others[~unknown])
    return ComparedVectors((*groups, Vectors(not_known)) if not_known else groups)


def _grouped(rows: FloatArray) -> tuple[Vectors, ...]:
    """Groups vectors of about the same concentration, each with its largest sums."""
    numbers = np.ceil(_GROUPS_PER_OCTAVE * np.log2(rows[:, 0]))
    return tuple(
        Vectors(len(members), Concentration(*(float(largest) for largest in members.max(axis=0))))
        for members in (rows[numbers == number] for number in np.unique(numbers))
    )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int
    statistics: dict[str, ComparedVectors]


def write_compared_vectors(path: Path, compared: Mapping[str, ComparedVectors]) -> None:
    text = msgspec.json.encode(_File(_FORMAT_VERSION, dict(compared))).decode()
    write_text(path, text + "\n")


def read_compared_vectors(path: Path) -> Mapping[str, ComparedVectors]:
    """Reads the vectors by statistic; empty if there is no file."""
    if not path.exists():
        return {}
    file = read_json(path, _File, "what a run writes")
    if file.format_version != _FORMAT_VERSION:
        raise InputError(
            f"{path}: format_version is {file.format_version}, must be {_FORMAT_VERSION}"
        )
    for name, compared in file.statistics.items():
        if not _makes_sense(compared):
            raise InputError(
                f"{path}: statistics.{name}: scale must be above 0 and finite, and vectors must "
                "be groups of at least 1"
            )
    return file.statistics


def _makes_sense(compared: ComparedVectors) -> bool:
    if compared.likelihood is not msgspec.UNSET:
        null = compared.likelihood
        return not compared.vectors and null.makes_sense
    counts = [group.count for group in compared.vectors]
    return 0 < compared.scale < math.inf and min(counts, default=0) >= 1
