"""LiRA, the likelihood ratio attack: Carlini et al. (2022), arXiv:2112.03570.

`decide_member` and `member_p_values` test between two normal distributions of the loss (Yıldırım et
al. 2025, Algorithm 3), `online_lira` is the attack, and `select_worst` finds the points that are
easiest to attack. Scores are logarithms, so that they do not tie where an attack is strongest:
probabilities would round to 0 or 1 there.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.errors import InputError


@dataclass(frozen=True, eq=False)
class NormalFit:
    """Normal distributions of losses or margins, one for each entry of the arrays.

    Attributes:
      mean: Means, float64 of any shape.
      stddev: Sample standard deviations, above 0, float64 of the same shape.
    """

    mean: FloatArray
    stddev: FloatArray


def decide_member(
    loss: FloatArray, without: NormalFit, having: NormalFit, false_positive_rate: float
) -> BoolArray:
    """Whether the likelihood ratio test assigns a loss to a model trained with the point.

    With means m0, m1 and standard deviations s0, s1 of `without` and `having`, the log likelihood
    ratio is a multiple of (loss + R)^2 plus a constant, where

        R = (m0 / s0^2 - m1 / s1^2) / (1 / s1^2 - 1 / s0^2),

    and under H0 ((loss + R) / s0)^2 is chi-square with one degree of freedom and noncentrality ((m0
    + R) / s0)^2. Small values are evidence for H1 if s0 > s1, large values if s0 < s1; with equal
    standard deviations the loss itself is tested. Algorithm 3.

    Algorithm 3 as printed exchanges the two terms of R's denominator, which changes R's sign, but
    still adds R to m0. This is not a likelihood ratio test: with m0 = 0, s0 = 2, m1 = 3, s1 = 1 the
    printed R is 4, and the test rejects around a loss of -4 instead of around 4, where H1 is
    likelier. The authors' own program has the sign used here.

    Args:
      loss: Losses of the point under the attacked models, float64 of any shape.
      without: Distribution under H0, fitted to losses of models trained without the point;
        broadcast with loss.
      having: Distribution under H1, fitted to losses of models trained with the point; broadcast
        with loss.
      false_positive_rate: Target false positive rate alpha* of the test, in (0, 1).

    Raises:
      InputError: false_positive_rate is out of range.

    >>> fits = [NormalFit(np.array([m]), np.array([s])) for m, s in [(0, 2), (3, 1)]]
    >>> [bool(decide_member(np.array([loss]), *fits, 0.1)[0]) for loss in (-4.0, 4.0)]
    [False, True]
    """
    if not 0 < false_positive_rate < 1:
        raise InputError(f"false_positive_rate must be in (0, 1), got {false_positive_rate}")
    return member_p_values(loss, without, having) <= false_positive_rate


def member_p_values(loss: FloatArray, without: NormalFit, having: NormalFit) -> FloatArray:
    """The smallest false positive rate at which `decide_member` classifies each loss as a member's.

    It is the probability, under H0, of a likelihood ratio at least as large as the loss's; 1 if
    both distributions are equal. So one array gives the decisions at every false positive rate.

    Args:
      loss: Losses of the point under the attacked models, float64 of any shape.
      without: Distribution under H0; broadcast with loss.
      having: Distribution under H1; broadcast with loss.

    Returns:
      Rates in [0, 1], float64 of the broadcast shape.

    >>> fits = [NormalFit(np.array([m]), np.array([1.0])) for m in (0.0, -3.0)]
    >>> member_p_values(np.array([-1.6449, 0.0]), *fits).round(3).tolist()
    [0.05, 0.5]
    """
    s0, s1 = without.stddev, having.stddev
    z = (loss - without.mean) / s0
    # Distances from m0 in units of s0. `vertex`, of the log likelihood ratio as a parabola in the
    # loss, does not suffer from cancellation as R does.
    shift = (having.mean - without.mean) / s0
    ratio = np.asarray(s1 / s0)
    by_shift = np.where(shift == 0, 1.0, special.ndtr(np.where(shift < 0, z, -z)))
    equal = ratio == 1
    vertex = shift / np.where(equal, 1.0, (1 - ratio) * (1 + ratio))
    # The two losses with the same likelihood ratio: z and its mirror image about the vertex.
    low, high = np.minimum(z, 2 * vertex - z), np.maximum(z, 2 * vertex - z)
    upper_tail = special.ndtr(-low) - special.ndtr(-high)
    nearer = np.where(low > 0, upper_tail, special.ndtr(high) - special.ndtr(low))
    farther = special.ndtr(low) + special.ndtr(-high)
    by_width = np.where(ratio < 1, nearer, farther)
    return np.asarray(np.where(equal, by_shift, by_width))


Spread = Literal["each_point", "all_points"]
"""Whether each point's distribution has its own standard deviation, or all points share one.
Carlini et al. (2022) find shared standard deviations better with few shadow models (about 64).
"""


@dataclass(frozen=True, eq=False)
class ShadowOutputs:
    """The outputs of several models for several points, and which points each was trained on.

    Attributes:
      values: Margins, or losses, finite float64 of shape (models, points).
      member: Whether the model was trained on the point, bool of the same shape.

    Raises:
      InputError: The shapes disagree, or a value is not finite.
    """

    values: FloatArray
    member: BoolArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.asarray(self.values, dtype=np.float64))
        object.__setattr__(self, "member", np.asarray(self.member, dtype=np.bool_))
        if self.values.ndim != 2 or self.values.shape != self.member.shape:
            raise InputError(
                "values and member must both have shape (models, points), got "
                f"{self.values.shape} and {self.member.shape}"
            )
        if not np.isfinite(self.values).all():
            model, point = np.argwhere(~np.isfinite(self.values))[0]
            raise InputError(
                f"outputs must be finite, got {self.values[model, point]} of model {model} at "
                f"point {point}"
            )

    def take(self, models: IntArray | slice) -> "ShadowOutputs":
        """The outputs of some of the models."""
        return ShadowOutputs(self.values[models], self.member[models])

    def member_fits(self, spread: Spread = "each_point") -> NormalFit:
        """Each point's distribution of outputs of models trained on it, of shape (points,)."""
        return _fit(self.values, self.member, spread, "trained on")

    def non_member_fits(self, spread: Spread = "each_point") -> NormalFit:
        """Each point's distribution of outputs of models trained without it, of shape (points,)."""
        return _fit(self.values, ~self.member, spread, "trained without")


