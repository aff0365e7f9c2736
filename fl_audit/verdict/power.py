"""The simulated probability that an audit contradicts a claim, by how wrong the claim is.

A simulated canary's score is Gaussian noise and, if it is included, the signal of a Gaussian
mechanism of some epsilon: as much of it as arrived. Nothing else is lost: the attacker sees all of
that in one statistic. A real attack may see less.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import BoolArray, FloatArray, IndexArray
from fl_audit.estimators import (
    METHODS,
    CanaryScores,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    NullTail,
    ScaledNull,
)
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma, sigma_of_epsilon
from fl_audit.estimators.methods import Rejection
from fl_audit.estimators.null import unit_of
from fl_audit.estimators.scores import Inclusion
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.claims import Claim

FACTOR = 2.0
"""Ratio of the epsilon that has to be detectable to the claimed one, for "consistent"."""

ENOUGH_POWER = 0.8
TRIALS = 400
SEARCH_TRIALS = 30
"""Number of trials for each number of canaries that the search tries."""

MOST_CANARIES = 100_000
"""Largest number of canaries that the search tries."""

_SEED = 20_230_516

_CLOSE = 1.2
"""Ratio of two numbers of canaries, too few and enough, between which the search tries no other."""

_STEP, _STEP_FROM_GUESS = 4, 2
"""Ratio of two numbers of canaries that the search tries in turn, without a guess and with one."""

_POWER_OF_SIGNAL = 5
"""With k times the canaries a signal k^(1/5) times smaller is detectable, roughly. Where nothing is
lost and epsilon is small it is k^(1/2); large epsilons and lost canaries take far more of them."""

_PRECISION = 0.005
"""Relative precision of the signal that is detected."""

_LARGEST_SIGNAL = 100.0
"""The largest signal of a canary that is tried, in standard deviations of its score."""

_PARTS = 4
"""Parts of the trials, after each of which it is asked whether the power is decided."""

_AT_ONCE = 2_000_000
"""Number of simulated scores in memory at a time."""


@dataclass(frozen=True, eq=False)
class RepeatedTests:
    """The tests of one claim, which are applied to many simulated samples.

    Attributes:
      claim: The claim that each test may contradict.
      methods: Names of the valid methods that are applied.
      level: The probability with which each single bound may fail.
    """

    claim: Claim
    methods: Sequence[str]
    level: float

    def contradict(self, samples: Sequence[ScoredStatistic]) -> BoolArray:
        """Whether any method's bound exceeds the claim.

        Args:
          samples: Samples of one statistic's scores.

        Returns:
          An entry for each sample, bool of shape (samples,).
        """
        contradicted = np.zeros(len(samples), bool)
        for number in range(len(self.methods)):
            left = np.flatnonzero(~contradicted)
            if len(left):
                contradicted[left] = self.contradict_by(number, [samples[index] for index in left])
        return contradicted

    def contradict_by(self, number: int, samples: Sequence[ScoredStatistic]) -> BoolArray:
        """Whether one method's bound exceeds the claim, bool of shape (samples,).

        Args:
          number: The method's place among the methods, of which the fast ones come first.
          samples: Samples of one statistic's scores.
        """
        settings = [sample.setting(self.claim.delta, 1 - self.level) for sample in samples]
        return self._rejections[number](settings)

    @functools.cached_property
    def _rejections(self) -> list[Rejection]:
        """One test for each method, the fast ones first."""
        fast_first = sorted(self.methods, key=lambda name: METHODS[name].fast_rejection is None)
        claim = self.claim
        return [METHODS[m].rejection(claim.epsilon, claim.delta, self.level) for m in fast_first]


@dataclass(frozen=True)
class ArrivedSignal:
    """What included canaries show of the signal of a client that takes part as they do.

    Attributes:
      signal: The share of it that they show on average, in [0, 1].
      canaries: The share of included canaries that show anything: with a scored round, in [0, 1].
    """

    signal: float = 1.0
    canaries: float = 1.0

    def shares(self, num_included: int) -> list[FloatArray]:
        """The share that each canary shows, in every way that is simulated.

        Part of the signal may be missing as all canaries show less of it, or as fewer show all of
        it. Which of the two hides more from an audit depends on the claim.

        Returns:
          Arrays, float64 of shape (num_included,); a single one where nothing is missing.
        """
        scored = np.arange(num_included) < round(self.canaries * num_included)
        shorter = np.where(scored, self.signal, 0.0)
        fewer = np.arange(num_included) < round(self.signal * scored.sum())
        return [shorter] if self.signal in (0.0, 1.0) else [shorter, fewer.astype(np.float64)]


@dataclass(frozen=True)
class Power:
    """What simulated audits contradict.

    Attributes:
      power: The share of them that contradict the claim where FACTOR times it is true.
      detectable_epsilon: The smallest true epsilon, at the claim's delta, of which ENOUGH_POWER of
        them contradict the claim, rounded up by at most 1 % or so; None where there is none.
    """

    power: float
    detectable_epsilon: float | None

    @property
    def is_enough(self) -> bool:
        """Whether the power against FACTOR times the claim is enough."""
        return self.power >= ENOUGH_POWER


@dataclass(frozen=True)
class SimulatedAudit:
    """An audit of a Gaussian mechanism.

    Attributes:
      claim: The claim that the audit may contradict; its delta is above 0.
      methods: Names of the valid methods, any of which may contradict the claim.
      level: The probability with which each single bound may fail.
      null: The null distribution that the scores are held against, in units of the simulation
        (`standard_null`); None where it is empirical.
      included_share: Share of the canaries that are included, in (0, 1].
      inclusion: How it was decided which canaries take part.
      inclusion_probability: Probability with which a canary is included.
      arrived: What included canaries show.
    """

    claim: Claim
    methods: tuple[str, ...]
    level: float
    null: NullTail | None
    included_share: float = 0.5
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5
    arrived: ArrivedSignal = ArrivedSignal()

    def simulate(self, num_canaries: int) -> Power:
        """What TRIALS simulated audits with so many canaries contradict.

        All epsilons are tried on the same noise. A sample that contradicts the claim at one of them
        is taken to do so at larger ones, as it does but for rare exceptions. FACTOR times the claim
        is tried first, so that no more than that is detectable where, and only where, its power is
        enough.
        """
        power, detectable = 1.0, 0.0
        for samples in self._samples(num_canaries, TRIALS):
            power = min(power, samples.power(self._wrong_claim))
            signal = samples.detectable(self._true_claim, self._wrong_claim, at_least=detectable)
            detectable = max(detectable, signal)
        if math.isinf(detectable):
            return Power(power, None)
        if detectable == self._wrong_claim:  # to the digit: rounding must not tell another story
            return Power(power, FACTOR * self.claim.epsilon)
        return Power(power, epsilon_of_sigma(1 / detectable, self.claim.delta))

    def power_at(self, num_canaries: int, epsilon: float, trials: int = TRIALS) -> float:
        """The share of simulated audits that contradict the claim where epsilon is true."""
        signal = self._signal(epsilon)
        return min(samples.power(signal) for samples in self._samples(num_canaries, trials))

    def is_enough(self, num_canaries: int) -> bool:
        """Whether ENOUGH_POWER of SEARCH_TRIALS contradict the claim at FACTOR times it."""
        simulated = self._samples(num_canaries, SEARCH_TRIALS)
        return all(samples.has_power(self._wrong_claim) for samples in simulated)

    def canaries_needed(self, at_least: int, detectable: float | None = None) -> int | None:
        """Estimates the number of canaries that gives ENOUGH_POWER.

        The search starts at a guess and goes from there in steps to numbers that are too small and
        enough; then numbers between the two are tried.

        Args:
          at_least: A number of canaries that is known to be too small.
          detectable: The detectable epsilon with so many, which tells a better guess; None where
            there is none.

        Returns:
          The number of canaries, rounded up to two significant digits; None where no number up to
            MOST_CANARIES that was tried is enough.
        """
        if at_least >= MOST_CANARIES:
            return None
        step = _STEP if detectable is None else _STEP_FROM_GUESS
        tried = self._guess(at_least, detectable)
        if not self.is_enough(tried):
            too_few = tried
            while too_few < MOST_CANARIES:
                tried = min(step * too_few, MOST_CANARIES)
                if self.is_enough(tried):
                    return self._between(too_few, tried)
                too_few = tried
            return None
        while (fewer := tried // step) > at_least:
            if not self.is_enough(fewer):
                return self._between(fewer, tried)
            tried = fewer
        return self._between(at_least, tried)

    def _guess(self, at_least: int, detectable: float | None) -> int:
        """A number of canaries to start from, above `at_least`."""
        times = float(_STEP)
        if detectable is not None:
            times = (self._signal(detectable) / self._wrong_claim) ** _POWER_OF_SIGNAL
        return min(max(round(times * at_least), at_least + 1), MOST_CANARIES)

    def _between(self, too_few: int, enough: int) -> int:
        while enough > _CLOSE * too_few and enough > too_few + 1:
            middle = round(math.sqrt(too_few * enough))
            too_few, enough = (too_few, middle) if self.is_enough(middle) else (middle, enough)
        unit = int(10 ** (len(str(enough)) - 2))
        return -(-enough // unit) * unit

    @functools.cached_property
    def _true_claim(self) -> float:
        return self._signal(self.claim.epsilon)

    @functools.cached_property
    def _wrong_claim(self) -> float:
        return self._signal(FACTOR * self.claim.epsilon)

    def _signal(self, epsilon: float) -> float:
        return 1 / sigma_of_epsilon(epsilon, self.claim.delta)

    def _samples(self, num_canaries: int, trials: int) -> "Iterator[_Samples]":
        num_canaries -= num_canaries % 2 if self.inclusion == "pairs" else 0
        noise = _Noise(num_canaries, trials)
        for shares in self.arrived.shares(round(self.included_share * num_canaries)):
            silent = np.zeros((len(self.methods), trials))
            yield _Samples(self, self._tests, noise, shares, silent, np.full(trials, math.inf))

    @functools.cached_property
    def _tests(self) -> RepeatedTests:
        return RepeatedTests(self.claim, self.methods, self.level)


@dataclass(frozen=True)
class _Noise:
    """The noise of simulated scores, the same for each signal and each way in which it shows.

    Attributes:
      num_canaries: Number of canaries in each sample.
      trials: Number of samples.
    """

    num_canaries: int
    trials: int

    def sample(self, number: int) -> FloatArray:
        """The noise of one sample, float64 of shape (num_canaries,), in standard deviations."""
        if self.num_canaries * self.trials > _AT_ONCE:
            return self._sampled(number)
        if number not in self._kept:
            self._kept[number] = self._sampled(number)
        return self._kept[number]

    def _sampled(self, number: int) -> FloatArray:
        return np.random.default_rng((_SEED, self.num_canaries, number)).standard_normal(
            self.num_canaries
        )

    @functools.cached_property
    def _kept(self) -> dict[int, FloatArray]:
        return {}


@dataclass(frozen=True, eq=False)
class _Samples:
    """Simulated samples with fixed noise, of which the signal is free.

    Attributes:
      audit: The audit.
      tests: Its tests.
      noise: The noise of each sample.
      shares: The share of the signal that each included canary shows, float64 of shape (n1,).
      silent: The largest signal tried at which a method does not contradict the claim on a sample,
        float64 of shape (methods, trials).
      loud: The smallest signal tried at which any method does, float64 of shape (trials,).
    """

    audit: SimulatedAudit
    tests: RepeatedTests
    noise: _Noise
    shares: FloatArray
    silent: FloatArray
    loud: FloatArray

    def power(self, signal: float) -> float:
        """The share of the samples that contradict the claim."""
        for method in range(len(self.silent)):
            self._try(method, np.arange(len(self.loud)), signal)
        return float(np.mean(self.loud <= signal))

    def has_power(self, signal: float) -> bool:
        """Whether ENOUGH_POWER of the samples contradict the claim.

        Some samples after others are asked, until it is decided; and methods that take longer only
        of samples that have to contradict the claim by them.
        """
        needed = math.ceil(ENOUGH_POWER * len(self.loud))
        undecided = np.flatnonzero((self.silent < signal).any(axis=0) & (signal < self.loud))
        at_a_time = -(-len(self.loud) // _PARTS)
        for end in range(at_a_time, len(undecided) + at_a_time, at_a_time):
            if int(np.sum(self.loud <= signal)) >= needed:
                return True
            for method in range(len(self.silent)):
                self._try(method, undecided[:end], signal)
                may = (self.loud <= signal) | (self.silent[: method + 1] < signal).any(axis=0)
                if int(np.sum(may)) >= needed:
                    break
            else:
                return False
        return int(np.sum(self.loud <= signal)) >= needed

    def detectable(self, low: float, likely: float, at_least: float) -> float:
        """The smallest signal with ENOUGH_POWER, to _PRECISION from above; infinite if none has.

        Args:
          low: A signal of which next to no sample contradicts the claim.
          likely: A signal that is tried before larger ones.
          at_least: A signal; smaller ones are not looked for.
        """
        if at_least and self.has_power(at_least):
            return at_least
        low, high = max(low, at_least), max(likely, at_least)
        while not self.has_power(high):
            if high >= _LARGEST_SIGNAL or not self.has_power(_LARGEST_SIGNAL):
                return math.inf
            low, high = high, min(1.5 * high, _LARGEST_SIGNAL)
        while high > low * (1 + _PRECISION):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.has_power(middle) else (middle, high)
        return high

    def _try(self, method: int, samples: IndexArray, signal: float) -> None:
        """Learns whether a method contradicts the claim at a signal, where that is not known."""
        is_open = (self.silent[method, samples] < signal) & (signal < self.loud[samples])
        open_ = samples[is_open]
        at_once = max(_AT_ONCE // self.noise.num_canaries, 1)
        for part in (open_[start : start + at_once] for start in range(0, len(open_), at_once)):
            scored = [self._scored(int(number), signal) for number in part]
            contradict = self.tests.contradict_by(method, scored)
            self.loud[part[contradict]] = signal
            self.silent[method, part[~contradict]] = signal

    def _scored(self, number: int, signal: float) -> ScoredStatistic:
        audit, num_included = self.audit, len(self.shares)
        unit = 1.0 if audit.null is None else UNIT  # a known null is that of a cosine
        scores = unit * self.noise.sample(number)
        canary_scores = CanaryScores(
            scores[:num_included] + unit * signal * self.shares,
            scores[num_included:],
            audit.inclusion,
            audit.inclusion_probability,
        )
        return ScoredStatistic(None, canary_scores, Null(tail=audit.null))


# Null distributions in common units, in which they can be compared and audits be simulated.


SIMULATED_DIM = 10**12
"""The dimension of simulated cosines, so large that all of them are below 1."""

UNIT = SIMULATED_DIM**-0.5
"""The standard deviation of simulated cosines."""

_FAR_OUT = 5.0
"""Standard deviations at which null distributions are compared: about where bounds of audits are
proven."""

_ALIKE = 0.5
"""Difference of log probabilities there up to which null distributions count as equally hard."""


def standard_null(statistic: ScoredStatistic) -> NullTail | None:
    """What is known of an excluded score, as if it were a cosine in `SIMULATED_DIM` dimensions.

    Bounds lose as much to it as to the statistic's own distribution: a bound that holds for any
    vector is heavier than the Gaussian, and the union over rounds heavier than one of them.

    Returns:
      None where nothing is known, so that excluded scores have to tell.
    """
    tail = statistic.null.known_tail()
    if tail is None:
        return None
    unit = unit_of(tail)
    if unit is None:  # a null from outside the package that does not say
        return GaussianCanaryNull(SIMULATED_DIM)
    return ScaledNull(_with_equal_rounds(tail), UNIT / unit)


def hardest(statistics: Sequence[ScoredStatistic]) -> list[ScoredStatistic]:
    """The statistics whose nulls let least be proven: unknown ones, else the heaviest.

    Args:
      statistics: The statistics to choose from, at least one.
    """
    nulls = [standard_null(statistic) for statistic in statistics]
    unknown = [statistic for statistic, null in zip(statistics, nulls, strict=True) if null is None]
    if unknown:
        return unknown
    heavy = [float(n.log_tail_upper(_FAR_OUT * UNIT)) for n in nulls if n is not None]
    order = np.argsort(heavy)[::-1]
    return [statistics[at] for at in order if heavy[at] >= max(heavy) - _ALIKE]


def _with_equal_rounds(tail: NullTail) -> NullTail:
    """The null of a maximum over as many rounds, all like the heaviest, computed once."""
    if not isinstance(tail, LargestOfRoundsNull):
        return tail
    at = _FAR_OUT * (unit_of(tail) or 0.0)
    heaviest = max(set(tail.rounds), key=lambda null: float(null.log_tail_upper(at)))
    return LargestOfRoundsNull(len(tail.rounds) * (heaviest,))
