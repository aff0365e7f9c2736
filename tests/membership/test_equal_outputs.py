"""Equal outputs are refused although their mean is rounded: that of three times 0.1 is not 0.1."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.membership.lira import ShadowOutputs
from fl_audit.membership.measure_mia import measure_mia
from fl_audit.membership.population import calibrated_margins

TENTHS = [0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: ShadowOutputs(
                [[x] for x in (*TENTHS, 0.3, 0.5)], [[x < 3] for x in range(5)]
            ).member_fits(),
            "point 0: all models trained on it have the same output",
        ),
        (
            lambda: measure_mia([[0.1]], [[0.1]], [TENTHS], [[0.0, 0.2, 0.4]]),
            "losses of a challenge base must not be all equal",
        ),
        (
            lambda: calibrated_margins([0.0], [1.0], [TENTHS], [[1.0], [2.0], [3.0]]),
            "the margins of the population are all alike",
        ),
    ],
)
def test_equal_outputs_are_refused(made, message):
    with pytest.raises(InputError, match=message):
        made()


def test_a_feature_that_is_the_same_for_all_changes_nothing():
    margins = [[0.1, 0.4, 0.7]]
    without = calibrated_margins([0.0], [], margins, np.empty((3, 0)))
    assert calibrated_margins([0.0], [0.2], margins, [[0.1]] * 3) == pytest.approx(without, abs=0.3)
