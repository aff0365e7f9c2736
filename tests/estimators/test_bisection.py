import math

import pytest

from fl_audit.estimators.bisection import largest_epsilon


@pytest.mark.parametrize("edge", [1e-300, 0.1, 1.0, 3.7, 1e5, 1e300])
def test_finds_the_edge_to_the_last_bit(edge):
    assert largest_epsilon(lambda epsilon: epsilon < edge) == edge


def test_never_and_always():
    assert largest_epsilon(lambda epsilon: False) == 0.0
    assert largest_epsilon(lambda epsilon: True) == math.inf
