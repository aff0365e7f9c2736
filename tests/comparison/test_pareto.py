"""The Pareto front against its definition, pair by pair."""

import numpy as np
import pytest

from fl_audit.comparison.comparison import pareto_front


def dominated(i, lower, upper, accuracy):
    return any(
        upper[j] <= lower[i]
        and accuracy[j] >= accuracy[i]
        and (upper[j] < lower[i] or accuracy[j] > accuracy[i])
        for j in range(len(lower))
        if j != i
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("has_width", [False, True])
def test_agrees_with_the_definition(seed, has_width):
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 12))
    # Few values, so that ties are common; the last stands for infinity.
    values = np.array([0.0, 0.5, 1.0, 2.0, np.inf])
    lower = upper = values[rng.integers(5, size=num)]
    if has_width:
        upper = np.maximum(lower, values[rng.integers(5, size=num)])
    accuracy = rng.integers(4, size=num) / 4
    expected = [not dominated(i, lower, upper, accuracy) for i in range(num)]
    assert pareto_front(lower, upper, accuracy).tolist() == expected


def test_intervals_that_overlap_put_nobody_off_the_front():
    lower, upper = np.array([1.0, 1.5, 4.0]), np.array([2.0, 3.0, 5.0])
    assert pareto_front(lower, upper, np.array([0.9, 0.8, 0.8])).tolist() == [True, True, False]


def test_an_infinite_epsilon_is_on_the_front_if_nothing_is_as_accurate():
    epsilon = np.array([1.0, np.inf, np.inf])
    front = pareto_front(epsilon, epsilon, np.array([0.8, 0.9, 0.7]))
    assert front.tolist() == [True, True, False]


def test_no_points_have_no_front():
    assert pareto_front(np.array([]), np.array([]), np.array([])).tolist() == []
