"""The strongest correlation of a vector with itself."""

import msgspec
import numpy as np
import pytest

from fl_audit.mechanism_checks import Echo, echo_from_json, echo_to_json, strongest_echo


def test_equals_the_sum_of_products():
    vector = np.random.default_rng(1).normal(size=101).astype(np.float32)
    echo = strongest_echo(vector, 1.0, 0.0)
    products = [float(vector[lag:] @ vector[:-lag]) for lag in range(1, 101)]
    assert echo.product == pytest.approx(products[echo.lag - 1], abs=1e-4)
    assert (echo.num_pairs, echo.num_lags) == (101 - echo.lag, 100)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e10])
def test_finds_the_lag_at_any_scale(scale):
    piece = np.random.default_rng(2).normal(size=1000)
    vector = (scale * np.concatenate([piece, np.zeros(77), piece])).astype(np.float32)
    echo = strongest_echo(vector, scale, 0.0)
    assert echo.lag == 1077
    assert echo.product == pytest.approx(scale**2 * piece @ piece, rel=1e-4)


@pytest.mark.parametrize(
    "vector", [np.ones(1, np.float32), np.array([1e30, 1e30, 1.0], np.float32)]
)
def test_looks_for_none_where_it_cannot(vector):
    assert strongest_echo(vector, 1e-3, 0.0) is None


def test_json_there_and_back():
    for echo in (None, Echo(lag=3, product=-1.5, num_pairs=7, num_lags=9)):
        assert echo_from_json(echo_to_json(echo).encode()) == echo
    with pytest.raises(msgspec.MsgspecError):
        echo_from_json(b'{"lag": "three"}')
