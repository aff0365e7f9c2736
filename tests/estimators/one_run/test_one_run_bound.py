"""The one-run test against the paper's numbers, exact arithmetic and exact coverage."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import (
    PathologicalMechanism,
    delta_factors,
    epsilon_lower_bound,
    p_value,
    p_values,
    sharp_epsilon_lower_bound,
    sharp_p_values,
)


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        (100, 100, 75, 0.0, 0.702),
        (100, 100, 75, 1e-4, 0.699),
        (1000, 100, 75, 1e-4, 0.673),
        (100_000, 1510, 1439, 1e-5, 2.675),
    ],
)
def test_numbers_printed_in_the_paper(m, r, v, delta, expected):
    # Steinke et al., appendix D and Figure 11; printed bounds are rounded down.
    found = epsilon_lower_bound(m, r, v, delta, 0.95)
    assert expected - 1e-4 < found < expected + 1e-3


def exact_p_value(m: int, r: int, v: int, odds: int, delta: Fraction) -> Fraction:
    """Corollary 5.4 at e^epsilon = odds, with the maximum over all i in 1..m."""
    chances = [
        Fraction(math.comb(r, k) * odds**k, (1 + odds) ** r) if 0 <= k <= r else Fraction(0)
        for k in range(r + 1)
    ]

    def tail(k: int) -> Fraction:
        return sum(chances[max(k, 0) :], Fraction(0))

    steepest = max((tail(v - i) - tail(v)) / i for i in range(1, m + 1))
    return min(tail(v) + 2 * m * delta * steepest, Fraction(1))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("odds", [1, 2, 7, 1000])
@pytest.mark.parametrize("delta", ["0", "1/100000", "1/1000", "1/20"])
@pytest.mark.parametrize(("m", "r"), [(1, 1), (5, 3), (12, 12), (40, 25)])
def test_p_value_in_rational_arithmetic(m, r, odds, delta):
    for v in range(r + 1):
        exact = float(exact_p_value(m, r, v, odds, Fraction(delta)))
        found = p_value(m, r, v, math.log(odds), float(Fraction(delta)))
        assert found == pytest.approx(exact, rel=1e-11)


def test_million_guesses_match_scipy():
    v, epsilon = 701_000, math.log(7 / 3)
    expected = stats.binom.sf(v - 1, 1_000_000, 0.7)
    assert p_value(1_000_000, 1_000_000, v, epsilon, 0.0) == pytest.approx(expected, rel=1e-8)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("delta", [0.0, 1e-12, 1e-5])
@pytest.mark.parametrize(("r", "v"), [(100, 75), (1000, 1000), (60_000, 59_000), (10, 10)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
def test_bound_is_where_the_p_value_crosses(r, v, delta, confidence):
    m = r + 7
    bound = epsilon_lower_bound(m, r, v, delta, confidence)
    if bound == 0:
        assert p_value(m, r, v, 0.0, delta) >= 1 - confidence
    else:
        assert p_value(m, r, v, bound * (1 + 1e-9), delta) >= 1 - confidence
        assert p_value(m, r, v, bound * (1 - 1e-9), delta) < 1 - confidence


@pytest.mark.parametrize(("r", "epsilon"), [(20, 0.5), (500, 0.0), (500, 2.0)])
def test_coverage_on_randomised_response_is_exact(r, epsilon):
    # Randomised response on r bits makes v exactly binomial, the worst case: the chance that the
    # bound exceeds epsilon is a sum, at most 5 % and, for many guesses, close to it.
    v = np.arange(r + 1)
    rejected = p_values(r, np.full(r + 1, r), v, epsilon, 0.0) < 0.05
    failure = stats.binom.pmf(v, r, 1 / (1 + math.exp(-epsilon)))[rejected].sum()
    assert failure <= 0.05
    assert r < 500 or failure > 0.03


# The exact worst case against a linear program over all mechanisms, and against Corollary 5.4.


def sharp(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    return float(sharp_p_values(m, np.array([r]), np.array([v]), epsilon, delta)[0])


def worst_of_symmetric(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The largest chance of v right guesses of r over all (epsilon, delta)-DP mechanisms.

    One of the worst treats canaries and coins alike, so that only w_k, the chance of k right
    guesses, remains: a linear program. Two neighbours' outputs differ in k by one.
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


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("m", "r", "v"), [(2, 2, 1), (3, 3, 2), (10, 10, 8), (40, 20, 11), (40, 40, 33), (100, 8, 8)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_no_mechanism_is_worse_and_one_is_as_bad(m, r, v, epsilon, delta):
    assert sharp(m, r, v, epsilon, delta) == pytest.approx(
        worst_of_symmetric(m, r, v, epsilon, delta), abs=1e-8
    )


def test_corollary_5_4_is_exceeded_by_a_mechanism():
    case = (2, 2, 1, 1.0, 0.1)
    assert worst_of_symmetric(*case) == pytest.approx(0.9618, abs=5e-5)
    assert p_value(*case) == pytest.approx(0.9566, abs=5e-5)


def test_all_right_however_unlikely():
    # f(r) = p^r underflows; the factor is 1 / r.
    r = np.array([10, 10_000, 1_000_000])
    assert delta_factors(r, r, 0.0)[1:] == pytest.approx(1 / r[1:], rel=1e-9)
    assert delta_factors(r, r, 0.0)[0] == pytest.approx((1 - 2.0**-10) / 10, rel=1e-12)
    assert np.all(np.isfinite(delta_factors(r, r - 1, 50.0)))
    assert np.all(np.isfinite(delta_factors(r, r, 800.0)))


@pytest.mark.parametrize(("r", "epsilon"), [(1, 0.5), (30, 0.0), (200, 6.0), (3000, 2.0)])
def test_corollary_5_4_holds_where_it_matters(r, epsilon):
    # Up to a chance of one half under epsilon-DP.
    v = np.arange(1, r + 1)
    totals = np.full(r, r)
    exact = sharp_p_values(r, totals, v, epsilon, 1e-3)
    tail = sharp_p_values(r, totals, v, epsilon, 0.0) < 0.5
    printed = p_values(r, totals, v, epsilon, 1e-3)
    assert np.all(exact[tail] <= printed[tail] * (1 + 1e-9))


@pytest.mark.parametrize("counts", [(100, 100, 75), (1000, 100, 75), (10**6, 1000, 990)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
def test_the_bound_is_where_the_p_value_reaches_alpha(counts, delta):
    m, r, v = counts
    bound = sharp_epsilon_lower_bound(m, r, v, delta, 0.95)
    assert sharp_epsilon_lower_bound(m, 0, 0, delta, 0.95) == 0
    assert bound >= epsilon_lower_bound(m, r, v, delta, 0.95) - 1e-8
    if bound > 0:
        p = sharp_p_values(m, np.array([r]), np.array([v]), bound, delta)[0]
        assert p == pytest.approx(0.05, rel=1e-5)


IMPOSSIBLE = [(0, 0, 0), (10, 11, 3), (10, -1, 0), (10, 5, 6), (10, 5, -1)]

# Algorithm 4, by its steps.


def output_law(mechanism: PathologicalMechanism, signs: tuple[int, ...]) -> dict:
    """The law of T, from the steps of Algorithm 4."""
    m, r, beta = mechanism.num_canaries, mechanism.num_guesses, mechanism.beta
    p = 1 / (1 + math.exp(-mechanism.epsilon))
    x = m * mechanism.delta / (r * beta)
    distribution: dict[tuple[int, ...], float] = {}
    for drawn in itertools.combinations(range(m), r):
        for case, right in ((beta, x + (1 - x) * p), (1 - beta, p)):
            for said in itertools.product([1, -1], repeat=r):
                t = [0] * m
                chance = case / math.comb(m, r)
                for i, truth in zip(drawn, said, strict=True):
                    t[i] = signs[i] * truth
                    chance *= right if truth == 1 else 1 - right
                distribution[tuple(t)] = distribution.get(tuple(t), 0.0) + chance
    return distribution


CASES = [(2, 2, 0.5, 0.1, 0.3), (3, 2, 1.0, 0.05, 0.1), (3, 1, 0.0, 0.1, 0.4), (4, 3, 2.0, 0.01, 1)]


@pytest.mark.parametrize("fields", CASES)
def test_tail_is_that_of_the_steps(fields):
    mechanism = PathologicalMechanism(*fields)
    signs = (1, -1, 1, -1)[: mechanism.num_canaries]
    distribution = output_law(mechanism, signs)
    for v in range(mechanism.num_guesses + 2):
        exact = sum(
            chance for t, chance in distribution.items()
            if sum(a == b for a, b in zip(t, signs, strict=True)) >= v
        )  # fmt: skip
        assert float(mechanism.tail(v)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        *((p_value, (*counts, 1.0, 0.0), "must be") for counts in IMPOSSIBLE),
        *((epsilon_lower_bound, (*counts, 0.0, 0.95), "must be") for counts in IMPOSSIBLE),
        (sharp_epsilon_lower_bound, (5, 4, 5, 0.0, 0.95), "correct"),
        (PathologicalMechanism, (100, 10, 1.0, 0.01, 0.05), "beta must be at least"),
        (PathologicalMechanism, (100, 10, 1.0, 0.0, 0.0), r"beta must be in \(0, 1\]"),
        (PathologicalMechanism, (100, 0, 1.0, 0.0, 0.5), "guesses"),
        (
            PathologicalMechanism(3, 1, 1.0, 0.0, 0.5).guesses,
            (np.array([0, 1, 1]), np.random.default_rng(0)),
            "signs",
        ),
    ],
)
def test_refuses(function, arguments, message):
    with pytest.raises(InputError, match=message):
        function(*arguments)
