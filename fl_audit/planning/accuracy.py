"""What canaries do to the model, as far as that can be said without training it."""

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fl_audit.config import GaussianAdaptive, GaussianFixed
from fl_audit.planning.planned_run import PlannedRun


@dataclass(frozen=True)
class AccuracyCost:
    """Canaries as a smaller step and as more noise.

    Attributes:
      dilution: n / (n + m): the real sum is divided by the whole expected cohort.
      sum_noise_multiplier: z, of the noise on the sum.
      canary_noise: sqrt(m / d): m unit vectors in random directions add as much to each
        coordinate, in clip norms.
      canary_noise_of_run: the same over the run, where a canary that is presented p times adds up
        along its direction: sqrt(m p / d), p averaged over presentations.
      unclipped_quantile: share of real updates below the clip norm where an adaptive one settles;
        above 1, it grows without end. None for a fixed one, or without real clients.
    """

    dilution: float
    sum_noise_multiplier: float
    canary_noise: float
    canary_noise_of_run: float
    unclipped_quantile: float | None

    @property
    def total_noise(self) -> float:
        """sqrt(z^2 + m p / d)."""
        return math.hypot(self.sum_noise_multiplier, self.canary_noise_of_run)

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {
            "dilution": self.dilution,
            "noise_multiplier": self.sum_noise_multiplier,
            "canary_noise": self.canary_noise,
            "canary_noise_of_run": self.canary_noise_of_run,
            "unclipped_quantile": self.unclipped_quantile,
            "total_noise": self.total_noise,
        }


def accuracy_cost(run: PlannedRun) -> AccuracyCost:
    """The numbers of a planned run."""
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
    """Canaries all count as clipped, so that gamma (n + m) of n real updates have to be below."""
    match mechanism:
        case GaussianFixed():
            return None
        case GaussianAdaptive(target_quantile=quantile):
            return quantile * (n + m) / n if n else None
        case _:
            assert_never(mechanism)
