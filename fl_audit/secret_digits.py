"""Numbers about secret rounds, rounded so that their digits do not reveal the rounds.

Anyone who sees all aggregates can compute such a number for any rounds of a canary, so its exact
value reveals the rounds.
"""

import decimal
import math

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray


def rounded_down(values: npt.ArrayLike, standard_error: float) -> FloatArray:
    """The values, of any shape, rounded down to a grid; as given if the standard error is 0.

    The grid's step, a power of two, is a quarter to half of the standard error.
    """
    if not standard_error > 0:
        return np.asarray(values, np.float64)
    step = 2.0 ** (math.floor(math.log2(standard_error)) - 1)
    return np.asarray(np.floor(np.asarray(values) / step) * step)


def p_value_rounded_up(p_value: float) -> float:
    """A p-value rounded up to one significant digit, which is a p-value too.

    >>> [p_value_rounded_up(p_value) for p_value in (0.0312, 0.04, 0.97, 1.0, 0.0)]
    [0.04, 0.04, 1.0, 1.0, 0.0]
    """
    one_digit = decimal.Context(prec=1, rounding=decimal.ROUND_UP)
    return float(one_digit.create_decimal(repr(p_value)))
