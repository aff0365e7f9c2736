"""The updates of a replay of a run's first round, and the expected behaviour of that round."""

import itertools
from collections.abc import Sequence

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.checks import Promise, why_not_checked
from fl_audit.engines.prepare import PreparedRun
from fl_audit.mechanisms import MECHANISMS
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

_MOST_CLIENTS = 32
"""The number of clients of a replayed round, if memory suffices."""

_MOST_NUMBERS = 1 << 26
"""The number of numbers in all updates of a replayed round."""


def promise_of(run: PreparedRun, clip_norm: float, zeroing_norm: float) -> Promise:
    """The expected behaviour of a round under a run's config.

    `zeroing_norm` is the largest coordinate that an update may have; infinite without zeroing.
    """
    table, denominator = run.config.mechanism, run.schedule.expected_cohort
    is_gaussian = why_not_checked(table) is None
    kind, zeroing = MECHANISMS.kind_of(table), table.zeroing
    return Promise(
        clip_norm=clip_norm,
        denominator=denominator,
        noise_multiplier=run.noise.sum_noise_multiplier if is_gaussian else None,
        zeroing_norm=zeroing_norm,
        correlation=run.release.correlation,
        adaptive_clip=None
        if kind.adaptive_clip is None
        else kind.adaptive_clip(table, run.noise, denominator),
        adaptive_zeroing=zeroing if isinstance(zeroing, AdaptiveZeroing) else None,
    )


def trial_updates(
    shapes: Sequence[tuple[int, ...]], promise: Promise, seed: int
) -> list[list[Float32Array]]:
    """Updates whose variables have equal norms; alternately above and below the clip norm."""
    random = np.random.default_rng(seed)
    dim = sum(int(np.prod(shape)) for shape in shapes)
    count = max(2, min(_MOST_CLIENTS, _MOST_NUMBERS // max(1, dim)))
    norm = promise.clip_norm if np.isfinite(promise.clip_norm) else 1.0
    lengths = itertools.islice(itertools.cycle((3.0 * norm, 0.5 * norm)), count)
    return [
        [_part(random, shape, length / np.sqrt(len(shapes))) for shape in shapes]
        for length in lengths
    ]


def _part(random: np.random.Generator, shape: tuple[int, ...], length: float) -> Float32Array:
    part = random.standard_normal(shape)
    return np.asarray(part * (length / np.linalg.norm(part)), np.float32)
