"""Steinke et al., appendices B and C: the printed numbers, and mechanisms that are enumerated."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from experiments.steinke2023_bounds import generalisation_and_information as bounds


def test_the_printed_comparison():
    """Appendix B.1: alpha + 0.397 by the earlier theorem, alpha + 0.308 by corollary B.5."""
    setting = {"epsilon": 1 / 3, "delta": 1e-5, "beta": 1e-5, "failure": 0.05}
    assert bounds.error_by_equation_13(**setting) == pytest.approx(0.397, abs=5e-4)
    assert bounds.error_by_corollary_b5(2000, **setting) == pytest.approx(0.308, abs=5e-4)


def test_randomised_response_does_not_exceed_proposition_b3():
    """Y answers truthfully with odds e^epsilon on each of n bits; q counts right answers.

    Against a fresh sample the difference is of two independent numbers of right answers.
    """
    n, epsilon = 30, 1.0
    right = stats.binom(n, 1 / (1 + math.exp(-epsilon))).pmf(np.arange(n + 1))
    fresh = stats.binom(n, 0.5).pmf(np.arange(n + 1))
    differences = np.convolve(right, fresh[::-1])
    for gamma, eta in itertools.product((0.2, 0.5, 0.8), (0.0, 0.1, 0.3)):
        exceeded = differences[np.arange(-n, n + 1) / n >= gamma - 1e-12].sum()
        assert exceeded <= bounds.proposition_b3(n, epsilon, 0.0, gamma, eta) + 1e-12


@pytest.mark.parametrize("p", [0.5, 0.2])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.1)])
def test_proposition_c1_is_the_information_of_randomised_response(epsilon, delta, p):
    """The proof's mechanism: the bit itself with probability delta, else a random response."""
    odds = math.exp(epsilon)
    truth, lie = (1 - delta) * odds / (odds + 1), (1 - delta) / (odds + 1)
    joint = np.array([[truth, lie, delta, 0.0], [lie, truth, 0.0, delta]])
    joint *= np.array([[1 - p], [p]])
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    information = float(np.sum(joint[seen] * np.log(joint[seen] / product[seen])))
    bound = bounds.information_by_proposition_c1(1, epsilon, delta, p)
    assert bound == pytest.approx(information, rel=1e-12)


def test_equation_4_is_reached_by_coins():
    """P is 1 with probability a and Q with b, else 0; the divergence is that of both directions."""
    best = {}
    for a, b in itertools.product(np.linspace(0.005, 0.995, 199), repeat=2):
        there, back = a**2 / b + (1 - a) ** 2 / (1 - b), b**2 / a + (1 - b) ** 2 / (1 - a)
        epsilon = math.log(max(there, back, 1.0))
        accuracy = (1 + abs(a - b)) / 2
        assert accuracy <= bounds.accuracy_by_equation_4(epsilon) + 1e-9
        if abs(epsilon - 0.5) < 0.02:
            best[a, b] = accuracy / bounds.accuracy_by_equation_4(epsilon)
    assert max(best.values()) > 0.999
