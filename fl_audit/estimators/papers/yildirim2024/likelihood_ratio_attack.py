"""The loss-based attack: a likelihood ratio test between two normal laws of the loss.

Yıldırım et al. (2025), Algorithms 3 and 5, after LiRA (Carlini et al. 2022).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts


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
    s0, s1 = without.deviation, having.deviation
    z = (loss - without.mean) / s0
    # In units of s0 from m0: the parabola's vertex lies at `vertex`, without R's cancellation.
    shift = (having.mean - without.mean) / s0
    ratio = np.asarray(s1 / s0)
    by_shift = np.where(
        shift < 0,
        z <= special.ndtri(false_positive_rate),
        (shift > 0) & (-z <= special.ndtri(false_positive_rate)),
    )
    equal = ratio == 1
    vertex = shift / np.where(equal, 1.0, (1 - ratio) * (1 + ratio))
    # The two losses of this likelihood ratio: this one, and its mirror image at the vertex.
    low, high = np.minimum(z, 2 * vertex - z), np.maximum(z, 2 * vertex - z)
    upper_tail = special.ndtr(-low) - special.ndtr(-high)
    nearer = np.where(low > 0, upper_tail, special.ndtr(high) - special.ndtr(low))
    farther = special.ndtr(low) + special.ndtr(-high)
    by_width = np.where(ratio < 1, nearer, farther) <= false_positive_rate
    return np.asarray(np.where(equal, by_shift, by_width))


def cross_fed_counts(
    losses_without: FloatArray, losses_having: FloatArray, false_positive_rate: float
) -> ChallengeCounts:
    """The attack's error counts when each model's shadow models are all the others.

    Each loss is judged by normal laws fitted to the other losses of its own side and to all losses
    of the other side. This is cheap, but decisions on a base share their shadow models: the counts
    are correlated (equation 7). Algorithm 5.

    Args:
      losses_without: Loss of each base's point under models without it, float64 of shape (n, N0).
      losses_having: Loss of each base's point under models with it, float64 of shape (n, N1).
      false_positive_rate: False positive rate that the test aims at, in (0, 1).

    Raises:
      InputError: If a side has fewer than 3 models, a loss is not finite, the shapes disagree, or
        the losses that a law is fitted to are all equal.

    >>> rng = np.random.default_rng(0)
    >>> losses = rng.normal(size=(1, 100)), rng.normal(2, 1, size=(1, 100))
    >>> counts = cross_fed_counts(*losses, 0.1)
    >>> counts.fp.tolist(), counts.fn.tolist()
    ([15], [24])
    """
    losses_without, losses_having = (
        np.asarray(losses, dtype=np.float64) for losses in (losses_without, losses_having)
    )
    _check_losses(losses_without, losses_having)
    false_positives = decide_member(
        losses_without, _fit_others(losses_without), _fit_all(losses_having), false_positive_rate
    )
    true_positives = decide_member(
        losses_having, _fit_all(losses_without), _fit_others(losses_having), false_positive_rate
    )
    n, n0 = losses_without.shape
    n1 = losses_having.shape[1]
    return ChallengeCounts(
        fp=np.sum(false_positives, axis=1),
        n0=np.full(n, n0),
        fn=np.sum(~true_positives, axis=1),
        n1=np.full(n, n1),
    )


def _check_losses(losses_without: FloatArray, losses_having: FloatArray) -> None:
    if losses_without.ndim != 2 or losses_having.ndim != 2:
        raise InputError("losses must be arrays of challenge bases by models")
    if len(losses_without) != len(losses_having):
        raise InputError(
            "losses must be of the same challenge bases, got "
            f"{len(losses_without)} and {len(losses_having)}"
        )
    for losses in (losses_without, losses_having):
        if losses.shape[1] < 3:
            raise InputError(f"each side needs at least 3 models, got {losses.shape[1]}")
        if not np.all(np.isfinite(losses)):
            raise InputError("losses must be finite")
        if np.any(_fit_all(losses).deviation == 0) or np.any(_fit_others(losses).deviation == 0):
            raise InputError("losses of a challenge base must not be all equal on a side")


def _fit_all(losses: FloatArray) -> NormalFit:
    return NormalFit(
        np.mean(losses, axis=1, keepdims=True), np.std(losses, axis=1, ddof=1, keepdims=True)
    )


def _fit_others(losses: FloatArray) -> NormalFit:
    """Fits to the other N - 1 losses of the same base, each of shape (n, N)."""
    n, models = losses.shape
    others = ~np.eye(models, dtype=np.bool_)
    rest = np.broadcast_to(losses[:, None, :], (n, models, models))[:, others]
    rest = rest.reshape(n, models, models - 1)
    return NormalFit(np.mean(rest, axis=2), np.std(rest, axis=2, ddof=1))
