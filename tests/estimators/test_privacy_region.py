"""The epsilon of a pair of rates, against the four conditions of the privacy region themselves."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_audit.errors import InputError
from fl_audit.estimators.counts import epsilon_of_rates
from fl_audit.estimators.privacy_region import log_minus, log_ratio


@pytest.mark.parametrize("p", [1.0, 0.5, 1e-3])
@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-4])
def test_log_minus_is_the_log_of_the_difference(p, delta):
    assert log_minus(math.log(p), delta) == pytest.approx(math.log(p - delta), rel=1e-12, abs=1e-15)


def test_log_minus_below_delta_is_minus_infinity_without_warning():
    with np.errstate(all="raise"):
        assert log_minus([-math.inf, -50.0], 1e-5).tolist() == [-math.inf, -math.inf]


def test_log_ratio_survives_masses_below_the_smallest_float():
    assert log_ratio(-2000.0, -3000.0, 0.0) == 1000.0


steady = settings(derandomize=True, deadline=None)
rates = st.one_of(st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1 - 1e-9, 1.0]), st.floats(0, 1))
deltas = st.sampled_from([0.0, 1e-15, 1e-5, 0.05, 0.5, 0.999])


def inside(x, y, growth, delta):
    """Below Theorem 2.2, with e^epsilon = growth, in exact arithmetic."""
    x, y, delta = Fraction(x), Fraction(y), Fraction(delta)
    return (
        x + growth * y >= 1 - delta
        and y + growth * x >= 1 - delta
        and y + growth * x <= growth + delta
        and x + growth * y <= growth + delta
    )


@steady
@given(x=rates, y=rates, delta=deltas)
def test_it_is_where_the_point_enters_the_region(x, y, delta):
    epsilon = float(epsilon_of_rates(x, y, delta))
    assert epsilon >= 0
    if epsilon == math.inf:
        assert not inside(x, y, 10**400, delta)
        return
    # The rates enter exactly, their logarithms and 1 - delta are rounded.
    slack = Fraction(10) ** -9
    assert inside(x, y, Fraction(math.exp(epsilon)) * (1 + slack), delta)
    if epsilon > 1e-8:
        assert not inside(x, y, Fraction(math.exp(epsilon)) * (1 - slack), delta)


def test_infinite_only_where_a_rate_is_exact():
    assert epsilon_of_rates(0.1, 0.0, 1e-5) == math.inf
    assert epsilon_of_rates(0.0, 1.0, 0.0) == 0
    # All but delta of one side is wrong: no condition binds any more.
    assert epsilon_of_rates(0.75, 0.0, 0.25) == 0


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_rates_out_of_range_are_refused(bad):
    with pytest.raises(InputError, match="false_positive_rates must be in \\[0, 1\\]"):
        epsilon_of_rates(0.5, bad, 0)
    with pytest.raises(InputError, match="delta must be in"):
        epsilon_of_rates(0.5, 0.5, 1.0)
