"""A check of losses of one trained model, as they come in."""

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError


def checked_losses(name: str, values: npt.ArrayLike) -> FloatArray:
    """The losses as float64 of shape (n,), checked.

    Raises:
      InputError: If there are no losses, one is not finite, or they are not one-dimensional.
    """
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 1 or losses.size == 0 or not np.isfinite(losses).all():
        raise InputError(f"{name} must be a list of at least one loss, all of them finite")
    return losses
