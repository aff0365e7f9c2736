"""The exact worst case against linear programs over all mechanisms, and against Corollary 5.4."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import (
    binomial_probability,
    delta_factors,
    epsilon_lower_bound,
    p_value,
    p_values,
    sharp_epsilon_lower_bound,
    sharp_p_values,
)


def sharp(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    return float(sharp_p_values(m, np.array([r]), np.array([v]), epsilon, delta)[0])


def worst_mechanism(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The largest mean chance of v right guesses of r over all (epsilon, delta)-DP mechanisms.

    A linear program in P(t | s) for all coins s in {-1, 1}^m and guesses t in {-1, 0, 1}^m with r
    guesses, and in the excess of P(t | s) over e^epsilon P(t | s') for all neighbours s, s'.
    """
    coins = list(itertools.product([-1, 1], repeat=m))
    guesses = [t for t in itertools.product([-1, 0, 1], repeat=m) if np.abs(t).sum() == r]
    place = {pair: i for i, pair in enumerate(itertools.product(coins, guesses))}
    neighbours = [(s, (*s[:i], -s[i], *s[i + 1 :])) for s in coins for i in range(m)]
    size = len(place) + len(neighbours) * len(guesses)
    rows, limits = [], []
    excess = len(place)
    for s, other in neighbours:
        for t in guesses:
            row = np.zeros(size)
            row[place[s, t]], row[place[other, t]], row[excess] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0.0)
            excess += 1
        row = np.zeros(size)
        row[excess - len(guesses) : excess] = 1
        rows.append(row)
        limits.append(delta)
    sums = np.zeros((len(coins), size))
    gain = np.zeros(size)
    for (s, t), i in place.items():
        sums[coins.index(s), i] = 1
        gain[i] = (np.multiply(s, t) > 0).sum() >= v
    solved = optimize.linprog(
        -gain / len(coins), np.array(rows), limits, sums, np.ones(len(coins)), method="highs"
    )
    return -float(solved.fun)


