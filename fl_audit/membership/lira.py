"""LiRA, the likelihood ratio attack (Carlini et al. 2022, arXiv:2112.03570).

Scores are logarithms and never saturate: a probability would round to 0 or 1 just where an attack
is at its best, and make the best scores of an audit equal.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.membership.likelihood_ratio import NormalFit
from fl_audit.membership.shadow_outputs import ShadowOutputs, Spread


def online_lira(
    targets: npt.ArrayLike, shadow: ShadowOutputs, spread: Spread = "each_point"
) -> FloatArray:
    """The log likelihood ratio of "trained on the point" against "trained without it".

    It is log N(x; mean_in, std_in) - log N(x; mean_out, std_out) at the attacked model's output x
    for the point, with laws fitted to the shadow models'. Algorithm 1.

    Args:
      targets: Outputs of the attacked models, finite floats of shape (..., points).
      shadow: Outputs of shadow models for the same points.
      spread: Whether each point has its own deviations, or all points share one of each kind.

    Returns:
      Scores, float64 of the shape of targets; larger for likelier members.

    Raises:
      InputError: If the points differ, or a law cannot be fitted.

    >>> values = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> shadow = ShadowOutputs(values, [[False], [False], [True], [True]])
    >>> online_lira([[3.0], [5.0]], shadow).ravel().round(9).tolist()
    [0.0, 4.0]
    """
    outputs = _checked(targets, shadow)
    having, without = shadow.of_members(spread), shadow.of_others(spread)
    return _log_density(outputs, having) - _log_density(outputs, without)


def offline_lira(
    targets: npt.ArrayLike, shadow: ShadowOutputs, spread: Spread = "each_point"
) -> FloatArray:
    """How far an output lies above what models trained without the point give.

    The attacker has no models trained on the point. The score is -log P(Z > x) for Z of the law of
    models without it, which orders outputs as the paper's offline variant 1 - P(Z > x) does.
    Outputs must be larger for points better learned (margins, not losses).

    Args:
      targets: Outputs of the attacked models, finite floats of shape (..., points).
      shadow: Outputs of shadow models; only those of models without a point are used for it.
      spread: Whether each point has its own deviation, or all points share one.

    Returns:
      Scores, float64 of the shape of targets; larger for likelier members.

    Raises:
      InputError: If the points differ, or a law cannot be fitted.
    """
    outputs = _checked(targets, shadow)
    without = shadow.of_others(spread)
    return np.asarray(-special.log_ndtr((without.mean - outputs) / without.deviation))


def _checked(targets: npt.ArrayLike, shadow: ShadowOutputs) -> FloatArray:
    outputs = np.asarray(targets, dtype=np.float64)
    points = shadow.values.shape[1]
    if outputs.ndim == 0 or outputs.shape[-1] != points:
        raise InputError(f"targets must have shape (..., {points}), got {outputs.shape}")
    if not np.isfinite(outputs).all():
        raise InputError("targets must be finite")
    return outputs


def _log_density(x: FloatArray, law: NormalFit) -> FloatArray:
    z = (x - law.mean) / law.deviation
    return np.asarray(-(z**2) / 2 - np.log(law.deviation) - math.log(2 * math.pi) / 2)
