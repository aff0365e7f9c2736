"""The strongest correlation of a vector with itself."""

import msgspec
import numpy as np
import pytest

from fl_audit.mechanism_checks import (
    Autocorrelation,
    autocorrelation_from_json,
    autocorrelation_to_json,
    strongest_autocorrelation,
)


def test_equals_the_sum_of_products():
    vector = np.random.default_rng(1).normal(size=101).astype(np.float32)
    found = strongest_autocorrelation(vector, 1.0, 0.0)
    products = [float(vector[lag:] @ vector[:-lag]) for lag in range(1, 101)]
    assert found.product == pytest.approx(products[found.lag - 1], abs=1e-4)
    assert (found.num_pairs, found.num_lags) == (101 - found.lag, 100)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e10])
def test_finds_the_lag_at_any_scale(scale):
    piece = np.random.default_rng(2).normal(size=1000)
    vector = (scale * np.concatenate([piece, np.zeros(77), piece])).astype(np.float32)
    found = strongest_autocorrelation(vector, scale, 0.0)
    assert found.lag == 1077
    assert found.product == pytest.approx(scale**2 * piece @ piece, rel=1e-4)


@pytest.mark.parametrize(
    "vector", [np.ones(1, np.float32), np.array([1e30, 1e30, 1.0], np.float32)]
)
def test_looks_for_none_where_it_cannot(vector):
    assert strongest_autocorrelation(vector, 1e-3, 0.0) is None


def test_json_there_and_back():
    for found in (None, Autocorrelation(lag=3, product=-1.5, num_pairs=7, num_lags=9)):
        assert autocorrelation_from_json(autocorrelation_to_json(found).encode()) == found
    with pytest.raises(msgspec.MsgspecError):
        autocorrelation_from_json(b'{"lag": "three"}')
