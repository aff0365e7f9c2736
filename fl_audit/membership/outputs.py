"""What attacks read off a model at a point: the loss and the margin of its label."""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.errors import InputError


def margin(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """The logit of the label's probability, log(p / (1 - p)), larger for points better learned.

    It is z_y - logsumexp of the other z: near normal where the loss is far from it, and finite
    where the loss underflows to 0. Carlini et al. (2022) call it phi. Attacks that
    are written for losses take its negative.

    Args:
      logits: Logits z, finite floats of shape (..., points, classes), of at least 2 classes.
      labels: Label y of each point, whole numbers of shape (points,).

    Returns:
      Margins in nats, float64 of shape (..., points).

    Raises:
      InputError: If the shapes disagree, a logit is not finite or a label is no class.

    >>> margin([[0.0, 0.0, 0.0], [800.0, 0.0, -800.0]], [0, 0]).round(3).tolist()
    [-0.693, 800.0]
    """
    of_points = np.asarray(logits, dtype=np.float64)
    classes = np.asarray(labels)
    _check(of_points, classes)
    at = np.broadcast_to(classes.astype(np.int64)[:, None], (*of_points.shape[:-1], 1))
    of_label = np.take_along_axis(of_points, at, axis=-1)[..., 0]
    others = of_points.copy()
    np.put_along_axis(others, at, -np.inf, axis=-1)
    return np.asarray(of_label - special.logsumexp(others, axis=-1))


def loss_of_margin(margins: npt.ArrayLike) -> FloatArray:
    """The cross-entropy -log p of points with these margins, in nats: log(1 + exp(-margin)).

    A large margin keeps all its digits: at 40 the loss is exp(-40), where 1 - p is already 0.

    >>> loss_of_margin([0.0, 40.0]).tolist()
    [0.6931471805599453, 4.248354255291589e-18]
    """
    return np.logaddexp(0.0, -np.asarray(margins, dtype=np.float64))


def loss(logits: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """The cross-entropy of each point; arguments, shape and errors are those of `margin`."""
    return loss_of_margin(margin(logits, labels))


def _check(logits: FloatArray, labels: IndexArray) -> None:
    if logits.ndim < 2 or logits.shape[-1] < 2:
        raise InputError(f"logits must have shape (..., points, classes), got {logits.shape}")
    points, classes = logits.shape[-2:]
    if labels.shape != (points,):
        raise InputError(f"labels must have shape ({points},), got {labels.shape}")
    if not np.isfinite(logits).all():
        raise InputError("logits must be finite")
    bad = np.flatnonzero(~((labels >= 0) & (labels < classes) & (labels == np.floor(labels))))
    if len(bad):
        raise InputError(
            f"labels must be whole numbers from 0 to {classes - 1}, got {labels[bad[0]]} "
            f"at point {bad[0]}"
        )
