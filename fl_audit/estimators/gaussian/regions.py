"""The epsilon of two Gaussians over all regions, not only those that a threshold cuts off.

The best region for an attacker is where the log likelihood ratio exceeds epsilon (Neyman and
Pearson). Between Gaussians of unequal deviations it is an interval or the outside of one.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from fl_audit.estimators.arguments import check_delta
from fl_audit.estimators.bisection import supremum
from fl_audit.estimators.laws import Gaussian
from fl_audit.estimators.rates import log_ratio


def epsilon_over_all_regions(first: Gaussian, second: Gaussian, delta: float) -> float:
    """The smallest epsilon with which two Gaussians are (epsilon, delta)-indistinguishable.

    It solves max over both orders of P(L > epsilon) - e^epsilon Q(L > epsilon) = delta, where L =
    log(p / q) (Steinke 2022, "Composition of differential privacy", arXiv:2210.00597, Prop. 7).
    With equal deviations it is the analytic Gaussian mechanism of Balle & Wang (2018). It is
    infinite where delta is 0 or a deviation is 0, unless the laws are equal.

    Args:
      first: Law of the scores on one side; the order of the two does not matter.
      second: Law of the scores on the other side.
      delta: The delta of differential privacy, in [0, 1).

    Raises:
      InputError: If delta is out of range.

    >>> round(epsilon_over_all_regions(Gaussian(0, 1), Gaussian(1, 1), 1e-5), 2)
    4.38
    """
    check_delta(delta)
    if first == second:
        return 0.0
    if delta == 0 or first.std == 0 or second.std == 0:
        return math.inf
    orders = [_LikelihoodRatio.between(first, second), _LikelihoodRatio.between(second, first)]
    return supremum(lambda eps: any(order.proves(eps, delta) for order in orders))


@dataclass(frozen=True)
class _LikelihoodRatio:
    """The log ratio square x^2 + slope x + constant of p = N(0, 1) to q = N(mean, std^2)."""

    square: float
    slope: float
    constant: float
    mean: float
    std: float

    @classmethod
    def between(cls, p: Gaussian, q: Gaussian) -> "_LikelihoodRatio":
        """The ratio of p to q, in units that make p the standard normal law."""
        mean, std = (q.mean - p.mean) / p.std, q.std / p.std
        # (1 - std)(1 + std), not 1 - std^2: nearly equal deviations must not cancel.
        square = (1 - std) * (1 + std) / (2 * std**2)
        return cls(square, -mean / std**2, (mean / std) ** 2 / 2 + math.log(std), mean, std)

    def proves(self, epsilon: float, delta: float) -> bool:
        """Whether P(L > epsilon) - delta > e^epsilon Q(L > epsilon)."""
        log_p, log_q = self._log_masses_above(epsilon)
        return bool(log_ratio(log_p, log_q, delta) > epsilon)

    def _log_masses_above(self, epsilon: float) -> tuple[float, float]:
        """Log P(L > epsilon) and log Q(L > epsilon)."""
        roots = self._crossings(epsilon)
        if roots is None:
            # L never reaches epsilon (square < 0), or always exceeds it, which proves nothing
            # for epsilon >= 0 because the whole line has mass 1 under both.
            return -math.inf, -math.inf
        p_roots = roots
        q_roots = (roots[0] - self.mean) / self.std, (roots[1] - self.mean) / self.std
        measure = _log_outside if self.square > 0 else _log_between
        return measure(*p_roots), measure(*q_roots)

    def _crossings(self, epsilon: float) -> tuple[float, float] | None:
        """The points where L = epsilon, in increasing order; one is infinite if L is a line."""
        offset = self.constant - epsilon
        if self.square == 0 and self.slope == 0:
            return None
        if self.square == 0:
            root = -offset / self.slope
            # L > epsilon on one side of the root: written as "between" it and infinity.
            return (root, math.inf) if self.slope > 0 else (-math.inf, root)
        discriminant = self.slope**2 - 4 * self.square * offset
        if discriminant <= 0:
            return None
        # The stable pair of roots: never the difference of two nearly equal numbers.
        pivot = -(self.slope + math.copysign(math.sqrt(discriminant), self.slope)) / 2
        left, right = sorted((pivot / self.square, offset / pivot))
        return left, right


def _log_outside(left: float, right: float) -> float:
    """Log of the standard normal mass outside [left, right]."""
    return float(np.logaddexp(special.log_ndtr(left), special.log_ndtr(-right)))


def _log_between(left: float, right: float) -> float:
    """Log of the standard normal mass of [left, right]."""
    # In the tail that both ends share, so that neither cumulative probability rounds to 1.
    low, high = (-right, -left) if left > 0 else (left, right)
    log_low, log_high = float(special.log_ndtr(low)), float(special.log_ndtr(high))
    if log_low >= log_high:
        return -math.inf
    return log_high + math.log1p(-math.exp(log_low - log_high))
