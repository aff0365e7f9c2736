"""The region of scores that make the valid one-run bound exceed an epsilon."""

import numpy as np
import pytest

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.one_run.valid import one_run_rejection

LEVEL = 0.05 / 8


def setting_of(scores, delta, level):
    return AuditSetting(scores, delta, 1 - level, None, "empirical")


@pytest.mark.parametrize(
    ("epsilon", "delta", "num_canaries", "margin"),
    # The margin: 0.01 of the boundary, and what the estimator gains by trying larger epsilons.
    [(1.0, 1e-5, 400, 0.02), (2.0, 1e-4, 1001, 0.02), (3.0, 1e-3, 250, 0.2)],
)
def test_the_one_run_region_is_where_the_bound_exceeds_epsilon(
    epsilon, delta, num_canaries, margin
):
    rejects = one_run_rejection(epsilon, delta, LEVEL)
    rng = np.random.default_rng(1)
    rejected = 0
    for index, shift in enumerate(np.repeat(np.linspace(0.5, 4.0, 12), 4)):
        bits = rng.integers(0, 2, num_canaries)
        spread = np.where(bits == 1, 1 + shift, 1) if index % 4 == 3 else 1
        values = shift * bits + spread * rng.standard_normal(num_canaries)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = setting_of(scores, delta, LEVEL)
        bound = METHODS["one_run_valid"](setting).epsilon
        rejected += int(rejects([setting])[0])
        if rejects([setting])[0]:
            assert bound > epsilon - 1e-5
        else:
            assert bound < epsilon + margin
    assert 5 < rejected < 43


@pytest.mark.parametrize("seed", [1, 42, 97])
def test_few_epsilons_whose_chance_is_small_enough_are_found(seed):
    """With m delta = 0.5 the chance falls and rises again, below alpha only close to its least."""
    bits = (rng := np.random.default_rng(seed)).integers(0, 2, 500)
    values = rng.standard_normal(500) + 0.62 * bits
    scores = CanaryScores(values[bits == 1], values[bits == 0])
    setting = setting_of(scores, 1e-3, 0.05)
    assert one_run_rejection(0.5, 1e-3, 0.05)([setting])[0]
    assert METHODS["one_run_valid"](setting).epsilon > 0.5


def test_no_region_rejects_where_none_can():
    rejects = one_run_rejection(20.0, 1e-5, LEVEL)
    scores = CanaryScores(np.arange(100.0, 125.0), np.arange(25.0))
    assert not rejects([setting_of(scores, 1e-5, LEVEL)])[0]


def test_one_rejection_serves_samples_of_several_sizes():
    rejects = one_run_rejection(1.0, 1e-5, LEVEL)
    rng, samples, shifts = np.random.default_rng(2), [], (3.0, 3.0, 0.0)
    for num_canaries, shift in zip((400, 100, 400), shifts, strict=True):
        bits = rng.integers(0, 2, num_canaries)
        values = shift * bits + rng.standard_normal(num_canaries)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        samples.append(setting_of(scores, 1e-5, LEVEL))
    assert rejects(samples).tolist() == [shift > 0 for shift in shifts]


def test_nothing_is_rejected_where_the_method_cannot_be_applied():
    rejects = one_run_rejection(1.0, 1e-5, LEVEL)
    everybody, nobody = np.arange(400.0), np.zeros(0)
    for scores in (CanaryScores(everybody, nobody), CanaryScores(nobody, everybody)):
        assert not rejects([setting_of(scores, 1e-5, LEVEL)])[0]
