import math

import numpy as np
import pytest

from fl_audit.estimators.privacy_region import log_minus, log_ratio


@pytest.mark.parametrize("p", [1.0, 0.5, 1e-3])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-4])
def test_log_minus_is_the_log_of_the_difference(p, delta):
    assert log_minus(math.log(p), delta) == pytest.approx(math.log(p - delta), rel=1e-12, abs=1e-15)


def test_log_minus_below_delta_is_minus_infinity_without_warning():
    with np.errstate(all="raise"):
        assert log_minus([-math.inf, -50.0], 1e-5).tolist() == [-math.inf, -math.inf]


def test_log_ratio_of_an_empty_region_proves_nothing():
    assert log_ratio(-math.inf, -math.inf, 0.0) == -math.inf
    assert log_ratio(math.log(1e-6), -math.inf, 1e-5) == -math.inf


def test_log_ratio_against_an_impossible_event_is_infinite():
    assert log_ratio(math.log(0.5), -math.inf, 0.25) == math.inf


def test_log_ratio_survives_masses_below_the_smallest_float():
    assert log_ratio(-2000.0, -3000.0, 0.0) == 1000.0
