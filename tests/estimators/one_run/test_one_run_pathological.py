"""Algorithm 4 is private as claimed, its law is exact, and it comes near to Theorem 5.2."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import (
    PathologicalMechanism,
    binomial_tail,
    epsilon_lower_bound,
    p_value,
    p_values,
    sharp_p_values,
    worst_beta,
)


def output_law(mechanism: PathologicalMechanism, signs: tuple[int, ...]) -> dict:
    """The law of T, from the steps of Algorithm 4."""
    m, r, beta = mechanism.num_canaries, mechanism.num_guesses, mechanism.beta
    p = 1 / (1 + math.exp(-mechanism.epsilon))
    x = m * mechanism.delta / (r * beta)
    law: dict[tuple[int, ...], float] = {}
    for drawn in itertools.combinations(range(m), r):
        for case, right in ((beta, x + (1 - x) * p), (1 - beta, p)):
            for said in itertools.product([1, -1], repeat=r):
                t = [0] * m
                chance = case / math.comb(m, r)
                for i, truth in zip(drawn, said, strict=True):
                    t[i] = signs[i] * truth
                    chance *= right if truth == 1 else 1 - right
                law[tuple(t)] = law.get(tuple(t), 0.0) + chance
    return law


CASES = [(2, 2, 0.5, 0.1, 0.3), (3, 2, 1.0, 0.05, 0.1), (3, 1, 0.0, 0.1, 0.4), (4, 3, 2.0, 0.01, 1)]


@pytest.mark.parametrize("fields", CASES)
def test_it_is_private(fields):
    mechanism = PathologicalMechanism(*fields)
    signs = (1,) * mechanism.num_canaries
    law = output_law(mechanism, signs)
    assert sum(law.values()) == pytest.approx(1)
    flipped = output_law(mechanism, (-1, *signs[1:]))
    for p, q in ((law, flipped), (flipped, law)):
        excess = sum(max(p[t] - math.exp(mechanism.epsilon) * q[t], 0) for t in p)
        assert excess <= mechanism.delta * (1 + 1e-9)


@pytest.mark.parametrize("fields", CASES)
def test_tail_is_that_of_the_steps(fields):
    mechanism = PathologicalMechanism(*fields)
    signs = (1, -1, 1, -1)[: mechanism.num_canaries]
    law = output_law(mechanism, signs)
    for v in range(mechanism.num_guesses + 2):
        exact = sum(
            chance for t, chance in law.items()
            if sum(a == b for a, b in zip(t, signs, strict=True)) >= v
        )  # fmt: skip
        assert float(mechanism.tail(v)) == pytest.approx(exact, abs=1e-12)


def test_simulated_runs_follow_the_tail():
    # Each frequency is within the exact binomial limits of probability 1e-7 on either side.
    rng, runs = np.random.default_rng(8), 5000
    mechanism = PathologicalMechanism(100, 20, 1.0, 0.002, 0.1)
    signs = rng.choice([-1, 1], (runs, 100))
    T = np.array([mechanism.guesses(s, rng) for s in signs])
    assert np.all(np.count_nonzero(T, axis=1) == 20)
    right = np.sum(signs == T, axis=1)
    for v in (12, 15, 17, 19):
        chance = float(mechanism.tail(v))
        low, high = stats.binom.isf([1 - 1e-7, 1e-7], runs, chance)
        assert low <= np.sum(right >= v) <= high
    # Each canary is guessed about equally often.
    assert stats.chisquare(np.count_nonzero(T, axis=0)).pvalue > 1e-6


@pytest.mark.parametrize("delta", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("m", "r"), [(1000, 1000), (1000, 100), (100, 30)])
def test_bounds_hold_on_it(m, r, epsilon, delta):
    # Exactly: the chance that v reaches the least number that rejects epsilon at 95 %.
    v = np.arange(1, r + 1)
    p = p_values(m, np.full(r, r), v, epsilon, delta)
    rejecting = v[p < 0.05]
    if len(rejecting):
        worst = worst_beta(m, r, int(rejecting[0]), epsilon=epsilon, delta=delta)
        assert float(worst.tail(rejecting[0])) <= p[p < 0.05][0] < 0.05


def least_rejecting(m: int, r: int, epsilon: float, delta: float) -> int:
    p = p_values(m, np.full(r + 1, r), np.arange(r + 1), epsilon, delta)
    return int(np.flatnonzero(p < 0.05)[0])


def share_reached(m: int, r: int, *, epsilon: float, delta: float) -> tuple[float, float]:
    """What Algorithm 4 reaches of the delta term of Theorem 5.2, and of the sharp one, at 5 %."""
    v = least_rejecting(m, r, epsilon, delta)
    counts = np.array([r]), np.array([v])
    chance = float(binomial_tail(*counts, epsilon)[0])
    reached = float(worst_beta(m, r, v, epsilon=epsilon, delta=delta).tail(v)) - chance
    sharp = float(sharp_p_values(m, *counts, epsilon, delta)[0])
    return reached / (p_value(m, r, v, epsilon, delta) - chance), reached / (sharp - chance)


def test_it_reaches_two_thirds_of_the_sharp_bound_and_less_of_theorem_5_2():
    # Section 7 says "there is little room to improve Theorem 5.2", for Algorithm 4. At the 5 %
    # level, of what delta adds to the p-value, Algorithm 4 reaches a quarter at epsilon 0, a
    # seventh at 1 and a hundredth at 4. Of what it adds in the sharp bound, two thirds and more.
    of_printed, of_sharp = zip(
        *(share_reached(1000, 1000, epsilon=e, delta=1e-5) for e in (0.0, 1.0, 2.0, 4.0)),
        strict=True,
    )
    assert of_printed == pytest.approx((0.250, 0.136, 0.061, 0.010), abs=2e-3)
    assert of_sharp == pytest.approx((0.657, 0.663, 0.671, 0.726), abs=2e-3)


def test_delta_counts_as_many_times_as_the_paper_says():
    # Section 7: in the bad case m delta / (r beta) more are right, on the order of 100 to 1000
    # times delta "in the settings we consider": m = 100,000 and r = 1,500 at 95 % confidence.
    mechanism = PathologicalMechanism(100_000, 1500, 2.0, 1e-5, 0.05)
    assert mechanism.revealed / 1e-5 == pytest.approx(1333.3, abs=0.1)
    p = special.expit(2.0)
    x = mechanism.revealed
    assert special.expit(mechanism.bad_logit()) == pytest.approx(x + (1 - x) * p, rel=1e-12)


def test_a_simulated_audit_is_valid():
    # 95 % bounds on 3,000 runs exceed epsilon 1 at most so often (limit: chance 1e-6).
    rng, runs, m, r, delta = np.random.default_rng(3), 3000, 100, 50, 1e-3
    v = least_rejecting(m, r, 1.0, delta)
    mechanism = worst_beta(m, r, v, epsilon=1.0, delta=delta)
    signs = rng.choice([-1, 1], (runs, m))
    right = [int(np.sum(mechanism.guesses(s, rng) == s)) for s in signs]
    bound = {k: epsilon_lower_bound(m, r, k, delta, 0.95) for k in set(right)}
    failures = sum(bound[k] > 1.0 for k in right)
    assert 0 < failures <= stats.binom.isf(1e-6, runs, 0.05)


def test_extremes():
    all_told = PathologicalMechanism(10, 5, 1.0, 0.25, 0.5)
    assert all_told.revealed == 1
    assert all_told.tail([0, 5]) == pytest.approx([1.0, 0.5 + 0.5 * special.expit(1.0) ** 5])
    without = PathologicalMechanism(10, 5, 50.0, 0.0, 1.0)
    assert float(without.tail(5)) == pytest.approx(1.0)


def test_refuses():
    with pytest.raises(InputError, match="beta must be at least"):
        PathologicalMechanism(100, 10, 1.0, 0.01, 0.05)
    with pytest.raises(InputError, match=r"beta must be in \(0, 1\]"):
        PathologicalMechanism(100, 10, 1.0, 0.0, 0.0)
    with pytest.raises(InputError, match="guesses"):
        PathologicalMechanism(100, 0, 1.0, 0.0, 0.5)
    with pytest.raises(InputError, match="signs"):
        PathologicalMechanism(3, 1, 1.0, 0.0, 0.5).guesses(
            np.array([0, 1, 1]), np.random.default_rng(0)
        )
