"""The Pareto front against its definition, pair by pair."""

import numpy as np
import pytest

from fl_audit.comparison.pareto import pareto_front


def dominated(i: int, epsilon: list[float], accuracy: list[float]) -> bool:
    return any(
        epsilon[j] <= epsilon[i]
        and accuracy[j] >= accuracy[i]
        and (epsilon[j] < epsilon[i] or accuracy[j] > accuracy[i])
        for j in range(len(epsilon))
    )


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_the_definition(seed):
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 12))
    # Few values, so that ties are common; the last stands for infinity.
    epsilon = np.array([0.0, 0.5, 1.0, 2.0, np.inf])[rng.integers(5, size=num)]
    accuracy = rng.integers(4, size=num) / 4
    expected = [not dominated(i, epsilon.tolist(), accuracy.tolist()) for i in range(num)]
    assert pareto_front(epsilon, accuracy).tolist() == expected


def test_an_infinite_epsilon_is_on_the_front_if_nothing_is_as_accurate():
    epsilon = np.array([1.0, np.inf, np.inf])
    assert pareto_front(epsilon, np.array([0.8, 0.9, 0.7])).tolist() == [True, True, False]


def test_no_points_have_no_front():
    assert pareto_front(np.array([]), np.array([])).tolist() == []
