"""A mechanism for which the one-run test is nearly tight: Steinke et al. (2023), Algorithm 4.

It guesses about r canaries drawn at random by randomised response. With probability beta, all its
guesses are better at once: each canary's delta counts m / (r beta) times over. So delta matters far
more than for independent guesses: what is guessed about different canaries is private for each, but
not independent.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_delta, check_epsilon
from fl_audit.estimators.one_run.bound import binomial_tail, check_counts

Signs = npt.NDArray[np.int64]

_TRIED = 400


@dataclass(frozen=True)
class PathologicalMechanism:
    """Algorithm 4, which is (epsilon, delta)-DP in each canary's inclusion.

    Attributes:
      num_canaries: Number of canaries m.
      num_guesses: Number of guesses r, in [1, m].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1); 0 gives randomised response on r
        canaries.
      beta: The probability of the bad case, in (0, 1], at least m delta / r.

    Raises:
      InputError: If a field is out of range.
    """

    num_canaries: int
    num_guesses: int
    epsilon: float
    delta: float
    beta: float

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        check_counts(self.num_canaries, self.num_guesses, 0)
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.num_guesses < 1:
            raise InputError("guesses (r) must be at least 1, got 0")
        if not 0 < self.beta <= 1:
            raise InputError(f"beta must be in (0, 1], got {self.beta}")
        if self.num_canaries * self.delta > self.num_guesses * self.beta * (1 + 1e-12):
            least = self.num_canaries * self.delta / self.num_guesses
            raise InputError(f"beta must be at least m delta / r = {least:g}, got {self.beta}")

    @property
    def revealed(self) -> float:
        """The chance that a guess is right for sure in the bad case, m delta / (r beta)."""
        return min(self.num_canaries * self.delta / (self.num_guesses * self.beta), 1.0)

    def guesses(self, inclusion: Signs, rng: np.random.Generator) -> Signs:
        """One run: the guesses T in {-1, 0, 1} of shape (m,), of which r are not 0.

        Args:
          inclusion: Signs S of shape (m,), 1 for an included canary and -1 for an excluded one.
          rng: The source of all randomness.

        Raises:
          InputError: If inclusion does not have shape (m,) or holds other values than signs.
        """
        signs = np.asarray(inclusion)
        if signs.shape != (self.num_canaries,) or not np.all(np.abs(signs) == 1):
            raise InputError(f"inclusion must be {self.num_canaries} signs, -1 or 1")
        drawn = rng.choice(self.num_canaries, self.num_guesses, replace=False)
        logit = self.bad_logit() if rng.random() < self.beta else self.epsilon
        right = rng.random(self.num_guesses) < special.expit(logit)
        guesses = np.zeros(self.num_canaries, dtype=np.int64)
        guesses[drawn] = np.where(right, signs[drawn], -signs[drawn])
        return guesses

    def bad_logit(self) -> float:
        """The log odds of a right guess in the bad case, infinite if everything is revealed.

        The odds are x + (1 - x) p to (1 - x) (1 - p) for x revealed, so the result is log(e^epsilon
        + x) - log(1 - x).
        """
        x = self.revealed
        if x == 1:
            return math.inf
        return self.epsilon + math.log1p(x * math.exp(-self.epsilon)) - math.log1p(-x)

    def tail(self, v: npt.ArrayLike) -> FloatArray:
        """The exact chances of v or more right guesses for any canaries, float64 of shape (n,).

        >>> PathologicalMechanism(2, 2, 0.0, 0.25, 0.5).tail([0, 1, 2]).round(9).tolist()
        [1.0, 0.84375, 0.40625]
        """
        needed = np.asarray(v, dtype=np.int64)
        r = np.full_like(needed, self.num_guesses)
        bad = binomial_tail(r, needed, self.bad_logit())
        good = binomial_tail(r, needed, self.epsilon)
        return np.asarray(self.beta * bad + (1 - self.beta) * good)


def worst_beta(m: int, r: int, v: int, *, epsilon: float, delta: float) -> PathologicalMechanism:
    """The mechanism of Algorithm 4 that is most likely to be right v times or more.

    Args:
      m: Number of canaries.
      r: Number of guesses, in [1, m].
      v: Number of right guesses, in [0, r].
      epsilon: The epsilon of differential privacy, finite and at least 0.
      delta: The delta of differential privacy, in [0, 1), at most r / m.

    Raises:
      InputError: If an argument is out of range.

    >>> bad = worst_beta(1000, 100, 75, epsilon=0.7, delta=1e-4)
    >>> round(bad.beta, 3), round(float(bad.tail(75)), 3)
    (0.003, 0.051)
    """
    check_counts(m, r, v)
    least = PathologicalMechanism(m, r, epsilon, delta, 1.0).revealed
    betas = np.append(np.geomspace(max(least, 1e-300), 1.0, _TRIED)[:-1], 1.0)
    tried = [PathologicalMechanism(m, r, epsilon, delta, float(beta)) for beta in betas]
    return max(tried, key=lambda mechanism: float(mechanism.tail(v)))
