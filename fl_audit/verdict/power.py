"""How likely an audit would contradict a claim that is wrong by a factor, by simulation.

The simulated audit is an ideal one: one canary's score is its inclusion bit plus Gaussian noise,
as if the attacker saw the whole signal of a Gaussian mechanism in this one statistic. A real
attack may see less.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_audit.estimators import CanaryScores
from fl_audit.estimators.known_mechanisms import KnownMechanism, gaussian
from fl_audit.estimators.setting import Null
from fl_audit.verdict.claim import Claim
from fl_audit.verdict.evidence import Look, Statistic
from fl_audit.verdict.one_run_region import OneRunRegion, one_run_region

FACTOR = 2.0
"""The simulated mechanism's epsilon, over the claim's."""

ENOUGH_POWER = 0.8
TRIALS = 200
SEARCH_TRIALS = 100
"""For each number of canaries that the search tries."""

MOST_CANARIES = 100_000
"""No search for the number of canaries goes beyond."""

_SEED = 20_230_516
_DIM = 10**12
"""So large that every simulated cosine is below 1."""

_HALVINGS = 3
"""Of the interval between a number of canaries and its double, in logarithms: to 9 %."""


@dataclass(frozen=True)
class SimulatedAudit:
    """An audit of a Gaussian mechanism whose epsilon is FACTOR times the claimed one.

    Attributes:
      claim: that it may contradict; delta above 0.
      methods: names in VALID_METHODS, any of which may contradict it.
      level: the probability with which each of them may fail.
      null: whether the law of an excluded canary's score is known.
      included_share: of the canaries.
    """

    claim: Claim
    methods: tuple[str, ...]
    level: float
    null: Null
    included_share: float = 0.5

    def power(self, num_canaries: int) -> float:
        """Share of TRIALS that contradict the claim."""
        return sum(self._trials(num_canaries, TRIALS)) / TRIALS

    def is_enough(self, num_canaries: int) -> bool:
        """Whether ENOUGH_POWER of SEARCH_TRIALS contradict the claim, from as few as decide it."""
        needed = math.ceil(ENOUGH_POWER * SEARCH_TRIALS)
        hits = misses = 0
        for is_hit in self._trials(num_canaries, SEARCH_TRIALS):
            hits, misses = hits + is_hit, misses + (not is_hit)
            if hits == needed or misses > SEARCH_TRIALS - needed:
                break
        return hits == needed

    def canaries_needed(self, at_least: int) -> int | None:
        """About how many canaries give ENOUGH_POWER, more than `at_least`, which are too few.

        The double of `at_least`, its double and so on are tried, then numbers between the last two.

        Returns:
          Two significant digits, rounded up; None where no number up to MOST_CANARIES that was
          tried is enough.
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
        dim = _DIM if self.null == "closed_form" else None
        return gaussian(FACTOR * self.claim.epsilon, self.claim.delta, dim)

    def _trials(self, num_canaries: int, num_trials: int) -> Iterator[bool]:
        """Whether the claim is contradicted, trial by trial."""
        included = np.arange(num_canaries) < round(self.included_share * num_canaries)
        region = self._one_run_region(num_canaries)
        for number in range(num_trials):
            rng = np.random.default_rng((_SEED, num_canaries, number))
            released = self._mechanism.release(rng, included.astype(np.int64))
            scores = CanaryScores(released[included], released[~included])
            yield region.rejects(scores) or self._threshold_rejects(scores)

    def _threshold_rejects(self, scores: CanaryScores) -> bool:
        if "threshold_valid" not in self.methods:
            return False
        look = Look("threshold_valid", Statistic(None, scores, self.null, self._mechanism.dim))
        return look.rejects(self.claim.epsilon, self.claim.delta, self.level)

    def _one_run_region(self, num_canaries: int) -> OneRunRegion:
        if "one_run_valid" not in self.methods or not 0 < self.included_share < 1:
            return OneRunRegion(None)
        return one_run_region(self.claim, num_canaries, self.level)
