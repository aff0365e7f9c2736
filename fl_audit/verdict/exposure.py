"""The exposure of canaries: their signal relative to noise and clients' updates.

A canary's score on a statistic is the cosine of its vector with a vector V, such as the sum of the
directions of its rounds' aggregates. If the canary is included, V has a component of length
`signal` along the canary; the rest of V is from noise, clients and other canaries. With a share f
of the noise,

    |V|^2 = rest + f^2 noise,                                                                 (1)

where `noise` is the contribution of the noise at f = 1, and `rest` is everything else, which does
not change. The cosine between a canary of any family and an independent vector has mean 0 and
variance 1 / dim. So an included canary's cosine is drawn without generating any vector. The lengths
of V are measured in the rounds of an audit, and predicted in a plan; everything else is computed
alike in audits and plans. `rest` is what remains of |V|^2 without the stated noise: if there was
less noise than stated, `rest` is too small, but it is never set below the part that rounds surely
have in common.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from fl_audit.accounting.release import Correlation, Release
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.attacks.own_rounds import OwnRounds, RoundWeights
from fl_audit.estimators.null import unit_of
from fl_audit.verdict.claim_tests import ScoredStatistic

WITHOUT_DIM = 10**12
"""The dimension for scores of unknown dimension, so large that no cosine is near 1."""


_CHANCE = 3.0
"""The noise's squared length may deviate by chance up to this many standard deviations."""

_ALIKE = 0.05
"""The width of cells of cosines that count as equal, in standard deviations."""

_LEAST_SPREAD = 1e-12
"""The least variance of a cosine, times dim; at a mean of 1 it would be 0."""


