"""The data of canaries that hold examples: a client's with wrong labels, or unlike any client's.

Wrong labels make examples unlike anything that a model can learn. What a client of random inputs
sends has little in common with what others send, so that it is visible in a sum of many. Its data
is drawn independently for each canary, as by Pillutla et al. (2023, arXiv:2305.18447). It does not
depend on a model: noise moves a model far from a public checkpoint within few rounds, and data that
was optimised for the checkpoint loses its effect.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Design = Literal["signs", "in_range"]
"""The two values of an input's entries: plus and minus the largest of the data's, so that inputs
have a mean of 0 and little in common, or the largest and the smallest, so that no client's range
check refuses them."""


def random_inputs(
    like: npt.NDArray[np.float32], design: Design, count: int, random: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Inputs whose every entry is one of two values, by a fair coin; float32 of shape (count, ...).

    >>> data, random = np.float32([[0, 0.5, 1]]), np.random.default_rng(0)
    >>> random_inputs(data, "in_range", 2, random).tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    >>> random_inputs(data, "signs", 1, random).tolist()
    [[-1.0, -1.0, -1.0]]
    """
    largest = np.abs(like).max()
    low, high = (-largest, largest) if design == "signs" else (like.min(), like.max())
    is_high = random.integers(0, 2, (count, *like.shape[1:])) == 1
    return np.where(is_high, high, low).astype(np.float32)


def random_sentences(
    like: npt.NDArray[Any], words: npt.NDArray[np.int32], count: int, random: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sentences of words drawn uniformly, the limit of a language model's text at high temperature.

    Inputs and labels are int32 of shape (count, length), each label being the next input; all
    inputs begin with the first token of `like`.
    """
    labels = random.choice(words, (count, like.shape[1])).astype(np.int32)
    begins = np.full((count, 1), like[0, 0], np.int32)
    return np.concatenate([begins, labels[:, :-1]], axis=1), labels


def random_labels(
    classes: npt.NDArray[np.int32], count: int, random: np.random.Generator
) -> npt.NDArray[Any]:
    """Labels drawn uniformly from some classes, int32 of shape (count,)."""
    return random.choice(classes, count).astype(np.int32)


def wrong_labels(
    labels: npt.NDArray[np.int32], num_classes: int, padding_label: int, random: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Wrong labels, each drawn uniformly from the other classes (Steinke et al. section 6).

    Padding stays padding, and no label becomes padding.

    >>> wrong_labels(np.int32([0, 1, 1]), 2, -1, np.random.default_rng(0)).tolist()
    [1, 0, 0]
    """
    classes = np.setdiff1d(np.arange(num_classes, dtype=np.int32), [padding_label])
    # A shift of 1 to n - 1 places around the circle of n classes reaches each but the first.
    shifts = random.integers(1, len(classes), labels.shape)
    places = np.searchsorted(classes, labels)
    wrong = classes[(places + shifts) % len(classes)]
    return np.where(labels == padding_label, labels, wrong).astype(np.int32)