def _fit(values: FloatArray, selected: BoolArray, spread: Spread, what: str) -> NormalFit:
    """Means and sample standard deviations (own or shared) over each point's selected models."""
    count = np.sum(selected, axis=0)
    few = np.flatnonzero(count < 2)
    if len(few):
        raise InputError(
            f"point {few[0]}: needs at least 2 models {what} it, got {count[few[0]]}; use more "
            "shadow models"
        )
    mean = np.sum(values, axis=0, where=selected) / count
    squares = np.sum((values - mean) ** 2, axis=0, where=selected)
    lowest = np.min(values, axis=0, where=selected, initial=np.inf)
    highest = np.max(values, axis=0, where=selected, initial=-np.inf)
    squares[lowest == highest] = 0  # the mean of equal outputs is rounded
    if spread == "all_points":
        squares, freedom = np.full_like(squares, np.sum(squares)), np.sum(count - 1)
    else:
        freedom = count - 1
    equal = np.flatnonzero(squares == 0)
    if len(equal):
        raise InputError(f"point {equal[0]}: all models {what} it have the same output")
    return NormalFit(mean, np.sqrt(squares / freedom))


def online_lira(
    targets: npt.ArrayLike, shadow: ShadowOutputs, spread: Spread = "each_point"
) -> FloatArray:
    """The log likelihood ratio of "trained on the point" against "trained without it".

    It is log N(x; mean_in, std_in) - log N(x; mean_out, std_out) at the attacked model's output x
    for the point, with distributions fitted to the shadow models' outputs. Algorithm 1.

    Args:
      targets: Outputs of the attacked models, finite floats of shape (..., points).
      shadow: Outputs of shadow models for the same points.
      spread: Whether each point has its own std_in and std_out, or all points share one std_in and
        one std_out.

    Returns:
      Scores, float64 of the shape of targets; larger for likelier members.

    Raises:
      InputError: The points differ, or a distribution cannot be fitted.

    >>> values = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> shadow = ShadowOutputs(values, [[False], [False], [True], [True]])
    >>> online_lira([[3.0], [5.0]], shadow).ravel().round(9).tolist()
    [0.0, 4.0]
    """
    outputs = _checked(targets, shadow)
    having, without = shadow.member_fits(spread), shadow.non_member_fits(spread)
    return _log_density(outputs, having) - _log_density(outputs, without)


