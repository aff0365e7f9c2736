"""The transformation that makes losses look Gaussian before a Gaussian is fitted to them."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.estimators.epsilon_star.losses import checked_losses


@dataclass(frozen=True)
class LossTransform:
    """The transformation of losses to logits, in four steps (Negoescu et al. 2024, app. B, 8.1).

    1. normalise: subtract the smallest loss of members and non-members together and divide by
       the largest less the smallest;
    2. add 1;
    3. p = exp(-that), in [e^-2, e^-1];
    4. phi = log(p) - log(1 - p), in [-1.855, -0.541].

    The smaller the loss, the larger phi. Only the extremes of both samples set the scale. They
    drift apart as samples grow, and phi turns into a straight line of the loss over the bulk:
    the Gaussians of a large sample are then those of the raw losses. One outlying loss has the
    same effect and also widens its own sample's Gaussian.

    Attributes:
      smallest: The smallest loss of members and non-members together.
      largest: The largest loss of members and non-members together.

    >>> transform = LossTransform.of([1.0, 2.0], [3.0, 5.0])
    >>> transform.logits([1.0, 5.0]).round(3).tolist()
    [-0.541, -1.855]
    >>> transform.loss(transform.logits([1.0, 2.0])).round(12).tolist()
    [1.0, 2.0]
    """

    smallest: float
    largest: float

    @classmethod
    def of(cls, member_losses: npt.ArrayLike, non_member_losses: npt.ArrayLike) -> "LossTransform":
        """The transformation that both samples share.

        Raises:
          InputError: If a sample is empty or a loss is not finite.
        """
        samples = (
            checked_losses("member_losses", member_losses),
            checked_losses("non_member_losses", non_member_losses),
        )
        return cls(
            float(min(sample.min() for sample in samples)),
            float(max(sample.max() for sample in samples)),
        )

    def logits(self, losses: npt.ArrayLike) -> FloatArray:
        """The values phi of losses; the same for all where the smallest loss is the largest."""
        unit, width = self._unit_and_width()
        above = unit * np.asarray(losses, dtype=np.float64) - unit * self.smallest
        normalised = above / width if width > 0 else np.zeros_like(above)
        # log(p) - log(1 - p) for p = exp(-x) is -log(exp(x) - 1).
        return np.asarray(-np.log(np.expm1(1 + normalised)))

    def loss(self, logit: npt.ArrayLike) -> FloatArray:
        """The loss whose phi is this, also outside the observed ones; infinite beyond floats."""
        unit, width = self._unit_and_width()
        normalised = np.logaddexp(0.0, -np.asarray(logit, dtype=np.float64)) - 1
        with np.errstate(over="ignore"):
            return np.asarray((unit * self.smallest + width * normalised) / unit)

    def _unit_and_width(self) -> tuple[float, float]:
        """The range of the losses, in halves where it is beyond the largest float."""
        unit = 0.5 if math.isinf(self.largest - self.smallest) else 1.0
        return unit, unit * self.largest - unit * self.smallest
