"""The outputs of shadow models, whose training points are known, and normal laws fitted to them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.errors import InputError
from fl_audit.membership.likelihood_ratio import NormalFit

BoolArray = npt.NDArray[np.bool_]

Spread = Literal["each_point", "all_points"]
"""Whether each point's law has a deviation of its own, or all points share one.

Carlini et al. (2022) find that with few shadow models (some 64) a shared one does better.
"""


@dataclass(frozen=True, eq=False)
class ShadowOutputs:
    """The outputs of several models for several points, and which points each was trained on.

    Attributes:
      values: Margins, or losses, finite float64 of shape (models, points).
      member: Whether the model was trained on the point, bool of the same shape.

    Raises:
      InputError: If the shapes disagree, or a value is not finite.
    """

    values: FloatArray
    member: BoolArray

    def __post_init__(self) -> None:
        """Checks the fields, so that no later step has to."""
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

    def take(self, models: IndexArray | slice) -> "ShadowOutputs":
        """The outputs of some of the models."""
        return ShadowOutputs(self.values[models], self.member[models])

    def of_members(self, spread: Spread = "each_point") -> NormalFit:
        """The laws of the outputs of models trained on each point, of shape (points,).

        Raises:
          InputError: If fewer than 2 of the models were trained on a point, or all agree.
        """
        return _fit(self.values, self.member, spread, "trained on")

    def of_others(self, spread: Spread = "each_point") -> NormalFit:
        """The laws of the outputs of models trained without each point, of shape (points,).

        Raises:
          InputError: If fewer than 2 of the models were trained without a point, or all agree.
        """
        return _fit(self.values, ~self.member, spread, "trained without")


def _fit(values: FloatArray, kept: BoolArray, spread: Spread, what: str) -> NormalFit:
    """Means and deviations (divisor M - 1) over the models kept at each point."""
    count = np.sum(kept, axis=0)
    few = np.flatnonzero(count < 2)
    if len(few):
        raise InputError(
            f"point {few[0]}: needs at least 2 models {what} it, got {count[few[0]]}; use more "
            "shadow models"
        )
    mean = np.sum(values, axis=0, where=kept) / count
    squares = np.sum((values - mean) ** 2, axis=0, where=kept)
    if spread == "all_points":
        squares, freedom = np.full_like(squares, np.sum(squares)), np.sum(count - 1)
    else:
        freedom = count - 1
    equal = np.flatnonzero(squares == 0)
    if len(equal):
        raise InputError(f"point {equal[0]}: all models {what} it have the same output")
    return NormalFit(mean, np.sqrt(squares / freedom))
