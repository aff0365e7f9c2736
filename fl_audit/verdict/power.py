"""The simulated probability that an audit contradicts a claim that is wrong by a known factor.

The simulated audit is ideal: the score of a canary is its inclusion bit plus Gaussian noise, as if
the attacker saw the whole signal of a Gaussian mechanism in one statistic. A real attack may see
less.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators import METHODS, CanaryScores, NullTail
from fl_audit.estimators.known_mechanisms import KnownMechanism, gaussian
from fl_audit.estimators.scores import Inclusion
from fl_audit.verdict.claim import Claim
from fl_audit.verdict.claim_tests import ClaimTest, ScoredStatistic
from fl_audit.verdict.standard_null import SIMULATED_DIM

FACTOR = 2.0
"""Ratio of the simulated mechanism's epsilon to the claimed one."""

ENOUGH_POWER = 0.8
TRIALS = 200
SEARCH_TRIALS = 100
"""Number of trials for each number of canaries that the search tries."""

MOST_CANARIES = 100_000
"""Largest number of canaries that the search tries."""

_SEED = 20_230_516

_HALVINGS = 3
"""Halvings, in logarithms, of the interval from a number of canaries to its double: to 9 %."""


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

    def contradict(self, statistic: ScoredStatistic) -> bool:
        """Whether any method's bound exceeds the claim on one statistic."""
        return any(rejects(statistic) for rejects in self._rejections)

    @functools.cached_property
    def _rejections(self) -> list[Callable[[ScoredStatistic], bool]]:
        """One test for each method, the fast ones first."""
        fast_first = sorted(self.methods, key=lambda name: METHODS[name].fast_rejection is None)
        return [self._rejection(name) for name in fast_first]

    def _rejection(self, name: str) -> Callable[[ScoredStatistic], bool]:
        epsilon, delta = self.claim.epsilon, self.claim.delta
        make = METHODS[name].fast_rejection
        if make is None:
            return lambda statistic: ClaimTest(name, statistic).rejects(epsilon, delta, self.level)
        rejects = make(epsilon, delta, self.level)
        return lambda statistic: rejects(statistic.scores)


@dataclass(frozen=True)
class SimulatedAudit:
    """An audit of a Gaussian mechanism whose epsilon is FACTOR times the claimed one.

    Attributes:
      claim: The claim that the audit may contradict; its delta is above 0.
      methods: Names of the valid methods, any of which may contradict the claim.
      level: The probability with which each single bound may fail.
      null: The null law that the scores are held against, in units of the simulation
        (`standard_null`); None where it is empirical.
      included_share: Share of the canaries that are included, in (0, 1).
      inclusion: How it was decided which canaries take part.
      inclusion_probability: Probability with which a canary is included.
    """

    claim: Claim
    methods: tuple[str, ...]
    level: float
    null: NullTail | None
    included_share: float = 0.5
    inclusion: Inclusion = "coins"
    inclusion_probability: float = 0.5

    def power(self, num_canaries: int) -> float:
        """The share of TRIALS simulated audits that contradict the claim."""
        return sum(self._trials(num_canaries, TRIALS)) / TRIALS

    def is_enough(self, num_canaries: int) -> bool:
        """Whether ENOUGH_POWER of SEARCH_TRIALS contradict the claim; stops once it is decided."""
        needed = math.ceil(ENOUGH_POWER * SEARCH_TRIALS)
        hits = misses = 0
        for is_hit in self._trials(num_canaries, SEARCH_TRIALS):
            hits, misses = hits + is_hit, misses + (not is_hit)
            if hits == needed or misses > SEARCH_TRIALS - needed:
                break
        return hits == needed

    def canaries_needed(self, at_least: int) -> int | None:
        """Estimates the number of canaries that gives ENOUGH_POWER.

        The number is doubled until it is enough; then numbers between the last two are tried.

        Args:
          at_least: A number of canaries that is known to be too small.

        Returns:
          The number of canaries, rounded up to two significant digits; None where no number up to
            MOST_CANARIES that was tried is enough.
        """
        too_few = at_least
        while too_few < MOST_CANARIES:
            enough = min(2 * too_few, MOST_CANARIES)
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
    def _mechanism(self) -> KnownMechanism:
        dim = None if self.null is None else SIMULATED_DIM
        return gaussian(FACTOR * self.claim.epsilon, self.claim.delta, dim)

    def _trials(self, num_canaries: int, num_trials: int) -> Iterator[bool]:
        """Whether the claim is contradicted, trial by trial."""
        num_canaries -= num_canaries % 2 if self.inclusion == "pairs" else 0
        included = np.arange(num_canaries) < round(self.included_share * num_canaries)
        for number in range(num_trials):
            rng = np.random.default_rng((_SEED, num_canaries, number))
            released = self._mechanism.release(rng, included.astype(np.int64))
            scores = CanaryScores(
                released[included],
                released[~included],
                self.inclusion,
                self.inclusion_probability,
            )
            yield self._tests.contradict(
                ScoredStatistic(None, scores, "empirical", self._mechanism.dim, null_tail=self.null)
            )

    @functools.cached_property
    def _tests(self) -> RepeatedTests:
        return RepeatedTests(self.claim, self.methods, self.level)
