"""The power of an audit: its scores and tests, simulated with less noise.

Canaries' scores are drawn by exposure.py, at a share f of the noise, and go through the tests of
the verdict. The detectable epsilon is the accounted epsilon (less_noise.py) at the largest f at
which ENOUGH_POWER of the audits contradict the claim. Points and curves differ only in the tests.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.checks.canary_check import Missing
from fl_audit.estimators import (
    METHODS,
    CanaryScores,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    NullTail,
)
from fl_audit.estimators.anytime import deviates
from fl_audit.estimators.curve_tests import SumTest, sum_test
from fl_audit.estimators.methods import Rejection
from fl_audit.estimators.null import Null, unit_of
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.claims import Claim, CurveClaim
from fl_audit.verdict.curve_claim_tests import CurveTest
from fl_audit.verdict.exposure import Exposure
from fl_audit.verdict.less_noise import LessNoise, claimed_mu
from fl_audit.verdict.search import bisected, least_number

FACTOR = 2.0
"""A verdict is "consistent" only if this multiple of the claimed epsilon is detectable."""

ENOUGH_POWER = 0.8
TRIALS = 400
SEARCH_TRIALS = 30
"""Number of simulated audits for each number of canaries in the search."""

MOST_CANARIES = 100_000
"""Largest number of canaries in the search."""

_SEED = 20_230_516

_LEAST_FACTOR = 1e-4
"""The smallest share of the noise that is distinguished from no noise."""

_PARTS = 4
"""Trials are done in this many parts; after each part, the answer may be clear."""

_AT_ONCE = 2_000_000
"""Number of simulated scores in memory at a time."""


# The tests of each simulated audit.


Groups = Sequence[tuple[int, float, float]]
"""Groups of canaries with Gaussian scores: the number, the mean and the standard deviation."""


@dataclass(frozen=True, eq=False)
class PointTests:
    """The tests of a claimed (epsilon, delta) by several methods."""

    claim: Claim | CurveClaim
    methods: Sequence[str]
    level: float

    @property
    def number(self) -> int:
        """How many tests there are; they are numbered from 0, fast ones first."""
        return len(self.methods)

    def contradict_by(self, number: int, samples: Sequence[ScoredStatistic]) -> BoolArray:
        """Whether the test of this number contradicts the claim, bool of shape (samples,)."""
        settings = [sample.setting(self.claim.delta, 1 - self.level) for sample in samples]
        return self._rejections[number](settings)

    def resized(self, num_included: int) -> "PointTests":
        """The tests for another number of included canaries."""
        return self

    def may_contradict(self, shift: float) -> bool:
        """Whether any number of canaries with this shift could contradict the claim."""
        return shift > claimed_mu(self.claim)

    def chance(self, null: NullTail | None, groups: Groups) -> float | None:
        """The probability of a contradiction; None if only samples can give it."""
        return None

    @functools.cached_property
    def _rejections(self) -> list[Rejection]:
        """One test for each method, the fast ones first."""
        fast_first = sorted(self.methods, key=lambda name: METHODS[name].fast_rejection is None)
        claim = self.claim
        return [METHODS[m].rejection(claim.epsilon, claim.delta, self.level) for m in fast_first]


@dataclass(frozen=True, eq=False)
class CurveSum:
    """The test of a claimed curve by the sum of scores, with the interface of `PointTests`.

    Attributes:
      mu: The `claimed_mu` of the claim.
    """

    leading: CurveTest
    mu: float
    test: SumTest

    number = 1

    def contradict_by(self, number: int, samples: Sequence[ScoredStatistic]) -> BoolArray:
        scores = np.stack([sample.scores.included for sample in samples])
        tail = samples[0].null.known_tail()
        if tail is None:
            raise ValueError("the sum of scores needs a known null")
        sums = self.test.statistic(deviates(tail.log_tail_upper(scores)))
        return np.asarray(sums >= self._critical_value)

    def resized(self, num_included: int) -> "CurveSum":
        test = sum_test(self.leading.curve, num_included, self.leading.level)
        return dataclasses.replace(self, test=test)

    def may_contradict(self, shift: float) -> bool:
        return shift > self.mu

    def chance(self, null: NullTail | None, groups: Groups) -> float | None:
        if null is None:
            raise ValueError("the sum of scores needs a known null")
        unit = unit_of(null) or 1.0
        scores = unit * np.linspace(-_BELOW, self.test.edges[-1] + _BELOW, _SCORES)
        z = np.maximum.accumulate(deviates(null.log_tail_upper(scores)))
        edges = np.interp(self.test.edges, z, scores)
        below = [(n, special.ndtr((edges - mean) / spread)) for n, mean, spread in groups]
        return self.test.power(self._critical_value, below)

    @functools.cached_property
    def _critical_value(self) -> int:
        return self.test.critical_value(self.leading.level - self.leading.spent)


AuditTests = PointTests | CurveSum
"""The tests of a simulated audit."""

_BELOW, _SCORES = 10.0, 4_000
"""How far, in standard deviations, tabulated scores reach below 0 and above the highest edge of a
sum's cells, and the number of scores.
"""


# Canaries' lengths in the aggregate.


@dataclass(frozen=True)
class Lengths:
    """The norms of included canaries divided by the expected norms.

    Attributes:
      share: The mean, in [0, 1].
      missing: How the shortfall arises; None if both ways are possible.
    """

    share: float = 1.0
    missing: Missing | None = None

    def ways(self, num_included: int) -> list[FloatArray]:
        """Canaries' norms over the expected norms, of shape (num_included,), in each simulated way.

        A shortfall may mean that all canaries are shorter, or that fewer reached the aggregate.
        Which of the two reduces power more depends on the claim.
        """
        shorter = np.full(num_included, self.share)
        if self.share in (0.0, 1.0) or self.missing == "shorter":
            return [shorter]
        order = np.random.default_rng(_SEED).permutation(num_included)
        fewer = (order < round(self.share * num_included)) * 1.0
        return [fewer] if self.missing == "lost" else [shorter, fewer]


# The simulated audit.


Hidden = Literal["by clients", "by little signal"]
"""Why no number of canaries would detect a violation: clients' updates hide each canary, or
canaries leak less than the claim allows, because they participate less often than a client or
because scores contain only a part of a canary's signal.
"""


@dataclass(frozen=True)
class Power:
    """What simulated audits contradict.

    Attributes:
      power: The share of audits that contradict the claim if FACTOR times it is the truth.
      detectable_epsilon: The smallest true epsilon, at the claim's delta, at which ENOUGH_POWER of
        audits contradict the claim, rounded up by about 1 %; None without one.
      detectable_factor: The share of the noise at that epsilon; None without one.
      hidden: Why no number of canaries would contradict FACTOR times the claim; None if enough
        canaries may contradict it, or if the power is enough.
    """

    power: float
    detectable_epsilon: float | None
    detectable_factor: float | None = None
    hidden: Hidden | None = None

    @property
    def is_enough(self) -> bool:
        return self.power >= ENOUGH_POWER


@dataclass(frozen=True, eq=False)
class SimulatedAudit:
    """An audit with variable noise.

    Attributes:
      like: The audit's own scores; simulated scores have the same null and kind of inclusion.
    """

    claimed_epsilon: float
    tests: AuditTests
    like: ScoredStatistic
    exposure: Exposure
    less_noise: LessNoise
    num_excluded: int
    lengths: Lengths = Lengths()

    @property
    def num_canaries(self) -> int:
        """The number of canaries, included or not."""
        return self.exposure.num_included + self.num_excluded

    @functools.cached_property
    def twice(self) -> float:
        """The share of the noise with which the true epsilon is FACTOR times the claim."""
        return self.less_noise.factor(FACTOR * self.claimed_epsilon)

    def simulate(self, trials: int = TRIALS) -> Power:
        """What simulated audits contradict.

        All shares of the noise use the same random numbers. A sample that contradicts the claim at
        one share is assumed to contradict it at smaller shares, which is true up to rare
        exceptions. The share at which FACTOR times the claim is true (`twice`) is tried first, so
        that the detectable epsilon is at most FACTOR times the claim if and only if the power is
        enough.
        """
        power, factor = 1.0, math.inf
        claimed = self.less_noise.factor(self.claimed_epsilon)
        for samples in self.samples(trials):
            power = min(power, samples.power(self.twice))
            factor = min(factor, _detectable(samples, claimed, self.twice, factor))
        hidden = self.hidden if power < ENOUGH_POWER else None
        if factor == 0:
            return Power(power, None, None, hidden)
        epsilon = FACTOR * self.claimed_epsilon
        if factor != self.twice:  # else exactly FACTOR times, so that `power` is not contradicted
            epsilon = self.less_noise.epsilon(factor)
        return Power(power, epsilon, factor, hidden)

    def power_at(self, factor: float, trials: int = TRIALS) -> float:
        """The share of simulated audits that contradict the claim with a share of the noise."""
        return min(samples.power(factor) for samples in self.samples(trials))

    @property
    def hidden(self) -> Hidden | None:
        """Why no number of canaries contradicts FACTOR times the claim; None if some number may."""
        if self._may_contradict(self.exposure, self.twice):
            return None
        alone = self.exposure.without_clients()
        return "by clients" if self._may_contradict(alone, self.twice) else "by little signal"

    def _may_contradict(self, exposure: Exposure, factor: float) -> bool:
        shifts = exposure.shifts(factor, self.lengths.share)
        return self.tests.may_contradict(float(shifts.max(initial=0.0)))

    def canaries_needed(self, factor: float, above: int = 1) -> int | None:
        """The number of canaries for ENOUGH_POWER at a share of the noise, more than `above`.

        None if no number would be enough (`Hidden`), or no number up to MOST_CANARIES is.
        """
        is_hidden = not self._may_contradict(self.exposure, factor)
        if is_hidden or not self.num_canaries or above >= MOST_CANARIES:
            return None
        is_enough = functools.partial(self._is_enough, factor=factor)
        first = max(3 * above, self.num_canaries)
        return least_number(is_enough, above=above, first=first, most=MOST_CANARIES)

    def _is_enough(self, num_canaries: int, factor: float) -> bool:
        simulated = self._resized(num_canaries).samples(SEARCH_TRIALS)
        return all(samples.has_power(factor) for samples in simulated)

    def _resized(self, num_canaries: int) -> "SimulatedAudit":
        """The audit with another number of canaries, and the same share included."""
        share = self.exposure.num_included / self.num_canaries
        num_canaries -= num_canaries % 2 if self.like.scores.inclusion == "pairs" else 0
        num_included = max(round(share * num_canaries), 1)
        return dataclasses.replace(
            self,
            tests=self.tests.resized(num_included),
            exposure=self.exposure.resized(num_included, np.random.default_rng(_SEED)),
            num_excluded=num_canaries - num_included,
        )

    def samples(self, trials: int) -> Iterator["_Samples | _Exact"]:
        """The simulated audits for each of `Lengths.ways`, all with the same random numbers."""
        kept = trials if self.num_canaries * trials <= _AT_ONCE else 0

        @functools.lru_cache(maxsize=kept)
        def chance(number: int) -> tuple[FloatArray, ...]:
            random = np.random.default_rng((_SEED, self.num_canaries, number))
            return self.exposure.draw(self.num_excluded, random)

        for lengths in self.lengths.ways(self.exposure.num_included):
            silent = np.full((self.tests.number, trials), math.inf)
            samples = _Samples(self, chance, lengths, silent, np.full(trials, -1.0))
            yield samples if self.exact(self.twice, lengths) is None else _Exact(self, lengths)

    def exact(self, factor: float, lengths: FloatArray) -> float | None:
        """The power with a share of the noise; None if only samples can give it."""
        groups = self.exposure.groups(factor, lengths)
        if groups is None:
            return None
        scale, null = self.null
        scaled = [(number, scale * mean, scale * spread) for number, mean, spread in groups]
        return self.tests.chance(null, scaled)

    @functools.cached_property
    def null(self) -> tuple[float, NullTail | None]:
        """The factor from simulated cosines to scores, and the null (`simulated_null`)."""
        return simulated_null(self.like, self.exposure.dim)


def _detectable(audits: "_Samples | _Exact", most: float, likely: float, at_most: float) -> float:
    """The largest share of the noise with ENOUGH_POWER, to `precision` from below; 0 if none.

    No share above `at_most` is tried; at `most` almost no sample contradicts the claim. `likely` is
    tried before smaller shares.
    """
    if at_most == 0 or not audits.has_power(0.0):
        return 0.0
    if math.isfinite(at_most) and audits.has_power(at_most):
        return at_most
    high, low = min(most, at_most), min(likely, at_most)
    while not audits.has_power(low):
        if low <= _LEAST_FACTOR:
            return 0.0
        high, low = low, max(low / 1.5, _LEAST_FACTOR)
    if low >= high:
        return low
    return 1 / bisected(
        lambda inverse: audits.has_power(1 / inverse), 1 / high, 1 / low, 1 + audits.precision
    )


@dataclass(frozen=True, eq=False)
class _Exact:
    """An audit whose power is computed without samples."""

    audit: SimulatedAudit
    lengths: FloatArray

    precision = 0.0005

    def power(self, factor: float) -> float:
        return self.audit.exact(factor, self.lengths) or 0.0

    def has_power(self, factor: float) -> bool:
        return self.power(factor) >= ENOUGH_POWER


@dataclass(frozen=True, eq=False)
class _Samples:
    """Simulated audits with fixed random numbers and variable noise.

    Attributes:
      chance: A function from the index of a simulated audit to the random part of the audit's
        scores.
      silent: The smallest share of the noise tried at which a test does not contradict the claim on
        a sample, float64 of shape (tests, trials); infinite if no such share is known.
      loud: The largest share tried at which any test contradicts the claim on a sample, float64 of
        shape (trials,); below 0 if no such share is known.
    """

    audit: SimulatedAudit
    chance: Callable[[int], tuple[FloatArray, ...]]
    lengths: FloatArray
    silent: FloatArray
    loud: FloatArray

    precision = 0.005

    def power(self, factor: float) -> float:
        for test in range(len(self.silent)):
            self._try(test, np.arange(len(self.loud)), factor)
        return float(np.mean(self.loud >= factor))

    def has_power(self, factor: float) -> bool:
        """Whether ENOUGH_POWER of the samples contradict the claim.

        Samples are tested in turn until the answer is clear, with slow tests only where fast tests
        do not contradict the claim.
        """
        needed = math.ceil(ENOUGH_POWER * len(self.loud))
        undecided = np.flatnonzero((self.silent > factor).any(axis=0) & (factor > self.loud))
        at_a_time = -(-len(self.loud) // _PARTS)
        for end in range(at_a_time, len(undecided) + at_a_time, at_a_time):
            if int(np.sum(self.loud >= factor)) >= needed:
                return True
            for test in range(len(self.silent)):
                self._try(test, undecided[:end], factor)
                may = (self.loud >= factor) | (self.silent[: test + 1] > factor).any(axis=0)
                if int(np.sum(may)) >= needed:
                    break
            else:
                return False
        return int(np.sum(self.loud >= factor)) >= needed

    def _try(self, test: int, samples: IntArray, factor: float) -> None:
        """Evaluates a test at a share of the noise for samples with unknown outcome."""
        is_open = (self.silent[test, samples] > factor) & (factor > self.loud[samples])
        open_ = samples[is_open]
        at_once = max(_AT_ONCE // max(self.audit.num_canaries, 1), 1)
        at = self.audit.exposure.at(factor, self.lengths)
        null = dataclasses.replace(self.audit.like.null, tail=self.audit.null[1])
        for part in (open_[start : start + at_once] for start in range(0, len(open_), at_once)):
            scored = [self._scored(int(number), at, null) for number in part]
            contradict = self.audit.tests.contradict_by(test, scored)
            self.loud[part[contradict]] = factor
            self.silent[test, part[~contradict]] = factor

    def _scored(
        self, number: int, at: tuple[FloatArray, FloatArray], null: Null
    ) -> ScoredStatistic:
        audit, was = self.audit, self.audit.like.scores
        included, excluded = audit.exposure.scores(self.chance(number), at)
        unit = audit.null[0]
        scores = CanaryScores(
            unit * included, unit * excluded, was.inclusion, was.inclusion_probability
        )
        return ScoredStatistic(None, scores, null)


_FAR_OUT = 5.0
"""Null distributions are compared at this many standard deviations, roughly where bounds are
decided.
"""


def simulated_null(statistic: ScoredStatistic, dim: int) -> tuple[float, NullTail | None]:
    """The factor from simulated cosines to scores of a statistic, and the null of these scores.

    An unknown null is None, and excluded scores then have a standard deviation of 1.
    """
    tail = statistic.null.known_tail()
    if tail is None:
        return math.sqrt(dim), None
    unit = unit_of(tail)
    if unit is None:  # a custom null without a unit
        return 1.0, GaussianCanaryNull(dim)
    return unit * math.sqrt(dim), _with_equal_rounds(tail, unit)


def _with_equal_rounds(tail: NullTail, unit: float) -> NullTail:
    """A null of a maximum over rounds, where every round gets the heaviest tail of any round."""
    if not isinstance(tail, LargestOfRoundsNull):
        return tail
    at = _FAR_OUT * unit
    heaviest = max(set(tail.rounds), key=lambda null: float(null.log_tail_upper(at)))
    return LargestOfRoundsNull(len(tail.rounds) * (heaviest,))
