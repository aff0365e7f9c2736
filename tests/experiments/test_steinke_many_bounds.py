"""Bounds for arrays of counts against the same one by one, the clock, and Corollary 5.8."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from experiments.steinke2023_figures.many_bounds import (
    dynamic_epsilon_bounds,
    dynamic_p_values,
    epsilon_lower_bounds,
)
from fl_audit.estimators.one_run.bound import epsilon_lower_bound


@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-5, 0.9])
@pytest.mark.parametrize(
    ("m", "confidence"), [(1, 0.95), (5, 0.05), (3000, 0.95), (10**6, 1 - 1e-9)]
)
def test_one_by_one(m, delta, confidence):
    rng = np.random.default_rng(m)
    r = np.append(rng.integers(0, m + 1, 7), m)
    v = np.rint(r * rng.uniform(0.4, 1, 8)).astype(int)
    v[0], v[1] = r[0], 0
    together = epsilon_lower_bounds(m, r, v, delta=delta, confidence=confidence)
    alone = [
        epsilon_lower_bound(m, *counts, delta, confidence)
        for counts in zip(r.tolist(), v.tolist(), strict=True)
    ]
    assert together == pytest.approx(np.array(alone), rel=1e-10, abs=1e-13)


# Corollary 5.8: by hand, against its own words, and coverage where the scores choose.


def test_all_right_by_hand():
    # 20 of 20 right, one of them given away, gamma = 0.05 - 2 * 100 * 1e-4 / 1 = 0.03. The chance
    # of 19 or more of 20 is 20 p^19 - 19 p^20.
    bound = dynamic_epsilon_bounds(100, 20, 20, delta=1e-4, confidence=0.95, tau=1)
    p = special.expit(bound)
    assert 20 * p**19 - 19 * p**20 == pytest.approx(0.03, rel=1e-9)
    found = dynamic_p_values(100, 20, 20, epsilon=float(bound), delta=1e-4, tau=1)
    assert found == pytest.approx(0.05, rel=1e-9)


@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=100)
def test_rejects_exactly_where_the_corollary_does(data):
    # P[v >= g(r, gamma) + tau] <= gamma + 2 m delta / tau, for g with P[Binomial >= g] <= gamma:
    # the least such g is just above the largest v' with P[Binomial >= v'] > gamma.
    m = data.draw(st.integers(1, 60))
    r = data.draw(st.integers(0, m))
    v = data.draw(st.integers(0, r))
    epsilon, gamma = data.draw(st.floats(0, 4)), data.draw(st.floats(0.001, 0.5))
    tau, delta = data.draw(st.floats(0.1, 5)), 1e-4
    p = special.expit(epsilon)
    above = max(k for k in range(r + 1) if stats.binom.sf(k - 1, r, p) > gamma)
    rejects = v - tau > above
    level = gamma + 2 * m * delta / tau
    found = float(dynamic_p_values(m, r, v, epsilon=epsilon, delta=delta, tau=tau))
    if level < 1 and abs(found - level) > 1e-9:
        assert (found <= level) == rejects
