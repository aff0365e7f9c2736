"""Replay of a zeroing norm that adapts: whether it moves as promised.

It follows a quantile of the updates' largest coordinates without noise (`mechanisms.zeroing`), so
that one round of known updates determines its next value exactly.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.replay.trial_rounds import Finding, TrialRounds, Trials, failed, held
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

ZeroingNormOf = Callable[[Any], float]
"""A function from a server's state to the largest coordinate that is kept in a round from it."""

_SEED = 4_000_037
"""Away from the seeds of other questions."""

_CLIENTS = 6


def zeroing_finding(
    rounds: TrialRounds, trials: Trials, zeroing: AdaptiveZeroing, norm_of: ZeroingNormOf
) -> Finding:
    """Whether cohorts of small and of large updates move the zeroing norm as promised."""
    name, expected = (
        "zeroing_update",
        "the zeroing norm moves as the promised quantile and rate say",
    )
    before = float(norm_of(rounds.state))
    estimate = (before - zeroing.increment) / zeroing.multiplier
    like = trials.vectors[0] / np.abs(trials.vectors[0]).max()
    for large in range(_CLIENTS + 1):
        sizes = [3.0 * estimate] * large + [0.3 * estimate] * (_CLIENTS - large)
        cohort = [*trials.few, *(np.asarray(size * like) for size in sizes)]
        try:
            after = float(norm_of(rounds.run(cohort, _SEED).state))
        except Exception as error:  # a server may refuse a round in any way
            return failed(name, expected, f"{type(error).__name__}: {error}")
        promised = _moved(zeroing, estimate, cohort)
        if not math.isclose(after, promised, rel_tol=1e-4):
            words = f"{large} of {len(cohort)} large updates move it from {before:.4g} to "
            return failed(name, expected, f"{words}{after:.4g}, not to {promised:.4g}")
    return held(name, expected, f"{_CLIENTS + 1} cohorts do")


def _moved(zeroing: AdaptiveZeroing, estimate: float, cohort: Sequence[FloatArray]) -> float:
    """The zeroing norm after a round (Andrew et al. 2021, section 2.1, without noise)."""
    below = np.mean([np.abs(update).max() <= estimate for update in cohort])
    moved = estimate * math.exp(-zeroing.learning_rate * (below - zeroing.target_quantile))
    return zeroing.multiplier * moved + zeroing.increment
