"""Weighted guesses: enumeration of all cases, equal weights, Hoeffding's form and coverage."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

from experiments.steinke2023_bounds.weighted_guesses import (
    LatticeWeights,
    Norms,
    equation_10,
    equation_11,
    equation_12,
    hoeffding_p_value,
    printed_weighted_p_value,
    right_weight,
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


def best_chance(weights: list[float], v: float, epsilon: float, delta: float) -> float:
    """The largest chance of right weight v over ALL (epsilon, delta)-DP mechanisms (as a program).

    The multiset of weights is fixed; mechanisms choose signs and who gets which weight.
    """
    m = len(weights)
    inputs = list(itertools.product([-1, 1], repeat=m))
    outputs = sorted(
        {
            tuple(w * s for w, s in zip(order, signs, strict=True))
            for order in itertools.permutations(weights)
            for signs in inputs
        }
    )
    pairs = [
        (a, b)
        for a, s in enumerate(inputs)
        for b, u in enumerate(inputs)
        if sum(x != y for x, y in zip(s, u, strict=True)) == 1
    ]
    n = len(outputs)
    size = (len(inputs) + len(pairs)) * n
    gain = np.zeros(size)
    for a, s in enumerate(inputs):
        for j, t in enumerate(outputs):
            gain[a * n + j] = (right_weight(t, s) >= v - 1e-9) / len(inputs)
    sums = np.zeros((len(inputs), size))
    for a in range(len(inputs)):
        sums[a, a * n : (a + 1) * n] = 1
    rows = np.zeros((len(pairs) * (n + 1), size))
    limits = np.zeros(len(rows))
    for k, (a, b) in enumerate(pairs):
        slack, first = (len(inputs) + k) * n, k * (n + 1)
        for j in range(n):
            rows[first + j, [a * n + j, b * n + j, slack + j]] = 1, -math.exp(epsilon), -1
        rows[first + n, slack : slack + n] = 1
        limits[first + n] = delta
    ones = np.ones(len(inputs))
    found = optimize.linprog(-gain, A_ub=rows, b_ub=limits, A_eq=sums, b_eq=ones)
    assert found.success
    return -found.fun


@pytest.mark.parametrize("delta", [0.0, 0.2])
@pytest.mark.parametrize(
    ("weights", "epsilon"), [([1.0, 1.0], 0.0), ([0.25, 1.0], 1.0), ([0.25, 0.5, 0.5], 1.0)]
)
def test_no_mechanism_exceeds_the_p_value(weights, delta, epsilon):
    lattice, m = LatticeWeights.of(weights, unit=0.25), len(weights)
    norms = Norms(sum(weights), math.hypot(*weights))
    for v in np.unique(np.cumsum(weights)):
        best = best_chance(weights, v, epsilon, delta)
        null = {"epsilon": epsilon, "delta": delta}
        assert best <= weighted_p_value(m, lattice, v, **null) + 1e-7
        assert best <= hoeffding_p_value(m, norms, v, **null) + 1e-7
        # It is no empty claim: at delta = 0 randomised response reaches it.
        assert delta > 0 or best == pytest.approx(weighted_p_value(m, lattice, v, **null))


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
