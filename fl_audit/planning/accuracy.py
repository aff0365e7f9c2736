"""The effect of canaries on the model, as far as it is known without training."""

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fl_audit.config import GaussianAdaptive, GaussianFixed
from fl_audit.planning.planned_run import PlannedRun


@dataclass(frozen=True)
class AccuracyCost:
    """The cost of canaries in accuracy: a smaller step and more noise.

    Attributes:
      dilution: The factor n / (n + m) on the real sum, which is divided by the whole expected
        cohort of n clients and m canaries.
      sum_noise_multiplier: Noise multiplier z of the noise on the sum.
      canary_noise: Deviation sqrt(m / d) that m unit vectors in random directions add to each
        coordinate, in clip norms.
      canary_noise_of_run: The same over the run, sqrt(m p / d), as a canary that is presented p
        times adds up along its direction; p is averaged over presentations.
      unclipped_quantile: Share of real updates below the clip norm at which an adaptive clip norm
        settles; above 1 it grows without end. None for a fixed clip norm, or without real clients.
    """

    dilution: float
    sum_noise_multiplier: float
    canary_noise: float
    canary_noise_of_run: float
    unclipped_quantile: float | None

    @property
    def total_noise(self) -> float:
        """Deviation of noise and canaries together, sqrt(z^2 + m p / d), in clip norms."""
        return math.hypot(self.sum_noise_multiplier, self.canary_noise_of_run)

    def to_json(self) -> dict[str, object]:
        """The JSON object that a plan has under `accuracy`."""
        return {
            "dilution": self.dilution,
            "noise_multiplier": self.sum_noise_multiplier,
            "canary_noise": self.canary_noise,
            "canary_noise_of_run": self.canary_noise_of_run,
            "unclipped_quantile": self.unclipped_quantile,
            "total_noise": self.total_noise,
        }


def accuracy_cost(run: PlannedRun) -> AccuracyCost:
    """The cost in accuracy of a planned run's canaries."""
    n, m = run.schedule.expected_clients, run.schedule.expected_canaries
    presentations = np.bincount(run.canary)
    times = float(presentations @ presentations) / max(int(presentations.sum()), 1)
    return AccuracyCost(
        dilution=n / (n + m),
        sum_noise_multiplier=run.noise.sum_noise_multiplier,
        canary_noise=math.sqrt(m / run.task.dim),
        canary_noise_of_run=math.sqrt(m * times / run.task.dim),
        unclipped_quantile=_unclipped_quantile(run.mechanism, n, m),
    )


def _unclipped_quantile(
    mechanism: GaussianAdaptive | GaussianFixed, n: float, m: float
) -> float | None:
    """The share gamma (n + m) / n of real updates below the clip norm, as no canary is below it."""
    match mechanism:
        case GaussianFixed():
            return None
        case GaussianAdaptive(target_quantile=quantile):
            return quantile * (n + m) / n if n else None
        case _:
            assert_never(mechanism)
