"""The strongest correlation of a vector with itself."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.mechanism_checks import (
    Autocorrelation,
    autocorrelation_to_json,
    read_autocorrelation,
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


def test_json_there_and_back(tmp_path):
    path = tmp_path / "echo.json"
    for found in (None, Autocorrelation(lag=3, product=-1.5, num_pairs=7, num_lags=9)):
        path.write_text(autocorrelation_to_json(found))
        assert read_autocorrelation(path) == found
    path.write_text('{"lag": "three"}')
    with pytest.raises(InputError, match=r"echo\.json: is not an autocorrelation"):
        read_autocorrelation(path)
