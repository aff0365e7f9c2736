"""The posterior law of epsilon given the counts of an attack."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.arguments import check_confidence, check_delta
from fl_audit.estimators.counts.confusion import ConfusionCounts, Interval
from fl_audit.estimators.counts.region_mass import RateLaws, corner_density, corner_mass

_PRECISION = 1e-12
"""The absolute precision of a quantile."""

_SCORED = (1e-300, 1 - 2**-53)
"""The range of probabilities with finite normal scores."""


@dataclass(frozen=True)
class EpsilonPosterior:
    """The law of epsilon(FNR, FPR) under the joint posterior of the two error rates.

    FNR and FPR are independent with Jeffreys priors, so Beta(FN + 1/2, TP + 1/2) and
    Beta(FP + 1/2, TN + 1/2) given the counts; epsilon is the infimum that `epsilon_of_rates`
    gives. Its law has an atom at 0 (the rates that (0, delta)-DP allows; none if delta is 0) and a
    positive density beyond. Zanella-Béguelin et al. (2022), section 3.2, equations 2, 3 and 6, and
    appendix A.2. (There the upper boundary lacks "1 +" in front of (delta - x) e^-epsilon.)

    Attributes:
      counts: Counts of the attack's right and wrong guesses.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If delta is out of range.

    >>> posterior = EpsilonPosterior(ConfusionCounts(35, 65, 25, 75), delta=0.05)
    >>> interval = posterior.interval(0.95)  # the paper's example
    >>> round(interval.lower, 4), round(interval.upper, 4)
    (0.5218, 1.2666)
    """

    counts: ConfusionCounts
    delta: float
    _fnr: RateLaws = field(init=False, repr=False, compare=False)
    _fpr: RateLaws = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check delta, and find where the rates' mass lies."""
        check_delta(self.delta)
        counts = self.counts
        fnr = RateLaws.jeffreys(counts.false_negatives, counts.true_positives)
        fpr = RateLaws.jeffreys(counts.false_positives, counts.true_negatives)
        object.__setattr__(self, "_fnr", fnr)
        object.__setattr__(self, "_fpr", fpr)

    @property
    def atom(self) -> float:
        """P(epsilon = 0), the posterior mass of R(0, delta) (equation 13)."""
        return float(self.cdf(0.0))

    def sf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """P(epsilon > x), elementwise, with an absolute error below 1e-8 (see `corner_mass`).

        Args:
          epsilon: Points x, finite, at least 0, of any shape.

        Raises:
          InputError: If an x is negative, infinite or NaN.
        """
        return np.clip(self._over_corners(corner_mass, epsilon), 0.0, 1.0)

    def cdf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """P(epsilon <= x), elementwise (definition 3.1, equation 3).

        Args:
          epsilon: Points x, finite, at least 0, of any shape.

        Raises:
          InputError: If an x is negative, infinite or NaN.
        """
        return np.asarray(1.0 - self.sf(epsilon))

    def pdf(self, epsilon: npt.ArrayLike) -> FloatArray:
        """The density of the part without the atom, elementwise (equations 7 to 12).

        It integrates to 1 - `atom` over epsilon > 0.

        Args:
          epsilon: Points in nats, finite, at least 0, of any shape.

        Raises:
          InputError: If an epsilon is negative, infinite or NaN.
        """
        return self._over_corners(corner_density, epsilon)

    def quantile(self, probability: float) -> float:
        """The epsilon at which the cdf reaches a probability; 0 if the atom does.

        Args:
          probability: The probability to reach, in (0, 1).

        Raises:
          InputError: If the probability is out of range.
        """
        if not 0 < probability < 1:
            raise InputError(f"probability must be in (0, 1), got {probability}")
        return self._where_sf_is(1 - probability)

    def interval(self, confidence: float) -> Interval:
        """The equal-tailed credible interval (equations 4 and 5).

        (Section 3.3 puts the lower end at the alpha quantile: that is of a one-sided interval.)

        Args:
          confidence: Posterior probability of the interval, in (0, 1).

        Raises:
          InputError: If the confidence is out of range.
        """
        check_confidence(confidence)
        tail = (1 - confidence) / 2
        return Interval(self._where_sf_is(1 - tail), self._where_sf_is(tail))

    def _over_corners(
        self,
        of_corner: Callable[[RateLaws, RateLaws, float, FloatArray], FloatArray],
        epsilon: npt.ArrayLike,
    ) -> FloatArray:
        """The sum over both corners outside the privacy region, at each epsilon."""
        values = np.asarray(epsilon, dtype=np.float64)
        bad = values[~((values >= 0) & (values < np.inf))]
        if bad.size:
            raise InputError(f"epsilon must be finite and at least 0, got {bad.flat[0]}")
        flat = values.ravel()
        # Four wings of one table share a call, as they share its overhead.
        rows = np.zeros(len(flat), dtype=np.intp)
        fnr, fpr = self._fnr[rows], self._fpr[rows]
        both = of_corner(
            fnr.then(fnr.opposite),
            fpr.then(fpr.opposite),
            self.delta,
            np.concatenate([flat, flat]),
        )
        return np.asarray((both[: len(flat)] + both[len(flat) :]).reshape(values.shape))

    def _where_sf_is(self, probability: float) -> float:
        """The epsilon beyond which that probability lies; 0 if no more than that lies beyond 0."""
        target = special.ndtri(probability)

        @functools.cache  # the bracket's ends are asked for twice
        def excess(epsilon: float) -> float:
            # As a normal score the cdf is nearly a straight line, and the root a few steps away.
            return float(special.ndtri(np.clip(self.sf(epsilon), *_SCORED)) - target)

        below, above = 0.0, 1.0
        if excess(below) <= 0:
            return 0.0
        while excess(above) > 0:
            below, above = above, 2 * above
        return float(optimize.brentq(excess, below, above, xtol=_PRECISION))
