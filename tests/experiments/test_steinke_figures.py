"""Numbers that Steinke et al. (2023) print in text and captions, and what they say of shapes.

The figures themselves are images that we do not have, so no point is read off a curve. Appendix D's
0.702, 0.699, 0.673 and 0.553 and the 2.675 of Figure 11 are in test_one_run_bound.py. Figures 4 to
9 are experiments with CIFAR-10 (section 6: 0.7, 1.2, 1.8, 3.5), which no formula gives.
"""

import math

import numpy as np
import pytest
from scipy import optimize, special

from experiments.steinke2023_figures.many_bounds import epsilon_lower_bounds
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value, sharp_p_values

M = 100_000
"""Canaries in Figures 11 and 12."""

SIGMA = 1.0
"""N(S, 4) with S = -1 or 1: deviation 2 at sensitivity 2."""


def test_figure_2():
    # 95 % bounds from 100 guesses, beside the ideal epsilon that gives 100 e^eps / (e^eps + 1).
    v = np.arange(50, 100)
    ideal = special.logit(v / 100)
    assert 100 * special.expit(ideal[v == 75]) == pytest.approx(75)
    assert ideal[v == 75] == pytest.approx(math.log(3))
    for delta in (0.0, 1e-4):
        bounds = epsilon_lower_bounds(100, 100, v, delta=delta, confidence=0.95)
        assert np.all(bounds[1:] < ideal[1:])
        positive = bounds[bounds > 0]
        assert np.all(np.diff(positive) > 0)
    # 59 right are the first to prove anything at delta 0: P(Bin(100, 1/2) >= 59) = 0.0443.
    bounds = epsilon_lower_bounds(100, 100, v, delta=0.0, confidence=0.95)
    assert v[bounds > 0][0] == 59


def test_figure_10():
    # 98.2 % of the guesses right, rounded down: with 10,000, epsilon >= 3.87; close to 4.
    share = special.expit(4.0)
    assert round(100 * share, 1) == 98.2
    for delta in (0.0, 1e-6, 1e-5):
        found = epsilon_lower_bound(10_000, 10_000, math.floor(10_000 * share), delta, 0.95)
        assert 3.87 <= found < 3.88
    # "The lower bound improves as we increase the number of guesses"; the lines are jagged.
    r = np.array([100, 1000, 10_000, 100_000, 1_000_000])
    right = np.floor(r * share).astype(int)
    bounds = [
        epsilon_lower_bound(int(n), int(n), int(k), 0.0, 0.95)
        for n, k in zip(r, right, strict=True)
    ]
    assert np.all(np.diff(bounds) > 0)
    assert 3.98 < bounds[-1] < 4
    r = np.arange(900, 1000)
    jagged = [epsilon_lower_bound(int(n), int(n), math.floor(n * share), 0.0, 0.95) for n in r]
    assert np.any(np.diff(jagged) < 0)


def right_guesses(r: int) -> int:
    """Figure 11: ceil(r P(S = 1 | S + xi > c)) with P(S + xi > c) = r / (2 m)."""

    def above(sign: int, c: float) -> float:
        return float(special.ndtr((sign - c) / 2)) / 2

    c = optimize.brentq(lambda c: above(1, c) + above(-1, c) - r / (2 * M), -20, 20, xtol=1e-14)
    return math.ceil(r * above(1, c) / (r / (2 * M)))


def test_figure_11():
    assert right_guesses(1510) == 1439
    assert epsilon_of_sigma(SIGMA, 1e-5) == pytest.approx(4.38, abs=5e-3)
    # "The highest value of the lower bound is 2.675, attained by 1439 out of 1510": true of the
    # multiples of 10. Over all even r, 1469 out of 1542 give 1e-4 more, still printed as 2.675.
    r = np.arange(2, 5000, 2)
    right = np.array([right_guesses(int(k)) for k in r])
    bounds = epsilon_lower_bounds(M, r, right, delta=1e-5, confidence=0.95)
    best, tens = int(np.argmax(bounds)), r % 10 == 0
    assert (r[best], right[best]) == (1542, 1469)
    assert r[tens][np.argmax(bounds[tens])] == 1510
    assert 2.675 < bounds[r == 1510][0] < bounds[best] < 2.676
    # "If we make more guesses, the accuracy goes down and so does our lower bound."
    assert bounds[-1] < bounds[best] - 0.1
    assert right[-1] / r[-1] < right[best] / r[best]


def test_figure_11_gap_in_delta():
    # "To get a matching upper bound we would need delta = 0.0039334", a factor of 393. That is
    # matched by the unrounded bound, 2.67585.
    found = epsilon_lower_bound(M, 1510, 1439, 1e-5, 0.95)
    assert epsilon_of_sigma(SIGMA, 0.0039334) == pytest.approx(found, abs=1e-5)
    assert round(0.0039334 / 1e-5) == 393


def test_figure_12():
    # 1,500 guesses of which 1,429 are right; varying delta, at 75, 95 and 99 %.
    assert right_guesses(1500) == 1429
    deltas = np.logspace(-9, -3, 25)
    bounds = {
        confidence: np.array(
            [
                float(epsilon_lower_bounds(M, 1500, 1429, delta=delta, confidence=confidence))
                for delta in deltas
            ]
        )
        for confidence in (0.75, 0.95, 0.99)
    }
    upper = np.array([epsilon_of_sigma(SIGMA, delta) for delta in deltas])
    assert np.all(bounds[0.99] <= bounds[0.95])
    assert np.all(bounds[0.95] <= bounds[0.75])
    assert np.all(bounds[0.75] < upper)
    for values in (*bounds.values(), upper):
        assert np.all(np.diff(values) <= 0)
    # "The upper bound also increases as delta -> 0", while the lower one levels off.
    assert upper[0] > upper[12] + 1
    assert bounds[0.95][0] < bounds[0.95][12] + 0.02


def test_sharp_bound_narrows_figure_11():
    # What is left of the 1.70 between 2.675 and 4.38 with the sharp delta term: 1.58.
    def rejects(epsilon: float) -> bool:
        p = sharp_p_values(M, np.array([1510]), np.array([1439]), epsilon, 1e-5)
        return bool(p[0] < 0.05)

    assert rejects(2.79)
    assert not rejects(2.81)
    assert p_value(M, 1510, 1439, 2.79, 1e-5) > 0.05
