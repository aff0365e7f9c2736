import math

import numpy as np
import pytest

from fl_audit.estimators.scores import CanaryScores


def test_holds_frozen_float64_copies():
    given = np.array([1, 2])
    scores = CanaryScores(included=given, excluded=[])
    given[0] = 9
    assert scores.included.dtype == scores.excluded.dtype == np.float64
    assert scores.included.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        scores.included[0] = 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "got none"),
        (([1.0, math.nan], [0.0]), "included scores must be finite, got nan at index 1"),
        (([1.0], [-math.inf]), "excluded scores must be finite, got -inf at index 0"),
        (([[1.0]], [0.0]), r"one-dimensional, got shape \(1, 1\)"),
        (
            ([1.0], [0.0], "coin"),
            "inclusion must be one of coins, unequal_coins, fixed_half, pairs, got 'coin'",
        ),
        (([1.0], [0.0], "coins", 0.2), "needs inclusion_probability 0.5"),
        (([1.0], [0.0], "unequal_coins"), "needs inclusion_probability another than 0.5"),
        (([1.0], [0.0], "unequal_coins", 1.0), r"must be in \(0, 1\)"),
        (([1.0, 2.0], [0.0], "pairs"), "as many included as excluded"),
    ],
)
def test_refuses_bad_scores(arguments, message):
    with pytest.raises(ValueError, match=message):
        CanaryScores(*arguments)