@pytest.mark.parametrize(("m", "r", "v"), [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
def test_no_mechanism_is_worse_and_one_is_as_bad(m, r, v, epsilon, delta):
    assert sharp(m, r, v, epsilon, delta) == pytest.approx(
        worst_mechanism(m, r, v, epsilon, delta), abs=1e-9
    )


def worst_of_symmetric(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The same for mechanisms that treat canaries and coins alike, as one of the worst does.

    Only w_k, the chance of k right guesses, remains; two neighbours' outputs differ in k by one.
    """
    k = np.arange(1, r + 1)
    more = np.zeros((r, r + 1))  # a right guess that would be wrong at the neighbour's coins
    more[k - 1, k], more[k - 1, k - 1] = k, -math.exp(epsilon) * (r - k + 1)
    fewer = np.zeros((r, r + 1))  # and the other way round
    fewer[k - 1, k - 1], fewer[k - 1, k] = r - k + 1, -math.exp(epsilon) * k
    excess = np.block([[more, -np.eye(r), np.zeros((r, r))], [fewer, np.zeros((r, r)), -np.eye(r)]])
    budget = np.concatenate([np.zeros(r + 1), np.ones(2 * r)])
    gain = np.zeros(3 * r + 1)
    gain[v : r + 1] = 1
    solved = optimize.linprog(
        -gain,
        np.vstack([excess, budget]),
        np.append(np.zeros(2 * r), m * delta),
        [np.append(np.ones(r + 1), np.zeros(2 * r))],
        [1],
        method="highs",
    )
    return -float(solved.fun)


@pytest.mark.parametrize(("m", "r", "v"), [(10, 10, 8), (40, 20, 11), (40, 40, 33), (100, 8, 8)])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_exact_for_more_canaries(m, r, v, epsilon, delta):
    assert sharp(m, r, v, epsilon, delta) == pytest.approx(
        worst_of_symmetric(m, r, v, epsilon, delta), abs=1e-8
    )


def test_corollary_5_4_is_exceeded_by_a_mechanism():
    # m = r = 2, v = 1, epsilon = 1, delta = 0.1. With probability w, randomised response given
    # that one answer at least is right; else plain randomised response.
    epsilon, delta, right = 1.0, 0.1, float(special.expit(1.0))
    plain = {
        c: math.prod(right if answer else 1 - right for answer in c)
        for c in itertools.product([0, 1], repeat=2)
    }
    w = delta * (1 - plain[0, 0]) / plain[1, 0]
    law = {c: (1 - w) * p + w * any(c) * p / (1 - plain[0, 0]) for c, p in plain.items()}
    assert 0 < w < 1
    assert sum(law.values()) == pytest.approx(1, abs=1e-15)
    # The neighbour with one coin flipped sees the same guesses, one of them right instead of wrong.
    for flip in (lambda c: (1 - c[0], c[1]), lambda c: (c[0], 1 - c[1])):
        excess = sum(max(p - math.exp(epsilon) * law[flip(c)], 0) for c, p in law.items())
        assert excess == pytest.approx(delta, abs=1e-15)  # so it is (epsilon, delta)-DP
    reached = 1 - law[0, 0]
    assert reached == pytest.approx(sharp(2, 2, 1, epsilon, delta), abs=1e-15)
    assert reached == pytest.approx(0.9618, abs=5e-5)
    assert p_value(2, 2, 1, epsilon, delta) == pytest.approx(0.9566, abs=5e-5)


@pytest.mark.parametrize("r", [1, 5, 30, 200, 3000])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_corollary_5_4_holds_where_it_matters(r, epsilon):
    # Up to a chance of one half under epsilon-DP.
    v = np.arange(1, r + 1)
    totals = np.full(r, r)
    exact = sharp_p_values(r, totals, v, epsilon, 1e-3)
    tail = sharp_p_values(r, totals, v, epsilon, 0.0) < 0.5
    printed = p_values(r, totals, v, epsilon, 1e-3)
    assert np.all(exact[tail] <= printed[tail] * (1 + 1e-9))


def test_factor_of_delta_is_this_much_smaller_at_the_5_percent_level():
    # 2 max_i (f(v - i) - f(v)) / i of Corollary 5.4, over the exact factor, for 1,000 guesses.
    for epsilon, times in ((0.0, 2.6), (2.0, 10.9), (4.0, 72)):
        v = np.array([int(stats.binom.isf(0.05, 1000, special.expit(epsilon))) + 1])
        r = np.array([1000])
        printed = p_values(1000, r, v, epsilon, 1e-9) - p_values(1000, r, v, epsilon, 0.0)
        ratio = printed / (1000 * 1e-9 * delta_factors(r, v, epsilon))
        assert ratio[0] == pytest.approx(times, rel=0.02)


def test_all_right_however_unlikely():
    # f(r) = p^r underflows; the factor is 1 / r.
    r = np.array([10, 10_000, 1_000_000])
    assert delta_factors(r, r, 0.0)[1:] == pytest.approx(1 / r[1:], rel=1e-9)
    assert delta_factors(r, r, 0.0)[0] == pytest.approx((1 - 2.0**-10) / 10, rel=1e-12)
    assert np.all(np.isfinite(delta_factors(r, r - 1, 50.0)))
    assert np.all(np.isfinite(delta_factors(r, r, 800.0)))


@pytest.mark.parametrize("epsilon", [0.0, 1.5, 20.0])
def test_binomial_probabilities(epsilon):
    k = np.arange(51)
    p, q = special.expit(epsilon), special.expit(-epsilon)
    exact = [math.comb(50, i) * p**i * q ** (50 - i) for i in k.tolist()]
    assert binomial_probability(np.full(51, 50), k, epsilon) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("counts", [(100, 100, 75), (1000, 100, 75), (10**6, 1000, 990)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
def test_the_bound_is_where_the_p_value_reaches_alpha(counts, delta):
    m, r, v = counts
    bound = sharp_epsilon_lower_bound(m, r, v, delta, 0.95)
    assert bound >= epsilon_lower_bound(m, r, v, delta, 0.95) - 1e-8
    if bound > 0:
        p = sharp_p_values(m, np.array([r]), np.array([v]), bound, delta)[0]
        assert p == pytest.approx(0.05, rel=1e-5)


def test_the_bound_at_the_edges():
    assert sharp_epsilon_lower_bound(5, 0, 0, 0.0, 0.95) == 0
    assert sharp_epsilon_lower_bound(5, 5, 5, 0.3, 0.95) == 0
    with pytest.raises(InputError, match="correct"):
        sharp_epsilon_lower_bound(5, 4, 5, 0.0, 0.95)
