"""Scores that a device computes, against NumPy's; here the device is a CPU."""

import types

import jax
import numpy as np
import pytest

from fl_audit.canaries.families import (
    PIECE,
    GaussianFamily,
    HadamardFamily,
    HalfNormals,
    RademacherFamily,
)
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.jax.scoring import GaussianOnDevice, HadamardOnDevice, scored_on

SAME = 1e-5
"""In standard deviations of an excluded canary's cosine; what came out is below 3e-6."""


def target_of(family, canaries):
    """A vector that some canaries are part of, as of an aggregate with large and small entries."""
    random = np.random.default_rng(4)
    vector = random.standard_normal(family.dim) * random.lognormal(0, 2, family.dim)
    vector *= 3 / np.linalg.norm(vector)
    return (vector + sum(family.vector(canary) for canary in canaries)).astype(np.float32)


def assert_same_cosines(ours, family, included):
    target = target_of(family, included)
    expected, found = family.cosines(target), ours.cosines(target)
    assert found.dtype == np.float64
    assert (expected[included] > 0.1).all()
    np.testing.assert_allclose(found, expected, atol=SAME * family.dim**-0.5, rtol=2e-6)
    np.testing.assert_array_equal(ours.cosines(np.zeros_like(target)), np.zeros(len(expected)))
    np.testing.assert_array_equal(ours.vector(3), family.vector(3))


@pytest.mark.parametrize(
    "dim", [1001, *(pytest.param(dim, marks=pytest.mark.slow) for dim in (300_001, 4_050_748))]
)
def test_hadamard(dim):
    family = HadamardFamily(7, 500, dim)
    assert_same_cosines(HadamardOnDevice(family, jax.devices()[0]), family, [0, 3, 499])


@pytest.mark.parametrize(
    "dim",
    [
        PIECE + 37_857,  # a whole piece, and one of an odd number of pairs
        pytest.param(1001, marks=pytest.mark.slow),
        pytest.param(2_000_003, marks=pytest.mark.slow),
        pytest.param(4_050_748, marks=pytest.mark.slow),
    ],
)
def test_gaussian(dim):
    """Four canaries, three side by side, so that the last block has two too many."""
    family = GaussianFamily(7, 4, dim)
    assert_same_cosines(GaussianOnDevice(family, jax.devices()[0], 3), family, [0, 3])


def test_gaussian_bits_are_those_of_numpy():
    """One coordinate after the other of a canary, by targets with one entry."""
    family = GaussianFamily(2, 1, 6)
    ours = GaussianOnDevice(family, jax.devices()[0], 1)
    found = [ours.inner_products(row)[0] for row in np.eye(6, dtype=np.float32)]
    np.testing.assert_allclose(found, family.vector(0), rtol=1e-6)
    drawn = HalfNormals(6).draw(family.stream(0), 6)
    np.testing.assert_allclose(found, drawn / np.linalg.norm(drawn), rtol=1e-6)


def test_who_scores_what(run):
    """A device that is no CPU scores what it can, in blocks by its memory."""
    cpu = jax.devices()[0]
    accelerator = types.SimpleNamespace(
        platform="gpu", memory_stats=lambda: {"bytes_limit": 80 << 30}
    )
    hadamard, gaussian = HadamardFamily(1, 9, 1000), GaussianFamily(1, 9, 1000)
    assert scored_on(hadamard, cpu) is None
    assert scored_on(gaussian, cpu) is None
    assert scored_on(RademacherFamily(1, 9, 1000), accelerator) is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "device_put", lambda value, device: value)
        assert isinstance(scored_on(hadamard, accelerator), HadamardOnDevice)
        assert isinstance(scored_on(gaussian, accelerator), GaussianOnDevice)
    assert JaxEngine(run, [cpu]).scored_canaries(run) is run.family
