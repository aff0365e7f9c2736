"""Mechanisms of which noise or rounding is random give the same aggregates under either runtime."""

import numpy as np
import pytest

from fl_audit.config import Distributed, MatrixFactorisation
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from tests.engines.tff.aggregation import Aggregation

pytestmark = [pytest.mark.tff, pytest.mark.slow]


def rounds(aggregation):
    """Aggregates of three rounds, of updates of which some are clipped."""
    random = np.random.default_rng(1)
    lengths = [0.1, 0.6, 1e4, 0.3]
    updates = [length * random.standard_normal(40) / 40**0.5 for length in lengths]
    return np.array([aggregation.run(updates) for _ in range(3)])


def matrix(**keys):
    return MatrixFactorisation(noise_multiplier=2.0, clip_norm=0.5, **keys)


@pytest.mark.parametrize(
    ("config", "close"),
    [
        (matrix(strategy="banded_sqrt", bands=2), 1e-6),
        (matrix(strategy="blt", buffers=2), 1e-6),
        # Each of four updates is rounded to multiples of 1e-6 before and after a rotation.
        (Distributed(noise_multiplier=0.0), 1e-5),
    ],
    ids=["banded_sqrt", "blt", "distributed"],
)
def test_a_state_fixes_what_both_runtimes_release(config, close, worker):
    with local_runtime(LocalContext(num_threads=2)):
        local = Aggregation(config, 4.0, 40)
        begun, aggregates = local.state, rounds(local)
    with worker():
        native = Aggregation(config, 4.0, 40)
        native.state = begun
        np.testing.assert_allclose(rounds(native), aggregates, atol=close)
    assert np.abs(aggregates).max() > 0.01
