"""Counts are checked where they enter."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.counts import ConfusionCounts


def test_numpy_integers_are_integers():
    counts = ConfusionCounts(*np.array([1, 2, 3, 4]))
    assert counts == ConfusionCounts(1, 2, 3, 4)
    assert (counts.members, counts.non_members) == (3, 7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 2, 3, 4), "false_negatives must be at least 0, got -1"),
        ((1, 2.5, 3, 4), "true_positives must be an integer, got 2.5"),
        ((1, 2, None, 4), "false_positives must be an integer, got None"),
        ((0, 0, 3, 4), "false_negatives \\+ true_positives must be at least 1, got 0"),
        ((1, 2, 0, 0), "false_positives \\+ true_negatives must be at least 1, got 0"),
    ],
)
def test_bad_counts_are_refused_in_one_line(values, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        ConfusionCounts(*values)
