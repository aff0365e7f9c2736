"""The loss-based attack: a likelihood ratio test between two normal laws of the loss.

Yıldırım et al. (2025), Algorithm 3, after LiRA (Carlini et al. 2022).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError


@dataclass(frozen=True, eq=False)
class NormalFit:
    """Normal laws of the loss, one per entry.

    Attributes:
      mean: Means, float64 of any shape.
      deviation: Deviations with divisor M - 1, above 0, float64 of the same shape.
    """

    mean: FloatArray
    deviation: FloatArray


def decide_member(
    loss: FloatArray, without: NormalFit, having: NormalFit, false_positive_rate: float
) -> npt.NDArray[np.bool_]:
    """Whether the likelihood ratio test takes a loss for that of a model trained with the point.

    With deviations s0 of `without` and s1 of `having`, the log likelihood ratio is a multiple of
    (loss + R)^2 plus a constant, where

        R = (m0 / s0^2 - m1 / s1^2) / (1 / s1^2 - 1 / s0^2),

    and under H0 ((loss + R) / s0)^2 is chi-square with one degree of freedom and noncentrality
    ((m0 + R) / s0)^2. Small values speak for H1 if s0 > s1, large ones if s0 < s1; equal
    deviations leave a test of the loss itself. Algorithm 3.

    Algorithm 3 as printed has the two terms of R's denominator exchanged and adds m0 / s0 to R / s0
    all the same. That is no likelihood ratio test: with m0 = 0, s0 = 2, m1 = 3, s1 = 1 the printed
    R is 4, and rejects around a loss of -4 instead of around 4, where H1 is likelier. The authors'
    own program has the sign used here.

    Args:
      loss: Losses of the point under the models in question, float64 of any shape.
      without: Law H0, fitted to losses of models trained without the point; broadcast with loss.
      having: Law H1, fitted to losses of models trained with it; broadcast with loss.
      false_positive_rate: False positive rate alpha* that the test aims at, in (0, 1).

    Raises:
      InputError: If false_positive_rate is out of range.

    >>> fits = [NormalFit(np.array([m]), np.array([s])) for m, s in [(0, 2), (3, 1)]]
    >>> [bool(decide_member(np.array([loss]), *fits, 0.1)[0]) for loss in (-4.0, 4.0)]
    [False, True]
    """
    if not 0 < false_positive_rate < 1:
        raise InputError(f"false_positive_rate must be in (0, 1), got {false_positive_rate}")
    return member_p_values(loss, without, having) <= false_positive_rate


def member_p_values(loss: FloatArray, without: NormalFit, having: NormalFit) -> FloatArray:
    """The smallest false positive rate at which `decide_member` takes each loss for a member's.

    It is the probability under H0 of a likelihood ratio at least as large, 1 where both laws are
    equal. So the decisions at all alpha* come from one array.

    Args:
      loss: Losses of the point under the models in question, float64 of any shape.
      without: Law H0; broadcast with loss.
      having: Law H1; broadcast with loss.

    Returns:
      Rates in [0, 1], float64 of the broadcast shape.

    >>> fits = [NormalFit(np.array([m]), np.array([1.0])) for m in (0.0, -3.0)]
    >>> member_p_values(np.array([-1.6449, 0.0]), *fits).round(3).tolist()
    [0.05, 0.5]
    """
    s0, s1 = without.deviation, having.deviation
    z = (loss - without.mean) / s0
    # In units of s0 from m0: the parabola's vertex lies at `vertex`, without R's cancellation.
    shift = (having.mean - without.mean) / s0
    ratio = np.asarray(s1 / s0)
    by_shift = np.where(shift == 0, 1.0, special.ndtr(np.where(shift < 0, z, -z)))
    equal = ratio == 1
    vertex = shift / np.where(equal, 1.0, (1 - ratio) * (1 + ratio))
    # The two losses of this likelihood ratio: this one, and its mirror image at the vertex.
    low, high = np.minimum(z, 2 * vertex - z), np.maximum(z, 2 * vertex - z)
    upper_tail = special.ndtr(-low) - special.ndtr(-high)
    nearer = np.where(low > 0, upper_tail, special.ndtr(high) - special.ndtr(low))
    farther = special.ndtr(low) + special.ndtr(-high)
    by_width = np.where(ratio < 1, nearer, farther)
    return np.asarray(np.where(equal, by_shift, by_width))
