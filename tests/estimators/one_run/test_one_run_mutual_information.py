"""Appendix C against the mutual information of the mechanism that reaches it."""

import math

import mpmath
import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.estimators.papers.steinke2023.mutual_information import (
    mutual_information_bound,
    product_law_bound,
    simple_mutual_information_bound,
    steinke_zakynthinou_bound,
)

EPSILONS = [0.0, 0.01, 0.5, 1.0, 4.0, 20.0]
DELTAS = [0.0, 1e-5, 0.1, 0.9]


def information(joint: np.ndarray) -> float:
    """Mutual information of a [2, n] joint law, from its definition."""
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return float(np.sum(joint[some] * np.log(joint[some] / product[some])))


def revealing_response(epsilon: float, delta: float) -> np.ndarray:
    """[2, 4] the two laws Q~ in the proof of Proposition C.1: (epsilon, delta)-DP."""
    right, wrong = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return np.array(
        [
            [(1 - delta) * right, (1 - delta) * wrong, delta, 0],
            [(1 - delta) * wrong, (1 - delta) * right, 0, delta],
        ]
    )


@pytest.mark.parametrize("inclusion", [0.0, 0.03, 0.5, 0.8])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_is_reached(epsilon, delta, inclusion):
    weights = np.array([[1 - inclusion], [inclusion]])
    exact = information(weights * revealing_response(epsilon, delta))
    found = mutual_information_bound(7, epsilon=epsilon, delta=delta, inclusion=inclusion)
    assert found == pytest.approx(7 * exact, rel=1e-9, abs=1e-13)


def test_no_mechanism_tells_more():
    rng = np.random.default_rng(1)
    for _ in range(500):
        P, Q = rng.dirichlet(np.ones(4), size=2)
        epsilon, p = rng.uniform(0, 2), rng.uniform(0.05, 0.95)
        excess = max(np.maximum(P - np.exp(epsilon) * Q, 0).sum(),
                     np.maximum(Q - np.exp(epsilon) * P, 0).sum())  # fmt: skip
        told = information(np.array([p * P, (1 - p) * Q]))
        bound = mutual_information_bound(1, epsilon=epsilon, delta=float(excess), inclusion=p)
        assert told <= bound + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_printed_form_for_fair_coins(epsilon):
    # The second display of Proposition C.1, in 50 digits.
    mpmath.mp.dps = 50
    e = mpmath.mpf(epsilon)
    g = mpmath.log(2) - mpmath.log(1 + mpmath.exp(-e)) - e / (mpmath.exp(e) + 1)
    for delta in DELTAS:
        exact = float(delta * mpmath.log(2) + (1 - delta) * g)
        found = mutual_information_bound(1, epsilon=epsilon, delta=delta)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_order_of_the_bounds(epsilon, delta):
    # Equations 17 to 19: ours is the least, four times better than 18 for small epsilon.
    null = {"epsilon": epsilon, "delta": delta}
    ours, simple = mutual_information_bound(3, **null), simple_mutual_information_bound(3, **null)
    assert 0 <= ours <= simple + 1e-12
    assert ours <= steinke_zakynthinou_bound(3, **null) + 1e-12
    if delta == 0:
        assert simple == pytest.approx(product_law_bound(3, epsilon=epsilon) / 4)
        assert 0 < epsilon < 0.1 or epsilon == 0 or ours < simple
    assert ours <= 3 * math.log(2) + 1e-12


def test_extremes_and_refusals():
    assert mutual_information_bound(1, epsilon=50.0, delta=0.0) == pytest.approx(math.log(2))
    assert math.isfinite(steinke_zakynthinou_bound(1, epsilon=1e6, delta=0.0))
    with pytest.raises(InputError, match="at least 1"):
        mutual_information_bound(0, epsilon=1.0, delta=0.0)
    with pytest.raises(InputError, match="inclusion"):
        mutual_information_bound(1, epsilon=1.0, delta=0.0, inclusion=1.5)
    with pytest.raises(InputError, match="delta"):
        simple_mutual_information_bound(1, epsilon=1.0, delta=1.0)
