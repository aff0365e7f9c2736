"""Weighted guesses: enumeration of all cases, equal weights, Hoeffding's form and coverage."""

import itertools
import math

import numpy as np
import pytest

from experiments.steinke2023_bounds.weighted_guesses import (
    LatticeWeights,
    Norms,
    equation_10,
    equation_11,
    equation_12,
    printed_weighted_p_value,
    weighted_epsilon_lower_bound,
    weighted_p_value,
)
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value


def enumerated_tail(weights: list[float], v: float, epsilon: float) -> float:
    p = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.prod(p if c else 1 - p for c in right)
        for right in itertools.product([0, 1], repeat=len(weights))
        if math.fsum(w for w, c in zip(weights, right, strict=True) if c) >= v - 1e-9
    )


@pytest.mark.parametrize("epsilon", [0.0, 6.0])
@pytest.mark.parametrize("weights", [[0.25, 0.5, 1.0], [0.1] * 6 + [0.7] * 5])
def test_lattice_weights_are_exact(weights, epsilon):
    lattice = LatticeWeights.of(weights, unit=0.05)
    v = np.linspace(0, sum(weights) + 0.05, 40)
    exact = [enumerated_tail(weights, x, epsilon) for x in v]
    assert lattice.tail(v, epsilon) == pytest.approx(exact, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize(("v", "delta"), [(0, 0.0), (50, 1e-5), (75, 1e-3), (100, 0.0)])
def test_equal_weights_are_corollary_5_4(v, delta):
    equal = LatticeWeights.of(np.ones(100), unit=1.0)
    for epsilon in (0.0, 1.0, 50.0):
        null = {"epsilon": epsilon, "delta": delta}
        printed = printed_weighted_p_value(200, equal, v, **null)
        assert printed == pytest.approx(p_value(200, 100, v, **null), rel=1e-9)
        # The proven one is tighter where a test may reject.
        assert printed > 0.5 or weighted_p_value(200, equal, v, **null) <= printed * (1 + 1e-9)
    found = weighted_epsilon_lower_bound(200, equal, v, delta=0.0, confidence=0.95)
    assert found == pytest.approx(epsilon_lower_bound(200, 100, v, 0.0, 0.95), abs=3e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_equations_10_to_12_weaken_in_turn(delta):
    norms = Norms(1000.0, 30.0)
    for beta in (0.3, 0.05, 1e-6):
        v = norms.mean(1.0) + 30 * math.sqrt(-math.log(beta) / 2)
        tenth = equation_10(2000, norms, v, epsilon=1.0, delta=delta)
        eleventh = equation_11(2000, norms, v, epsilon=1.0, delta=delta)
        assert tenth <= eleventh
        assert eleventh == pytest.approx(equation_12(2000, norms, beta, delta=delta), rel=1e-9)
        assert delta > 0 or tenth == pytest.approx(beta)


def test_equation_12_as_printed_lacks_a_factor_2():
    # With 1 / (v - mean) for 2 / (v - mean) it is below equation 11, from which it is derived.
    norms, beta, delta = Norms(1000.0, 30.0), 1e-12, 1e-5
    above = 30 * math.sqrt(-math.log(beta) / 2)
    printed = beta + 2 * 2000 * delta * max(1 / above, beta**0.25)
    v = norms.mean(1.0) + above
    eleventh = equation_11(2000, norms, v, epsilon=1.0, delta=delta)
    assert printed < 0.9 * eleventh
