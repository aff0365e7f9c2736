"""The data of canaries that hold examples: a client's with wrong labels, or unlike any client's.

Wrong labels make examples unlike anything that a model can learn. What a client of random inputs
sends has little in common with what others send, so that it is seen in a sum of many. Its data is
drawn independently for each canary, as Pillutla et al. (2023, arXiv:2305.18447) draw theirs.
Nothing of it depends on a model: noise moves a model far from a public checkpoint within few
rounds, and with it all that was optimised there.
"""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Design = Literal["signs", "in_range"]
"""Whether an input's numbers are plus and minus the largest of the data's, so that inputs have a
mean of 0 and little in common, or the largest and the smallest, so that no client's check of the
range refuses them."""


def random_inputs(
    like: npt.NDArray[np.float32], design: Design, count: int, random: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Inputs whose every number is one of two, by a fair coin.

    Args:
      like: Inputs of examples, of shape (n, ...), n at least 1.
      design: What the two numbers are.
      count: The number of inputs.
      random: The generator that draws.

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
    like: npt.NDArray[Any],
    words: npt.NDArray[np.int32],
    count: int,
    random: np.random.Generator,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sentences of words drawn uniformly, the limit of a language model's text at high temperature.

    Args:
      like: Inputs of sentences, tokens of shape (n, length) that begin as every sentence does, n at
        least 1.
      words: The tokens that may be drawn.
      count: The number of sentences.
      random: The generator that draws.

    Returns:
      Inputs and labels, int32 of shape (count, length): each label is the next input.
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
