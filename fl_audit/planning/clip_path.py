"""The simulated path of the clip norm, and of the norm of the sum of real updates."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.config import GaussianAdaptive, GaussianFixed
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.unknowns import SPREAD, Unknowns

_MOST_CLIENTS = 1_000
"""The largest number of clients simulated in a round; each stands for several if there are more."""


_FARTHEST = 1e60
"""The largest clip norm that is followed; the float32 of a run ends at 1e38, squares overflow."""


@dataclass(frozen=True, eq=False)
class ClipPath:
    """Clip norms and norms of real sums in the rounds of several trials.

    Attributes:
      clip_norm: Norm S that the round's updates are clipped to, float64 of shape (trials, rounds).
      real_norm: Norm of the sum of clipped real updates over S, float64 of shape (trials, rounds).
    """

    clip_norm: FloatArray
    real_norm: FloatArray


def simulate_clip_path(
    run: PlannedRun, unknowns: Unknowns, trials: int, random: np.random.Generator
) -> ClipPath:
    """Simulates how the mechanism's own rule moves the clip norm.

    Norms of a round's real updates are log-normal around a median that `unknowns` gives. A canary
    is longer than any clip norm, so that it counts as clipped: where canaries are more than the
    target quantile leaves, the clip norm grows without end.

    Args:
      run: The planned run.
      unknowns: How real clients behave.
      trials: Number of paths.
      random: Source of random numbers.
    """
    shape = (trials, run.num_rounds)
    clip_norms, real_norms = np.empty(shape), np.empty(shape)
    clip_norm: FloatArray = np.full(trials, run.mechanism.clip_norm)
    medians = clip_norm[0] * np.geomspace(unknowns.first_norm, unknowns.last_norm, run.num_rounds)
    for t, (median, clients) in enumerate(zip(medians, run.clients, strict=True)):
        drawn = min(int(clients), _MOST_CLIENTS)
        norms = median * np.exp(SPREAD * random.standard_normal((trials, drawn)))
        clipped = np.minimum(norms / clip_norm[:, None], 1.0)
        scale = clients / drawn if drawn else 0.0
        clip_norms[:, t] = clip_norm
        real_norms[:, t] = _norm_of_sum(clipped, scale, unknowns.alignment)
        unclipped = scale * np.sum(norms <= clip_norm[:, None], axis=1)
        clip_norm = _moved(run, clip_norm, unclipped, int(clients) + int(run.canaries[t]), random)
    return ClipPath(clip_norms, real_norms)


def _norm_of_sum(lengths: FloatArray, scale: float, alignment: float) -> FloatArray:
    """Norm of the sum of `scale` copies of vectors, any two of which have the same cosine."""
    of_squares = scale * np.sum(lengths**2, axis=1)
    square_of_sum = (scale * np.sum(lengths, axis=1)) ** 2
    return np.asarray(np.sqrt((1 - alignment) * of_squares + alignment * square_of_sum))


def _moved(
    run: PlannedRun,
    clip_norm: FloatArray,
    unclipped: FloatArray,
    cohort: int,
    random: np.random.Generator,
) -> FloatArray:
    """The next round's clip norm, S exp(-eta (b - gamma)) (Andrew et al. 2021, section 2.1).

    Here b is the noised share of unclipped updates. tensorflow-privacy counts an unclipped update
    as +1/2 and a clipped one as -1/2, divides the sum by the expected cohort (by the actual one
    without noise) and clips the share to [0, 1].
    """
    mechanism = run.mechanism
    match mechanism:
        case GaussianFixed():
            return clip_norm
        case GaussianAdaptive():
            pass
        case _:
            assert_never(mechanism)
    if mechanism.multiplier == 0:
        share = unclipped / cohort if cohort else np.full(len(clip_norm), mechanism.target_quantile)
    else:
        noise = run.noise.count_noise_stddev * random.standard_normal(len(clip_norm))
        share = 0.5 + (unclipped - cohort / 2 + noise) / run.schedule.expected_cohort
    error = np.clip(share, 0.0, 1.0) - mechanism.target_quantile
    moved = clip_norm * np.exp(-mechanism.clip_learning_rate * error)
    return np.asarray(np.clip(moved, 1 / _FARTHEST, _FARTHEST))
