"""Wrong labels, which make a canary's examples unlike anything that a model can learn."""

import numpy as np
import numpy.typing as npt


def wrong_labels(
    labels: npt.NDArray[np.int32],
    num_classes: int,
    padding_label: int,
    random: np.random.Generator,
) -> npt.NDArray[np.int32]:
    """Wrong labels, each drawn uniformly from the other classes (Steinke et al. section 6).

    Padding stays padding, and no label becomes padding.

    Args:
      labels: The labels, which are classes and padding; of any shape.
      num_classes: The number of classes, at least 2 without the padding's.
      padding_label: The label of positions that do not count; a class of its own or none.
      random: The generator that draws.

    >>> wrong_labels(np.int32([0, 1, 1]), 2, -1, np.random.default_rng(0)).tolist()
    [1, 0, 0]
    """
    classes = np.setdiff1d(np.arange(num_classes, dtype=np.int32), [padding_label])
    # A shift of 1 to n - 1 places around the circle of n classes reaches each but the first.
    shifts = random.integers(1, len(classes), labels.shape)
    places = np.searchsorted(classes, labels)
    wrong = classes[(places + shifts) % len(classes)]
    return np.where(labels == padding_label, labels, wrong).astype(np.int32)