def offline_lira(
    targets: npt.ArrayLike, shadow: ShadowOutputs, spread: Spread = "each_point"
) -> FloatArray:
    """How far an output x is above the outputs of models without the point, as -log P(Z > x).

    Z is distributed like the outputs of models trained without the point, the only shadow models
    that this attacker has. The score ranks outputs like the paper's offline score, 1 - P(Z > x).
    Outputs must be larger for better learned points (margins, not losses).

    Args:
      targets: Outputs of the attacked models, finite floats of shape (..., points).
      shadow: Outputs of shadow models; for each point, only models trained without it are used.
      spread: Whether each point has its own standard deviation, or all points share one.

    Returns:
      Scores, float64 of the shape of targets; larger for likelier members.

    Raises:
      InputError: The points differ, or a distribution cannot be fitted.
    """
    outputs = _checked(targets, shadow)
    without = shadow.non_member_fits(spread)
    return np.asarray(-special.log_ndtr((without.mean - outputs) / without.stddev))


def _checked(targets: npt.ArrayLike, shadow: ShadowOutputs) -> FloatArray:
    outputs = np.asarray(targets, dtype=np.float64)
    points = shadow.values.shape[1]
    if outputs.ndim == 0 or outputs.shape[-1] != points:
        raise InputError(f"targets must have shape (..., {points}), got {outputs.shape}")
    if not np.isfinite(outputs).all():
        raise InputError("targets must be finite")
    return outputs


def _log_density(x: FloatArray, fit: NormalFit) -> FloatArray:
    z = (x - fit.mean) / fit.stddev
    return np.asarray(-(z**2) / 2 - np.log(fit.stddev) - math.log(2 * math.pi) / 2)


# SelectWorst: the points with the strongest attacks (Zanella-Béguelin et al. 2022, Alg. 3).


@dataclass(frozen=True, eq=False)
class WorstPoints:
    """The points at which LiRA is strongest, the strongest first.

    Attributes:
      points: Indices of the points, int64 of shape (k,).
      accuracy: LiRA's accuracy at each point on held-out models, float64 of shape (k,).
      separation: Distance between the mean outputs with and without the point, in units of the
        root mean square of both standard deviations, float64 of shape (k,).
    """

    points: IntArray
    accuracy: FloatArray
    separation: FloatArray


def select_worst(shadow: ShadowOutputs, k: int, fitted_share: float = 0.8) -> WorstPoints:
    """The k points at which LiRA is most accurate on held-out shadow models.

    A log likelihood ratio above 0 means member. Zanella-Béguelin et al. (2022), section 4.1, fit
    LiRA's distributions to 80 % of the shadow models and test on the other 20 %. Ties, common with
    few models, are broken by separation (`WorstPoints`), and then by index.

    Args:
      shadow: Outputs of models, each trained on a random part of the points.
      k: Number of points, from 1 to all.
      fitted_share: Share of the models, taken from the first, to which distributions are fitted, in
        (0, 1).

    Raises:
      InputError: k or the share is out of range, or there are too few models.
    """
    models, points = shadow.values.shape
    if not 1 <= k <= points:
        raise InputError(f"k must be from 1 to {points}, the number of points, got {k}")
    if not 0 < fitted_share < 1:
        raise InputError(f"fitted_share must be in (0, 1), got {fitted_share}")
    fitted = round(fitted_share * models)
    if fitted == models:
        raise InputError(f"{models} shadow models leave none to test on; use more")
    tested = shadow.take(slice(fitted, None))
    scores = online_lira(tested.values, shadow.take(slice(fitted)))
    accuracy = np.mean((scores > 0) == tested.member, axis=0)
    separation = _separation(shadow)
    chosen = np.lexsort((np.arange(points), -separation, -accuracy))[:k]
    return WorstPoints(chosen, accuracy[chosen], separation[chosen])


def _separation(shadow: ShadowOutputs) -> FloatArray:
    having, without = shadow.member_fits(), shadow.non_member_fits()
    width = np.sqrt((having.stddev**2 + without.stddev**2) / 2)
    return np.asarray(np.abs(having.mean - without.mean) / width)