@dataclass(frozen=True, eq=False)
class VectorExposure:
    """Canaries compared with one vector each.

    Attributes:
      signal: The length of each vector's component along its included canary, at the expected norm;
        0 if none of the canary's rounds was scored; float64 of shape (num_included,).
      rest: The squared length of each vector without noise, of the same shape.
      noise: The squared length of the noise at f = 1, of the same shape.
      another: The squared length that one more included canary adds to each vector, on average, of
        the same shape.
      dim: The dimension of the vectors.
    """

    signal: FloatArray
    rest: FloatArray
    noise: FloatArray
    another: FloatArray
    dim: int

    @property
    def num_included(self) -> int:
        return len(self.signal)

    @property
    def clients_share(self) -> float:
        """The share of the background that is not noise, in [0, 1]."""
        hides = np.maximum(self.rest - self.signal**2, 0.0)
        return float(np.sum(hides) / max(np.sum(hides + self.noise), 1e-300))

    def without_clients(self) -> "VectorExposure":
        """The same canaries, with a background of noise only."""
        return dataclasses.replace(self, rest=self.signal**2)

    def resized(self, num_included: int, random: np.random.Generator) -> "VectorExposure":
        """The exposure of `num_included` canaries drawn from these, which hide each other."""
        added = num_included - self.num_included
        return self.of(_drawn(self.num_included, num_included, random), added)

    def of(self, canaries: IntArray, added: int) -> "VectorExposure":
        """The exposure of these canaries, with `added` more included canaries in every vector."""
        signal, another = self.signal[canaries], self.another[canaries]
        rest = np.maximum(self.rest[canaries] + added * another, signal**2)
        return VectorExposure(signal, rest, self.noise[canaries], another, self.dim)

    def draw(self, num_excluded: int, random: np.random.Generator) -> tuple[FloatArray, ...]:
        """The random part of scores, the same for any noise; excluded canaries come last."""
        return (
            random.standard_normal(self.num_included),
            np.clip(random.standard_normal(num_excluded) / math.sqrt(self.dim), -1.0, 1.0),
        )

    def at(self, factor: float, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean and the standard deviation of each included canary's cosine.

        `lengths` are included canaries' norms divided by the expected norms.
        """
        cosines = self._cosines(factor, lengths)
        return cosines, np.sqrt((1 - cosines**2) / self.dim)

    def scores(
        self, chance: tuple[FloatArray, ...], at: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """The cosines of included and of excluded canaries, from `draw` and from `at`."""
        return np.clip(at[0] + at[1] * chance[0], -1.0, 1.0), chance[1]

    def groups(self, factor: float, lengths: FloatArray) -> list[tuple[int, float, float]] | None:
        """For included canaries of about equal cosine: number, mean and standard deviation.

        All cosines in one cell of a grid count as their mean. A `LargestExposure` returns None.
        """
        cosines = self._cosines(factor, lengths)
        cells = np.round(cosines * math.sqrt(self.dim) / _ALIKE)
        _, of, counts = np.unique(cells, return_inverse=True, return_counts=True)
        means = np.bincount(of, cosines) / counts
        spreads = np.sqrt(np.maximum(1 - means**2, _LEAST_SPREAD) / self.dim)
        return list(zip(counts.tolist(), means.tolist(), spreads.tolist(), strict=True))

    def shifts(self, factor: float, length: float) -> FloatArray:
        """Each included canary's mean cosine, in standard deviations."""
        cosines = self._cosines(factor, np.full(self.num_included, length))
        with np.errstate(divide="ignore"):
            return np.asarray(math.sqrt(self.dim) * cosines / np.sqrt(1 - cosines**2))

    def _cosines(self, factor: float, lengths: FloatArray) -> FloatArray:
        """The cosines without the random part, by (1)."""
        squared = self.rest + factor**2 * self.noise
        signal = lengths * self.signal
        along = np.divide(signal, np.sqrt(squared), out=(signal > 0) * 1.0, where=squared > 0)
        return np.minimum(along, 1.0)


@dataclass(frozen=True, eq=False)
class LargestExposure:
    """Canaries whose score is the largest cosine with the aggregates of all rounds.

    Attributes:
      canary: The included canary of each participation, int64 of shape (participations,).
      own: The exposure of each participation, as of a canary with only that round.
      in_common: The mean share of an aggregate's squared length that is common to all rounds.
    """

    canary: IntArray
    own: VectorExposure
    num_rounds: int
    num_included: int
    in_common: float = 0.0

    @property
    def dim(self) -> int:
        return self.own.dim

    @property
    def clients_share(self) -> float:
        return self.own.clients_share

    def without_clients(self) -> "LargestExposure":
        return dataclasses.replace(self, own=self.own.without_clients(), in_common=0.0)

    def resized(self, num_included: int, random: np.random.Generator) -> "LargestExposure":
        drawn = _drawn(self.num_included, num_included, random)
        counts = np.bincount(self.canary, minlength=self.num_included)
        starts = np.cumsum(counts) - counts
        order = np.argsort(self.canary, kind="stable")
        parts = [order[starts[canary] : starts[canary] + counts[canary]] for canary in drawn]
        taken = np.concatenate([np.zeros(0, np.int64), *parts])
        canary = np.repeat(np.arange(num_included), counts[drawn])
        return dataclasses.replace(
            self,
            canary=canary,
            own=self.own.of(taken, num_included - self.num_included),
            num_included=num_included,
        )

    def draw(self, num_excluded: int, random: np.random.Generator) -> tuple[FloatArray, ...]:
        absent = self.num_rounds - np.bincount(self.canary, minlength=self.num_included)
        rounds = np.concatenate([absent, np.full(num_excluded, self.num_rounds)])
        common = math.sqrt(self.in_common) * random.standard_normal(len(rounds))
        apart = math.sqrt(1 - self.in_common)
        largest = common + apart * largest_of_normals(np.maximum(rounds, 1), random)
        largest = np.where(rounds > 0, np.minimum(largest / math.sqrt(self.dim), 1.0), -1.0)
        own = common[self.canary] + apart * random.standard_normal(len(self.canary))
        return own, largest[: self.num_included], largest[self.num_included :]

    def at(self, factor: float, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean and the standard deviation of each participation's cosine."""
        return self.own.at(factor, lengths[self.canary])

    def scores(
        self, chance: tuple[FloatArray, ...], at: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        own, largest, excluded = chance
        cosines, _ = self.own.scores((own, excluded), at)
        largest = largest.copy()
        np.maximum.at(largest, self.canary, cosines)
        return largest, excluded

    def groups(self, factor: float, lengths: FloatArray) -> list[tuple[int, float, float]] | None:
        return None

    def shifts(self, factor: float, length: float) -> FloatArray:
        """Each canary's largest shift in a round; 0 for a canary without rounds."""
        largest = np.zeros(self.num_included)
        np.maximum.at(largest, self.canary, self.own.shifts(factor, length))
        return largest


Exposure = VectorExposure | LargestExposure
"""The exposure of included canaries on one statistic, for any share of the noise."""


def _drawn(number: int, wanted: int, random: np.random.Generator) -> IntArray:
    """`wanted` indices below `number`: the whole range as often as it fits, then random ones."""
    whole, rest = divmod(wanted, max(number, 1))
    return np.concatenate([np.tile(np.arange(number), whole), random.permutation(number)[:rest]])


def largest_of_normals(numbers: IntArray, random: np.random.Generator) -> FloatArray:
    """Draws the largest of n standard normal numbers, for each n in `numbers`, at least 1."""
    return np.asarray(special.ndtri_exp(-random.standard_exponential(len(numbers)) / numbers))


# Exposures of rounds.


_none = functools.partial(np.zeros, 0)


@dataclass(frozen=True, eq=False)
class Background:
    """The background of canaries in the rounds of an audit, measured or predicted.

    Attributes:
      own: The rounds of each canary, included or not.
      included: Whether each canary was included, bool of shape (num_canaries,).
      dim: The dimension of the vectors.
      correlation: The matrix or trees that correlate noise over rounds; None for independent noise.
      rounds: The scored rounds, from 0, rising, int64 of shape (n,).
      aggregate_lengths: The length of each round's aggregate, float64 of shape (n,).
      client_lengths: The length of a client's update in each aggregate, clip norm over denominator,
        also the expected length of a canary; float64 of shape (n,).
      noise: The standard deviation of the noise on a coordinate of each aggregate (if correlated,
        of the independent noise), float64 of shape (n,).
      in_common: The squared length of the part of each aggregate that is common to all rounds,
        float64 of shape (n,).
      surely_common: A lower bound on `in_common`.
      sum_lengths: The measured length of each canary's vector V for the statistic `own_rounds`, the
        sum of aggregates weighted by `own_weights`, float64 of shape (num_canaries,); None if not
        measured.
      weights: The weight of each round's aggregate in the final model, float64 of shape (n,); None
        if unknown.
      initial_length: The length of the initial model; None if unknown.
      uploads: The release of uploads that participants add all of the noise to; None if there are
        none, or if their noise is not stated.
      release: The release, with its noise; None if the noise is not stated.
      client_sensitivity: If the noise is not stated, the number of rounds of a client, or its
        squared sensitivity under correlated noise; None if unknown.
    """

    own: OwnRounds
    included: BoolArray
    dim: int
    correlation: Correlation | None = None
    rounds: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    aggregate_lengths: FloatArray = field(default_factory=_none)
    client_lengths: FloatArray = field(default_factory=_none)
    noise: FloatArray = field(default_factory=_none)
    in_common: FloatArray = field(default_factory=_none)
    surely_common: FloatArray = field(default_factory=_none)
    sum_lengths: FloatArray | None = None
    weights: FloatArray | None = None
    initial_length: float | None = None
    uploads: Release | None = None
    release: Release | None = None
    client_sensitivity: float | None = None

    def with_rounds(
        self, rounds: IntArray, aggregate_lengths: FloatArray, client_lengths: FloatArray
    ) -> "Background":
        """The background with the lengths of rounds, without noise yet."""
        nothing = np.zeros(len(rounds))
        return dataclasses.replace(
            self,
            rounds=rounds,
            aggregate_lengths=aggregate_lengths,
            client_lengths=client_lengths,
            noise=nothing,
            in_common=nothing,
            surely_common=nothing,
        )

    def with_noise(self, noise_multiplier: float | FloatArray) -> "Background":
        """The background with noise in multiples of client lengths: one number or one per round."""
        return dataclasses.replace(self, noise=noise_multiplier * self.client_lengths)

    @property
    def most_rounds(self) -> int:
        """The largest number of rounds of an included canary."""
        return max((len(self.own.of_canary[j]) for j in np.flatnonzero(self.included)), default=0)

    @functools.cached_property
    def presences(self) -> RoundWeights:
        """Canaries' presence in scored rounds; a canary in no such round counts as in the first."""
        return RoundWeights.from_presences(self.own, self.rounds)

    @functools.cached_property
    def own_weights(self) -> FloatArray:
        """The weights of aggregates in the vector of each set of canaries, of shape (sets, n)."""
        if self.correlation is None:
            return np.asarray(self.presences.of_set / self.aggregate_lengths)
        until = int(self.rounds[-1]) + 1
        whole = np.zeros((len(self.presences.of_set), until))
        whole[:, self.rounds] = self.presences.of_set
        return np.asarray(self.correlation.until(until).weights(whole)[:, self.rounds])

    @functools.cached_property
    def noise_squared(self) -> FloatArray:
        """The squared length of the noise in each aggregate."""
        squared = self.dim * self.noise**2
        if self.correlation is None:
            return np.asarray(squared)
        return np.asarray(squared * _marginal_variances(self.correlation, self.rounds))

    @functools.cached_property
    def _rest(self) -> FloatArray:
        """The squared length of each aggregate without noise.

        Rounds' squared lengths differ from their mean partly by chance in the noise: a deviation
        within `_CHANCE` standard deviations counts as noise, and of a larger deviation only the
        excess counts as a difference.
        """
        noise = self.noise_squared
        excess = np.divide(
            self.aggregate_lengths**2, noise, out=np.ones_like(noise), where=noise > 0
        )
        excess -= np.mean(excess)
        chance = _CHANCE * math.sqrt(2 / self.dim)
        shrunk = noise * np.sign(excess) * np.minimum(np.abs(excess), chance)
        rest = self.aggregate_lengths**2 - noise - shrunk
        least = np.maximum(self.surely_common, self.client_lengths**2)
        return np.asarray(np.maximum(rest, least))

    @functools.cached_property
    def _is_scored(self) -> BoolArray:
        canary, _ = self.own.among(self.rounds)
        return np.bincount(canary, minlength=len(self.included)) > 0

    def exposure(self, statistic: str | None) -> Exposure | None:
        """Included canaries' exposure on a statistic; None if the statistic is not simulated."""
        match statistic:
            case "own_rounds":
                return self._in_own_rounds()
            case "one_upload" if self.uploads is not None:
                return self._of_uploads(self.uploads.noise.sum_noise_multiplier)
            case "max" if self.correlation is None:
                return self._largest()
            case "sum" if self.correlation is None:
                return self._weighted(1 / self.aggregate_lengths)
            case "final_minus_initial" | "final" if self.weights is not None:
                initial = 0.0 if statistic == "final_minus_initial" else self.initial_length
                known = initial is not None and self.correlation is None
                return self._weighted(self.weights, initial or 0.0) if known else None
            case _:
                return None

    def _in_own_rounds(self) -> VectorExposure:
        """Canaries compared with the optimal weighted sum of aggregates."""
        weights, of_set = self.own_weights, self.presences.of_set
        signal = (weights * of_set) @ self.client_lengths
        if self.correlation is None:
            noise = weights**2 @ self.noise_squared
        else:  # weights are the noise's inverse covariance times the presences
            noise = self.dim * (weights * of_set) @ self.noise**2
        rest = weights**2 @ self._rest + self._shared(weights)
        repeated = signal**2 - (weights * of_set) ** 2 @ self.client_lengths**2
        rest = np.maximum(rest + np.maximum(repeated, 0.0), signal**2)
        rest = np.maximum(rest, (weights @ np.sqrt(self.surely_common)) ** 2)
        set_of = self.presences.set_of[self.included]
        rest_of = rest[set_of]
        if self.sum_lengths is not None and self.correlation is not None:
            measured = self.sum_lengths[self.included] ** 2 - noise[set_of]
            rest_of = np.maximum(
                rest_of * max(float(np.sum(measured) / np.sum(rest_of)), 0.0), signal[set_of] ** 2
            )
        seen = signal[set_of] * self._is_scored[self.included]
        each = weights * self.client_lengths
        often = self._often  # another canary's rounds are drawn independently of each other
        another = (each @ often) ** 2 + each**2 @ (often * (1 - often))
        return VectorExposure(seen, rest_of, noise[set_of], another[set_of], self.dim)

    @functools.cached_property
    def _often(self) -> FloatArray:
        """The share of included canaries that participate in each scored round."""
        canary, at = self.own.among(self.rounds)
        numbers = np.bincount(at[self.included[canary]], minlength=len(self.rounds))
        return np.asarray(numbers / max(int(self.included.sum()), 1))

    def _shared(self, weights: FloatArray) -> FloatArray:
        """What rounds' common part adds to squared weighted sums, beyond the sum of squares."""
        together = (weights @ np.sqrt(self.in_common)) ** 2
        return np.asarray(together - weights**2 @ self.in_common)

    def common_share(self, lengths: FloatArray) -> float | None:
        """The mean cosine of two rounds' aggregates, from `lengths` such as `sum_lengths`.

        It is valid only under independent noise. None if no canary has several rounds.
        """
        weights = self.own_weights
        alone = weights**2 @ self.aggregate_lengths**2
        pairs = (weights @ self.aggregate_lengths) ** 2 - alone
        own = (weights * self.presences.of_set) @ self.client_lengths
        repeated = own**2 - (weights * self.presences.of_set) ** 2 @ self.client_lengths**2
        of = self.presences.set_of
        known = lengths > 0
        beyond = lengths**2 - alone[of] - np.where(self.included, repeated[of], 0.0)
        total = float(np.sum(pairs[of][known]))
        return float(np.sum(beyond[known])) / total if total > 0 else None

    def _weighted(self, weights: FloatArray, initial: float = 0.0) -> VectorExposure:
        """Canaries compared with a vector of length `initial` plus a weighted sum of aggregates."""
        of = self.presences.set_of
        signal = ((self.presences.of_set * weights) @ self.client_lengths)[of] * self._is_scored
        alone = ((self.presences.of_set * weights**2) @ self.client_lengths**2)[of]
        repeated = np.sum((signal**2 - alone * self._is_scored)[self.included])
        together = max(float(self._shared(weights)), float(repeated))  # canaries are in both
        rest = float(weights**2 @ self._rest) + max(together, 0.0)
        rest += initial**2
        noise = float(weights**2 @ self.noise_squared)
        ones = np.ones(int(self.included.sum()))
        signal = signal[self.included]
        another = np.sum(signal**2) / max(len(ones), 1) * ones
        return VectorExposure(signal, rest * ones, noise * ones, another, self.dim)

    def _largest(self) -> LargestExposure:
        """Canaries' largest cosines with aggregates."""
        canary, at = self.own.among(self.rounds)
        at = at[self.included[canary]]
        canary = (np.cumsum(self.included) - 1)[canary[self.included[canary]]]
        noise = self.noise_squared[at]
        lengths = self.client_lengths
        another = (self._often * lengths**2)[at]
        own = VectorExposure(lengths[at], self._rest[at], noise, another, self.dim)
        shares = self.in_common / self.aggregate_lengths**2
        in_common = float(np.clip(shares.mean(), 0.0, 1.0))
        num_included = int(self.included.sum())
        return LargestExposure(canary, own, len(self.rounds), num_included, in_common)

    def _of_uploads(self, noise_multiplier: float) -> VectorExposure:
        """Canaries compared with the sum of their own uploads, where only noise hides a canary."""
        canary, _ = self.own.participations
        each = np.bincount(canary, minlength=len(self.included))[self.included]
        numbers = np.asarray(each, np.float64)
        noise = self.dim * numbers * noise_multiplier**2
        return VectorExposure(numbers, numbers**2, noise, np.zeros_like(numbers), self.dim)


_SHOWN = 1.0
"""The mean of canaries' scores is reduced by this many standard errors."""


def exposure_of_scores(statistic: ScoredStatistic, mu: float) -> VectorExposure | None:
    """The exposure of canaries by scores alone; None if the scores are too few or show no signal.

    Every canary is assumed to participate as often as a client. The background is estimated from
    scores: what the noise of a mu-GDP mechanism contributes shrinks with the noise, and the
    remainder does not. Additional canaries are assumed not to hide each other.
    """
    scores, tail = statistic.scores, statistic.null.known_tail()
    unit = None if tail is None else unit_of(tail)
    if not scores.num_included or (unit is None and scores.num_excluded < 2):
        return None
    center, errors = 0.0, 1 / scores.num_included
    if unit is None:
        center, unit = float(np.mean(scores.excluded)), float(np.std(scores.excluded, ddof=1))
        errors += 1 / scores.num_excluded
    shown = (float(np.mean(scores.included)) - center) / max(unit, 1e-300)
    shown -= _SHOWN * math.sqrt(errors)
    if shown <= 0:
        return None
    dim = statistic.null.dim or WITHOUT_DIM
    ones = np.ones(scores.num_included)
    rest = max(dim * (shown**-2 - mu**-2), 1.0)
    return VectorExposure(ones, rest * ones, dim * mu**-2 * ones, 0 * ones, dim)


def _marginal_variances(correlation: Correlation, rounds: IntArray) -> FloatArray:
    """The variance of correlated noise in each round, divided by the independent noise's."""
    until = int(rounds[-1]) + 1
    if isinstance(correlation, Toeplitz):
        return np.asarray(np.cumsum(correlation.until(until).inverse ** 2)[rounds])
    size = min(correlation.period, until)
    covariance = np.linalg.inv(correlation.until(size).weights(np.eye(size)))
    return np.asarray(np.diag(covariance)[rounds % size])
