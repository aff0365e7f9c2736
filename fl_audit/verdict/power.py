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
from fl_audit.estimators import METHODS, CanaryScores, NullTail
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma, sigma_of_epsilon
from fl_audit.estimators.methods import Rejection
from fl_audit.estimators.scores import Inclusion
from fl_audit.verdict.claim import Claim
from fl_audit.verdict.claim_tests import ScoredStatistic
from fl_audit.verdict.standard_null import SIMULATED_DIM

FACTOR = 2.0
"""Ratio of the epsilon that has to be detectable to the claimed one, for "consistent"."""

ENOUGH_POWER = 0.8
TRIALS = 400
SEARCH_TRIALS = 30
"""Number of trials for each number of canaries that the search tries."""

MOST_CANARIES = 100_000
"""Largest number of canaries that the search tries."""

_SEED = 20_230_516

_HALVINGS = 3
"""Halvings, in logarithms, of the interval from a number of canaries to four times it: to 19 %."""

_STEP = 4
_PRECISION = 0.005
"""Relative precision of the signal that is detected."""

_LARGEST_SIGNAL = 100.0
"""The largest signal of a canary that is tried, in standard deviations of its score."""

_AT_A_TIME = 10
"""Trials after which the search asks whether it is decided."""

_AT_ONCE = 2_000_000
"""Number of simulated scores in memory at a time."""

_UNIT = SIMULATED_DIM**-0.5


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
        """Whether any method's bound exceeds the claim, for each sample of one statistic."""
        settings = [one.setting(self.claim.delta, 1 - self.level) for one in samples]
        found = np.zeros(len(settings), bool)
        for rejects in self._rejections:
            left = np.flatnonzero(~found)
            if len(left):
                found[left] = rejects([settings[index] for index in left])
        return found

    @functools.cached_property
    def _rejections(self) -> list[Rejection]:
        """One test for each method, the fast ones first."""
        fast_first = sorted(self.methods, key=lambda name: METHODS[name].fast_rejection is None)
        claim = self.claim
        return [METHODS[m].rejection(claim.epsilon, claim.delta, self.level) for m in fast_first]


