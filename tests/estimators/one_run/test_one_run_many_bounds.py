"""All bounds at once against the same bounds one by one, and the clock."""

import time

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value
from fl_audit.estimators.papers.steinke2023.many_bounds import epsilon_lower_bounds


@pytest.mark.parametrize("confidence", [0.05, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-8, 1e-5, 1e-3, 0.9])
@pytest.mark.parametrize("m", [1, 5, 100, 3000, 10**6])
def test_one_by_one(m, delta, confidence):
    rng = np.random.default_rng(m)
    r = np.append(rng.integers(0, m + 1, 7), m)
    v = np.rint(r * rng.uniform(0.4, 1, 8)).astype(int)
    v[0], v[1] = r[0], 0
    together = epsilon_lower_bounds(m, r, v, delta=delta, confidence=confidence)
    alone = [
        epsilon_lower_bound(m, *counts, delta, confidence)
        for counts in zip(r.tolist(), v.tolist(), strict=True)
    ]
    assert together == pytest.approx(np.array(alone), rel=1e-10, abs=1e-13)


def test_few_guesses_among_many_canaries():
    # Here delta carries the whole p-value, and epsilon and the window depend on one another.
    r, v = np.array([499, 392, 14030, 76343]), np.array([474, 359, 14019, 76312])
    found = epsilon_lower_bounds(100_000, r, v, delta=1e-5, confidence=0.95)
    for guesses, right, bound in zip(r.tolist(), v.tolist(), found.tolist(), strict=True):
        assert p_value(100_000, guesses, right, bound * (1 - 1e-9), 1e-5) < 0.05
        assert p_value(100_000, guesses, right, bound * (1 + 1e-9), 1e-5) >= 0.05


def test_shapes():
    found = epsilon_lower_bounds(50, [[40], [50]], [30, 35, 40], delta=0.0, confidence=0.9)
    assert found.shape == (2, 3)
    assert found[1, 2] == pytest.approx(epsilon_lower_bound(50, 50, 40, 0.0, 0.9), rel=1e-12)
    assert epsilon_lower_bounds(50, [], [], delta=0.1, confidence=0.9).shape == (0,)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_ten_thousand_are_fast(delta):
    rng = np.random.default_rng(0)
    r = rng.integers(10, 100_000, 10_000)
    v = np.rint(r * rng.uniform(0.5, 1, len(r))).astype(int)
    seconds = []
    for _ in range(2):  # the better of two: other jobs only ever slow it down
        start = time.perf_counter()
        epsilon_lower_bounds(100_000, r, v, delta=delta, confidence=0.95)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 5


def test_refuses():
    wanted = {"delta": 0.0, "confidence": 0.95}
    with pytest.raises(InputError, match=r"guesses \(r\) must be in \[0, 10\]"):
        epsilon_lower_bounds(10, [5, 11], [5, 5], **wanted)
    with pytest.raises(InputError, match=r"correct \(v\) must be"):
        epsilon_lower_bounds(10, [5, 6], [5, 7], **wanted)
    with pytest.raises(InputError, match="whole numbers"):
        epsilon_lower_bounds(10, [5.5], [5], **wanted)
    with pytest.raises(InputError, match="at least 1"):
        epsilon_lower_bounds(0, [0], [0], **wanted)
    with pytest.raises(InputError, match="confidence"):
        epsilon_lower_bounds(10, [5], [5], delta=0.0, confidence=95)
