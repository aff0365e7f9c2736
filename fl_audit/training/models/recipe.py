"""How each of many models is trained."""

import math
from dataclasses import dataclass
from typing import Literal

InitialWeights = Literal["random", "same"]
"""Whether each model has initial weights of its own, or all of them the task's."""


@dataclass(frozen=True)
class DpSgd:
    """The privacy of each step: examples clipped one by one, Gaussian noise on their sum.

    A step takes each training point with probability batch_size / public_size, and divides the
    noised sum by batch_size. Neither depends on how many points a model really has, so models with
    and without a point differ in that point alone (add or remove one).

    With micro-batches each point belongs to one of them for good, by its index. A step clips the
    mean gradient of each micro-batch's taken points in place of each example's, and divides the
    noised sum by the number of micro-batches (Negoescu et al. 2024, section 4.1). One point more
    turns one clipped mean into another, which may point the other way: it moves the sum by up to
    2 clip_norm, so that the same noise guarantees as much as half of it without micro-batches.

    Attributes:
      clip_norm: The largest L2 norm of an example's gradient, above 0.
      noise_multiplier: The deviation of the noise over clip_norm, at least 0.
      public_size: The number of training points that probability and number of steps go by.
      microbatches: The number of micro-batches; None to clip example by example.
    """

    clip_norm: float
    noise_multiplier: float
    public_size: int
    microbatches: int | None = None

    @property
    def sum_noise_multiplier(self) -> float:
        """The noise over how far one point more or less moves the sum."""
        return self.noise_multiplier / (1 if self.microbatches is None else 2)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
      epochs: The number of passes over the training points; under DP-SGD over `public_size`.
      batch_size: The number of points in a step; under DP-SGD its expectation.
      learning_rate: The length of a step over the momentum's gradient.
      momentum: The share of the last step that is kept, in [0, 1).
      privacy: DP-SGD's parameters; None for plain SGD.
      output_noise: The deviation of Gaussian noise on every weight of the trained model, before
        anyone sees it.
      initial_weights: Whether each model has initial weights of its own.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.0
    privacy: DpSgd | None = None
    output_noise: float = 0.0
    initial_weights: InitialWeights = "random"

    def steps(self, num_members: int) -> int:
        """The number of steps of a model with so many training points."""
        size = num_members if self.privacy is None else self.privacy.public_size
        return self.epochs * math.ceil(size / self.batch_size)
