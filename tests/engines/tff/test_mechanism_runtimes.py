"""Without noise each mechanism gives the same aggregates under either runtime."""

import numpy as np
import pytest

from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    MatrixFactorisation,
    NoPrivacy,
    TreeAggregation,
)
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.mechanisms import clip_and_noise
from tests.engines.tff.aggregation import Aggregation

pytestmark = pytest.mark.tff

SAME = [
    TreeAggregation(noise_multiplier=0.0, clip_norm=0.5, restart_every=2),
    pytest.param(
        GaussianAdaptive(noise_multiplier=0.0, clip_norm=0.5, zeroing=AdaptiveZeroing()),
        marks=pytest.mark.slow,
    ),
    pytest.param(
        NoPrivacy(canary_norm=1.0, zeroing=FixedZeroing(norm=1.0)), marks=pytest.mark.slow
    ),
]


def rounds(aggregation):
    """Aggregates of three rounds, of updates of which some are clipped and one is zeroed."""
    random = np.random.default_rng(1)
    lengths = [0.1, 0.6, 1e4, 0.3]
    updates = [length * random.standard_normal(40) / 40**0.5 for length in lengths]
    aggregates = np.array([aggregation.run(updates) for _ in range(3)])
    return aggregates, clip_and_noise(aggregation.config, aggregation.state)


def in_both(config, worker):
    with local_runtime(LocalContext(num_threads=2)):
        local = rounds(Aggregation(config, 4.0, 40))
    with worker():
        return local, rounds(Aggregation(config, 4.0, 40))


@pytest.mark.slow
@pytest.mark.parametrize("config", SAME)
def test_local_and_native_give_the_same(config, worker):
    (local, local_noise), (native, native_noise) = in_both(config, worker)
    np.testing.assert_allclose(native, local, atol=1e-6)
    assert native_noise.clip_norm == pytest.approx(local_noise.clip_norm)
    assert np.abs(local).max() > 0.01


@pytest.mark.parametrize(
    "keys",
    [
        {"strategy": "banded_sqrt", "bands": 2},
        pytest.param({"strategy": "blt", "buffers": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_state_fixes_the_noise_that_a_matrix_correlates(keys, worker):
    config = MatrixFactorisation(noise_multiplier=2.0, clip_norm=0.5, **keys)
    with local_runtime(LocalContext(num_threads=2)):
        local = Aggregation(config, 4.0, 40)
        begun = local.state
        noised, _ = rounds(local)
    with worker():
        native = Aggregation(config, 4.0, 40)
        native.state = begun
        np.testing.assert_allclose(rounds(native)[0], noised, atol=1e-6)


@pytest.mark.slow
def test_distributed_sums_agree_but_for_their_random_rounding(worker):
    (local, local_noise), (native, native_noise) = in_both(
        Distributed(noise_multiplier=0.0), worker
    )
    # Each of four updates is rounded to multiples of 1e-6 before and after a rotation.
    np.testing.assert_allclose(native, local, atol=1e-5)
    assert native_noise.clip_norm == pytest.approx(local_noise.clip_norm)
