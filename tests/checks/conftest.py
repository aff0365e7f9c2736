"""Runs of made-up aggregates: a signal as long as clipping allows, and noise."""

from collections.abc import Callable

import numpy as np
import pytest

from fl_audit.checks import RunAggregates, measure
from fl_audit.checks.noise_rows import NoiseWatch

SIZES = (3000, 40, 900, 60, 1)
ROUNDS = 12
COHORT = 20
STDDEV, CLIP_NORM = 0.05, 0.1
"""In the aggregate's unit: a signal of 20 clients can be 0.1 long, the noise is 3.2 long."""

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def signal(random: np.random.Generator) -> np.ndarray:
    """[rounds, dim] as clients could send it: the same in every round, most of it in one place."""
    one = random.normal(size=sum(SIZES))
    one[:50] *= 40
    return np.tile(CLIP_NORM * one / np.linalg.norm(one), (ROUNDS, 1))


def aggregates_of(aggregates: np.ndarray, *, stddev: float = STDDEV) -> RunAggregates:
    """What a run logs of aggregates of shape (rounds, dim)."""
    vectors = aggregates.astype(np.float32)
    lasts = [None, *vectors[:-1]]
    watch = NoiseWatch(SIZES)
    return RunAggregates(
        sizes=SIZES,
        stddev=np.full(len(vectors), stddev),
        norm_bound=np.full(len(vectors), CLIP_NORM),
        measured=np.array(
            [measure(one, last, SIZES) for one, last in zip(vectors, lasts, strict=True)]
        ),
        noise=np.array([watch.row(at, one, stddev, CLIP_NORM) for at, one in enumerate(vectors)]),
    )


@pytest.fixture
def make_run() -> Callable[..., RunAggregates]:
    """A run whose noise, of shape (rounds, dim) and correct to begin with, is changed."""

    def make(change: Change = lambda noise, random: noise, seed: int = 1) -> RunAggregates:
        random = np.random.default_rng(seed)
        noise = random.normal(0, STDDEV, (ROUNDS, sum(SIZES)))
        return aggregates_of(signal(random) + change(noise, random))

    return make
