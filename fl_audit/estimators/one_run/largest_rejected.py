"""The largest epsilon that a test rejects, where its p-value need not grow with epsilon."""

from collections.abc import Callable

import numpy as np
from scipy import optimize, special

_TRIED = 24
_TOLERANCE = 1e-9
_XTOL = _TOLERANCE / 10
_TINY = 1e-300
_LARGEST = 700.0


def largest_rejected(
    p_value: Callable[[float], float], chance: Callable[[float], float], alpha: float
) -> float:
    """An epsilon with a p-value below alpha, the largest on a grid, refined; 0 if there is none.

    It is 700, beyond which e^epsilon leaves the range of floats, if all up to there are rejected.

    Who rejects (epsilon, delta)-DP may reject all smaller epsilons with it, since they imply it
    (Steinke et al. 2023, Lemma 4.7). So wherever the p-value is below alpha is a valid bound, also
    if it grows again towards epsilon = 0, as terms in delta do. The search goes down from where the
    chance at delta = 0 reaches alpha; 1e-9 is taken off, so that it errs to the valid side.

    Args:
      p_value: The p-value by epsilon, at least `chance`.
      chance: The p-value at delta = 0 by epsilon, which grows with it.
      alpha: Level of the test, in (0, 1).

    >>> round(largest_rejected(lambda x: x / 10 + 0.01, lambda x: x / 10, 0.05), 6)
    0.4
    """
    if chance(0.0) >= alpha:
        return 0.0
    above = 1.0
    while chance(above) < alpha:
        above *= 2
        if above > _LARGEST:
            return _LARGEST
    limit = crossing_point(chance, alpha, above / 2 if above > 1 else 0.0, above, _XTOL)
    grid = np.linspace(0.0, limit, _TRIED + 1)
    for low, high in zip(grid[-2::-1], grid[:0:-1], strict=True):
        if p_value(float(low)) < alpha:
            found = crossing_point(p_value, alpha, float(low), float(high), _XTOL)
            return max(found - _TOLERANCE, float(low))
    return 0.0


def crossing_point(
    p_value: Callable[[float], float], alpha: float, low: float, high: float, xtol: float
) -> float:
    """The point where a p-value below alpha at `low` reaches it, to xtol; `high` if not before."""

    def excess(epsilon: float) -> float:
        # Normal quantiles, since they grow nearly in proportion to epsilon.
        quantile = special.ndtri(np.clip(p_value(epsilon), _TINY, 1 - 1e-16))
        return float(quantile - special.ndtri(alpha))

    if excess(high) <= 0:
        return high
    return float(optimize.brentq(excess, low, high, xtol=xtol))
