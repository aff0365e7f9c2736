"""The one-run bound as its authors' pseudocode computes it, one guess at a time.

Steinke, Nasr & Jagielski (2023), "Privacy auditing with one (1) training run", arXiv:2305.08846,
appendix D: p_value_DP_audit and get_eps_audit, implemented from the paper. It has a Python loop
over the right guesses, a call of SciPy for each, and 30 steps of bisection.
"""

import math

from scipy import stats

_BISECTIONS = 30


def p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """A bound on the chance of v or more right guesses out of r under (epsilon, delta)-DP."""
    right = 1 / (1 + math.exp(-epsilon))
    beta = float(stats.binom.sf(v - 1, r, right))
    steepest, below_v = 0.0, 0.0
    for i in range(1, v + 1):
        below_v += float(stats.binom.pmf(v - i, r, right))
        if below_v > i * steepest:
            steepest = below_v / i
    return min(beta + steepest * delta * 2 * m, 1.0)


def eps_lower_bound(m: int, r: int, v: int, delta: float, confidence: float) -> float:
    """The largest epsilon that v right guesses out of r reject, from below to about 2^-30.

    Args:
      m: Number of canaries.
      r: Number of guesses.
      v: Number of right guesses.
      delta: The delta of the guarantee, in [0, 1].
      confidence: Confidence of the bound, in (0, 1).
    """
    alpha = 1 - confidence
    low, high = 0.0, 1.0
    while p_value(m, r, v, high, delta) < alpha:
        high += 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if p_value(m, r, v, middle, delta) < alpha:
            low = middle
        else:
            high = middle
    return low