@dataclass(frozen=True)
class Shown:
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
      null: The null law that the scores are held against, in units of the simulation
        (`standard_null`); None where it is empirical.
      included_share: Share of the canaries that are included, in (0, 1].
      inclusion: How it was decided which canaries take part.
      inclusion_probability: Probability with which a canary is included.
      shown: What included canaries show.
    """

    claim: Claim
    methods: tuple[str, ...]
    level: float
    null: NullTail | None
    included_share: float = 0.5
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5
    shown: Shown = Shown()

    def simulate(self, num_canaries: int) -> Power:
        """What TRIALS simulated audits with so many canaries contradict.

        All epsilons are tried on the same noise. A sample that contradicts the claim at one of them
        is taken to do so at larger ones, as it does but for rare exceptions. FACTOR times the claim
        is tried first, so that no more than that is detectable where, and only where, its power is
        enough.
        """
        power, detectable = 1.0, 0.0
        for one in self._samples(num_canaries, TRIALS):
            power = min(power, one.power(self._wrong_claim))
            found = one.detectable(self._true_claim, self._wrong_claim, at_least=detectable)
            detectable = max(detectable, found)
        if math.isinf(detectable):
            return Power(power, None)
        if detectable == self._wrong_claim:  # to the digit: rounding must not tell another story
            return Power(power, FACTOR * self.claim.epsilon)
        return Power(power, epsilon_of_sigma(1 / detectable, self.claim.delta))

    def power_at(self, num_canaries: int, epsilon: float, trials: int = TRIALS) -> float:
        """The share of simulated audits that contradict the claim where epsilon is true."""
        signal = self._signal(epsilon)
        return min(one.power(signal) for one in self._samples(num_canaries, trials))

    def is_enough(self, num_canaries: int) -> bool:
        """Whether ENOUGH_POWER of SEARCH_TRIALS contradict the claim at FACTOR times it."""
        samples = self._samples(num_canaries, SEARCH_TRIALS)
        return all(one.is_enough(self._wrong_claim) for one in samples)

    def canaries_needed(self, at_least: int) -> int | None:
        """Estimates the number of canaries that gives ENOUGH_POWER.

        The number is multiplied until it is enough; then numbers between the last two are tried.

        Args:
          at_least: A number of canaries that is known to be too small.

        Returns:
          The number of canaries, rounded up to two significant digits; None where no number up to
            MOST_CANARIES that was tried is enough.
        """
        too_few = at_least
        while too_few < MOST_CANARIES:
            enough = min(_STEP * too_few, MOST_CANARIES)
            if self.is_enough(enough):
                return self._between(too_few, enough)
            too_few = enough
        return None

    def _between(self, too_few: int, enough: int) -> int:
        for _ in range(_HALVINGS):
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
        for shares in self.shown.shares(round(self.included_share * num_canaries)):
            silent, loud = np.zeros(trials), np.full(trials, math.inf)
            yield _Samples(self, self._tests, num_canaries, shares, silent, loud)

    @functools.cached_property
    def _tests(self) -> RepeatedTests:
        return RepeatedTests(self.claim, self.methods, self.level)


@dataclass(frozen=True, eq=False)
class _Samples:
    """Simulated samples with fixed noise, of which the signal is free.

    Attributes:
      audit: The audit.
      tests: Its tests.
      num_canaries: Number of canaries in each sample.
      shares: The share of the signal that each included canary shows, float64 of shape (n1,).
      silent: The largest signal tried at which each sample does not contradict the claim, float64
        of shape (trials,).
      loud: The smallest signal tried at which it does, of the same shape.
    """

    audit: SimulatedAudit
    tests: RepeatedTests
    num_canaries: int
    shares: FloatArray
    silent: FloatArray
    loud: FloatArray

    def power(self, signal: float) -> float:
        """The share of the samples that contradict the claim."""
        self._try(np.arange(len(self.loud)), signal)
        return float(np.mean(self.loud <= signal))

    def is_enough(self, signal: float) -> bool:
        """Whether ENOUGH_POWER of the samples contradict the claim; stops once it is decided."""
        trials = len(self.loud)
        needed = math.ceil(ENOUGH_POWER * trials)
        if not self._contradict(np.zeros(1, np.int64), _LARGEST_SIGNAL)[0]:
            return False
        hits = tried = 0
        while hits < needed <= hits + trials - tried:
            some = np.arange(tried, min(tried + _AT_A_TIME, trials))
            self._try(some, signal)
            hits, tried = hits + int(np.sum(self.loud[some] <= signal)), tried + len(some)
        return hits >= needed

    def detectable(self, low: float, likely: float, at_least: float) -> float:
        """The smallest signal with ENOUGH_POWER, to _PRECISION from above; infinite if none has.

        Args:
          low: A signal of which next to no sample contradicts the claim.
          likely: A signal that is tried before larger ones.
          at_least: A signal; smaller ones are not looked for.
        """
        if at_least and self._has_power(at_least):
            return at_least
        low, high = max(low, at_least), max(likely, at_least)
        while not self._has_power(high):
            if high >= _LARGEST_SIGNAL or not self._has_power(_LARGEST_SIGNAL):
                return math.inf
            low, high = high, min(1.5 * high, _LARGEST_SIGNAL)
        while high > low * (1 + _PRECISION):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._has_power(middle) else (middle, high)
        return high

    def _has_power(self, signal: float) -> bool:
        return self.power(signal) >= ENOUGH_POWER

    def _try(self, trials: IndexArray, signal: float) -> None:
        """Learns of some samples whether they contradict the claim at a signal."""
        undecided = (self.silent[trials] < signal) & (signal < self.loud[trials])
        open_ = trials[undecided]
        contradict = self._contradict(open_, signal)
        self.loud[open_[contradict]] = signal
        self.silent[open_[~contradict]] = signal

    def _contradict(self, trials: IndexArray, signal: float) -> BoolArray:
        """Whether some samples contradict the claim, bool of shape (trials,)."""
        at_once = max(_AT_ONCE // self.num_canaries, 1)
        parts = [trials[start : start + at_once] for start in range(0, len(trials), at_once)]
        found = [
            self.tests.contradict([self._scored(int(number), signal) for number in part])
            for part in parts
        ]
        return np.concatenate([np.zeros(0, bool), *found])

    def _scored(self, number: int, signal: float) -> ScoredStatistic:
        noise = np.random.default_rng((_SEED, self.num_canaries, number))
        num_included = len(self.shares)
        audit = self.audit
        unit = 1.0 if audit.null is None else _UNIT  # a known null is that of a cosine
        scores = unit * noise.standard_normal(self.num_canaries)
        found = CanaryScores(
            scores[:num_included] + unit * signal * self.shares,
            scores[num_included:],
            audit.inclusion,
            audit.inclusion_probability,
        )
        return ScoredStatistic(None, found, "empirical", null_tail=audit.null)
