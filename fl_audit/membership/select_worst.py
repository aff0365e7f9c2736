"""SelectWorst: the points at which an attack does best (Zanella-Béguelin et al. 2022, Alg. 3)."""

from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.errors import InputError
from fl_audit.membership.lira import online_lira
from fl_audit.membership.shadow_outputs import ShadowOutputs


@dataclass(frozen=True, eq=False)
class WorstPoints:
    """The points at which LiRA does best, the best first.

    Attributes:
      points: Indices of the points, int64 of shape (k,).
      accuracy: Share of held-back models that LiRA told right at each, float64 of shape (k,).
      separation: Distance of the means of models with and without the point, in units of the
        root mean square of both deviations, float64 of shape (k,).
    """

    points: IndexArray
    accuracy: FloatArray
    separation: FloatArray


def select_worst(shadow: ShadowOutputs, k: int, fitted_share: float = 0.8) -> WorstPoints:
    """The k points with the largest aggregate weight.

    The weight is LiRA's accuracy (a log likelihood ratio above 0 means member) on models that its
    laws were not fitted to: section 4.1 fits to 80 % of the shadow models and tests on the rest.
    Few models leave many points with the same accuracy; among these the better separated come
    first, and then those of lower index.

    Args:
      shadow: Outputs of models, each trained on a random part of the points.
      k: Number of points, from 1 to all.
      fitted_share: Share of the models, the first ones, that laws are fitted to, in (0, 1).

    Raises:
      InputError: If k or the share is out of range, or there are too few models.
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
    having, without = shadow.of_members(), shadow.of_others()
    width = np.sqrt((having.deviation**2 + without.deviation**2) / 2)
    return np.asarray(np.abs(having.mean - without.mean) / width)
