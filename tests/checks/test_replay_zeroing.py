"""Replays of servers whose zeroing norm follows a quantile without noise."""

import math

import numpy as np
import pytest

from fl_audit.checks import Promise, replay_round
from fl_audit.errors import InputError
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

ZEROING = AdaptiveZeroing(
    initial_estimate=2.0, target_quantile=0.8, learning_rate=0.5, multiplier=1.5, increment=0.1
)
PROMISE = Promise(
    clip_norm=1.0, denominator=8, noise_multiplier=None, adaptive_zeroing=ZEROING, zeroing_norm=3.1
)


def server(step):
    """Zeroes, clips and adds up; the estimate moves by a rule of the share of small updates."""

    def next_round(estimate, updates, random):
        largest = np.array([np.abs(update[0]).max() for update in updates])
        kept = [
            u[0] for u, size in zip(updates, largest, strict=True) if size <= 1.5 * estimate + 0.1
        ]
        total = np.zeros(50)
        for update in kept:
            total += update / max(1.0, float(np.linalg.norm(update)))
        if not updates:
            return estimate, [total / 8]
        return step(estimate, float(np.mean(largest <= estimate))), [total / 8]

    return next_round


def replayed(step, zeroing_norm_of=lambda estimate: 1.5 * estimate + 0.1):
    random = np.random.default_rng(1)
    updates = [[random.normal(0, 0.1 * (at + 1), 50)] for at in range(8)]
    return replay_round(
        server(step), 2.0, updates, seed=1, promise=PROMISE, zeroing_norm_of=zeroing_norm_of
    )


def moved(estimate, share, rate=0.5, quantile=0.8):
    return estimate * math.exp(-rate * (share - quantile))


def test_a_norm_that_moves_as_promised_holds():
    found = replayed(moved)
    assert found.passed, found
    assert "zeroing_update" in {finding.name for finding in found.findings if finding.is_conclusive}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda estimate, share: estimate, id="stays"),
        pytest.param(lambda e, share: moved(e, share, rate=0.25), id="half the rate"),
        pytest.param(lambda e, share: moved(e, share, quantile=0.5), id="another quantile"),
        pytest.param(lambda e, share: moved(e, 1 - share), id="counts the large ones"),
        pytest.param(lambda e, share: e - 0.5 * (share - 0.8), id="not geometric"),
    ],
)
def test_one_that_moves_otherwise_fails(step):
    assert replayed(step).failed == ("zeroing_update",)


def test_its_reader_is_needed():
    with pytest.raises(InputError, match="zeroing_norm_of: is missing"):
        replayed(moved, None)
