"""Whether who has rounds knows the coins, against SciPy's hypergeometric law."""

import pytest
from scipy import stats

from fl_audit.attacks.logs import chance_of_split


@pytest.mark.parametrize(
    ("total", "included", "drawn", "observed"),
    [(40, 20, 20, 20), (40, 20, 20, 10), (200, 99, 120, 70), (30, 30, 5, 5), (2000, 990, 7, 0)],
)
def test_the_chance_is_twice_the_smaller_hypergeometric_tail(total, included, drawn, observed):
    law = stats.hypergeom(total, included, drawn)
    expected = 2 * min(law.cdf(observed), law.sf(observed - 1))
    assert chance_of_split(total, included, drawn, observed) == pytest.approx(expected, rel=1e-9)
