"""The check of recorded clip norms: its error rate, and what it finds."""

import numpy as np
import pytest

from fl_audit.checks import AdaptiveClip, check_clip_norms
from fl_audit.errors import InputError
from tests.seeds_tried import some


def clip_norms(random, rounds, cohort, stddev, *, is_kept=False, rate=0.2):
    """Clip norms in float32 and participants of a run in which any number of updates is short."""
    norms, participants, kept = [], [], random.normal()
    norm = np.float32(0.3)
    for _ in range(rounds):
        came = random.integers(cohort // 2, 3 * cohort // 2)
        short = random.integers(came // 4, came - came // 4 + 1)
        norms.append(norm)
        participants.append(came)
        noise = stddev * (kept if is_kept else random.normal())
        share = np.float32(np.clip((short - came / 2 + noise) / cohort + 0.5, 0, 1))
        norm = np.float32(norm * np.exp(-np.float32(rate) * (share - np.float32(0.5))))
    return np.array(norms, np.float64), np.array(participants)


def checked(seed, rounds, cohort, promised, stddev, **other):
    clip = AdaptiveClip(
        target_quantile=0.5, learning_rate=0.2, count_stddev=promised, denominator=cohort
    )
    random = np.random.default_rng(seed)
    return check_clip_norms(*clip_norms(random, rounds, cohort, stddev, **other), clip)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cohort", "stddev"), [(20, 1.0), (20, 0.3), (20, 0.1), (1000, 50.0)])
def test_p_values_of_right_noise_are_valid(cohort, stddev):
    """400 runs: more than 42 p-values below 0.05 would have probability 1e-6 at that level."""
    p = np.array([checked(seed, 31, cohort, stddev, stddev).p_value for seed in range(400)])
    assert (p <= 0.05).sum() <= 42
    assert p.min() > 1e-6


def test_no_noise_is_found_in_11_rounds_and_reused_noise_in_31():
    for seed in some(range(20), 5):
        assert not checked(seed, 11, 20, 1.0, 0.0).passed
        assert not checked(seed, 31, 1000, 50.0, 0.0).passed
        assert not checked(seed, 31, 20, 1.0, 1.0, is_kept=True).passed


def test_ratio_and_number_of_tests():
    none = checked(1, 31, 20, 1.0, 0.0)
    assert none.ratio < 1e-3
    assert 20 < none.num_tests <= 30
    right = checked(1, 301, 20, 1.0, 1.0)
    assert right.ratio == pytest.approx(1.0, abs=0.1)
    assert right.round is None


def test_bad_input_is_one_clear_line():
    clip = AdaptiveClip(target_quantile=0.5, learning_rate=0.2, count_stddev=1.0, denominator=20)
    with pytest.raises(InputError, match="as many as participants"):
        check_clip_norms(np.ones(3), np.ones(2), clip)
    with pytest.raises(InputError, match="must be positive"):
        check_clip_norms(np.array([1.0, 0.0]), np.ones(2), clip)
