import math

import pytest

from fl_audit.estimators.distributions import supremum


@pytest.mark.parametrize("edge", [1e-300, 0.1, 1.0, 3.7, 1e5, 1e300])
def test_finds_the_edge_to_the_last_bit(edge):
    assert supremum(lambda epsilon: epsilon < edge) == edge


def test_never_and_always():
    assert supremum(lambda epsilon: False) == 0.0
    assert supremum(lambda epsilon: True) == math.inf
