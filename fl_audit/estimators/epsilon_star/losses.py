"""Losses of one trained model: from its logits, and as they come in."""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError


def log_odds_losses(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """Minus the log-odds of the labels, log(1 - p) - log(p), from logits; the paper's loss.

    For two classes it is footnote 1 of Negoescu et al. (2024); for more, the negated log-odds of
    Carlini et al. (2022), section IV-C. It is the log-sum-exp of all other logits less the label's,
    so no probability is rounded to 1, as it is for cross-entropy.

    Args:
      logits: Logits of the model, float64 of shape (..., classes), of at least two classes.
      labels: Classes of the points, from 0, int64 of shape (...).

    Returns:
      The losses in nats, float64 of shape (...).

    Raises:
      InputError: If a label is no class, shapes do not match, or there is one class alone.

    >>> log_odds_losses([[100.0, 0.0], [0.0, 3.0]], [0, 0]).tolist()
    [-100.0, 3.0]
    """
    values, classes = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if values.ndim == 0 or values.shape[:-1] != classes.shape or values.shape[-1] < 2:
        raise InputError(
            "logits must have the labels' shape and a last axis of at least two classes, got "
            f"shapes {values.shape} and {classes.shape}"
        )
    if classes.dtype.kind not in "iu" or np.any((classes < 0) | (classes >= values.shape[-1])):
        raise InputError(f"labels must be whole numbers from 0 to {values.shape[-1] - 1}")
    of_labels = np.take_along_axis(values, classes[..., None], axis=-1)
    others = np.array(values)
    np.put_along_axis(others, classes[..., None], -np.inf, axis=-1)
    return np.asarray(special.logsumexp(others - of_labels, axis=-1))


def checked_losses(name: str, values: npt.ArrayLike) -> FloatArray:
    """The losses as float64 of shape (n,), checked.

    Raises:
      InputError: If there are no losses, one is not finite, or they are not one-dimensional.
    """
    losses = np.asarray(values, dtype=np.float64)
    if losses.ndim != 1 or losses.size == 0 or not np.isfinite(losses).all():
        raise InputError(f"{name} must be a list of at least one loss, all of them finite")
    return losses
