"""The terms that delta adds to the chance of many right guesses, in laws of several kinds.

`steepest` is the term of Steinke et al. (2023), Theorem 5.2, as printed. Its proof takes the number
of failures to be independent of the right guesses, which it is not (see sharp.py for a case in
which the theorem fails, though none is known at small p-values). What is called proven here rests
on the proof in sharp.py instead, which carries over to guesses of any weights, each right with its
own probability p_j: with its g_j, and canaries included with probability pi,

    P(event) <= E f + m delta (pi max g_j over guesses "included" + (1 - pi) max g_j over others),

where g_j <= (1 - p_j) A for a bound A on the mean chance that guess j decides about the event.
"""

from collections.abc import Callable

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.one_run.bound import binomial_probability
from fl_audit.estimators.one_run.guesses import Counts

Tail = Callable[[Counts], FloatArray]
"""Function from an array of integers k to the chances that an integer law is at least k."""

_DENSE_UP_TO = 1000
_GRID_RATIO = 1.01


def steepest(tail: Tail, v: int, largest: int) -> float:
    """The alpha of Theorem 5.2, equation 9: max over i in 1..largest of (f(v - i) - f(v)) / i.

    Args:
      tail: Tail f of a unimodal law on the integers from 0 on.
      v: The point at which the term is taken, at least 0.
      largest: The largest i, m, at least 1.

    >>> steepest(lambda k: np.where(k <= 0, 1.0, np.where(k <= 2, 0.5, 0.0)), 2, 10)
    0.25
    """
    low, high = 1, max(min(v, largest), 1)
    at_v = float(tail(np.array([v]))[0])

    def mean_below(i: int) -> float:
        return (float(tail(np.array([v - i]))[0]) - at_v) / i

    # The mean of the i probabilities below v grows with i as long as the next one exceeds it.
    while low < high:
        middle = (low + high) // 2
        if mean_below(middle + 1) >= mean_below(middle):
            low = middle + 1
        else:
            high = middle
    return mean_below(low)


def mean_mode(n: int, logit: float) -> float:
    """The mean over N = 0..n-1 of the largest probability of Binomial(N, p), p = expit(logit).

    It is a bound on the mean chance that one of n equal guesses decides about an event: of the n -
    1 others, the number that is drawn anew is uniform on 0..n-1, and given all else the guess
    decides at one value of their sum. More than 1000 values of N are taken in blocks, each by its
    first, which is at most 1 % too much.

    >>> mean_mode(1, 0.0), mean_mode(2, 0.0)
    (1.0, 0.75)
    """
    steps = max(int(np.log(max(n, 1) / _DENSE_UP_TO) / np.log(_GRID_RATIO)) + 2, 1)
    sparse = (_DENSE_UP_TO * _GRID_RATIO ** np.arange(steps)).astype(np.int64)
    starts = np.concatenate([np.arange(_DENSE_UP_TO), sparse])
    starts = starts[starts < n]
    lengths = np.diff(starts, append=n)
    mode = np.floor((starts + 1) * special.expit(logit)).astype(np.int64)
    largest = binomial_probability(starts, np.minimum(mode, starts), logit)
    return float(np.sum(lengths * np.minimum(largest, 1.0)) / n)
