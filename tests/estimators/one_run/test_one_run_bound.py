"""The one-run test against the paper's numbers, exact arithmetic and exact coverage."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value, p_values


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


def test_p_value_printed_in_the_paper():
    assert p_value(100, 100, 75, math.log(3), 0.0) == pytest.approx(0.553, abs=5e-4)


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


@pytest.mark.parametrize("odds", [1, 2, 7, 1000])
@pytest.mark.parametrize("delta", ["0", "1/100000", "1/1000", "1/20"])
@pytest.mark.parametrize(("m", "r"), [(1, 1), (5, 3), (12, 12), (40, 25)])
def test_p_value_in_rational_arithmetic(m, r, odds, delta):
    for v in range(r + 1):
        exact = float(exact_p_value(m, r, v, odds, Fraction(delta)))
        found = p_value(m, r, v, math.log(odds), float(Fraction(delta)))
        assert found == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("v", [700_000, 701_000, 720_000])
def test_million_guesses_match_scipy(v):
    epsilon = math.log(7 / 3)
    expected = stats.binom.sf(v - 1, 1_000_000, 0.7)
    assert p_value(1_000_000, 1_000_000, v, epsilon, 0.0) == pytest.approx(expected, rel=1e-8)


def test_steepest_mean_matches_a_running_mean():
    # The definition, over 1,000 values of i, where the unimodality argument needs 10 steps.
    r, v, epsilon, m, delta = 2000, 1500, 0.8, 5000, 1e-6
    below = stats.binom.pmf(np.arange(v - 1, -1, -1), r, 1 / (1 + math.exp(-epsilon)))
    steepest = np.max(np.cumsum(below) / np.arange(1, v + 1))
    tail = stats.binom.sf(v - 1, r, 1 / (1 + math.exp(-epsilon)))
    expected = tail + 2 * m * delta * steepest
    assert p_value(m, r, v, epsilon, delta) == pytest.approx(expected, rel=1e-9)


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


def test_all_right_has_a_closed_form():
    # q^r = 0.05
    q = 0.05 ** (1 / 1_000_000)
    expected = math.log(q / -math.expm1(math.log(0.05) / 1_000_000))
    found = epsilon_lower_bound(10**6, 10**6, 10**6, 0.0, 0.95)
    assert found == pytest.approx(expected, rel=1e-9)


def test_monotone_in_each_argument():
    def increases(values):
        return np.all(np.diff(values) > 0)

    assert increases([epsilon_lower_bound(200, 100, v, 1e-5, 0.95) for v in range(65, 101, 5)])
    assert increases([epsilon_lower_bound(200, r, 80, 1e-5, 0.95) for r in (110, 100, 90, 80)])
    assert increases([epsilon_lower_bound(m, 100, 80, 1e-5, 0.95) for m in (10_000, 1000, 100)])
    assert increases([epsilon_lower_bound(200, 100, 80, d, 0.95) for d in (1e-3, 1e-4, 1e-5, 0)])
    assert increases([epsilon_lower_bound(200, 100, 80, 1e-5, c) for c in (0.999, 0.99, 0.9)])


def test_chance_guesses_prove_nothing():
    assert epsilon_lower_bound(100, 100, 50, 0.0, 0.95) == 0.0
    assert epsilon_lower_bound(100, 0, 0, 0.0, 0.95) == 0.0
    assert p_value(100, 0, 0, 0.0, 1e-3) == 1.0


def test_large_delta_gives_up():
    assert p_value(1000, 100, 100, 0.0, 0.5) == 1.0
    assert epsilon_lower_bound(1000, 100, 100, 0.5, 0.95) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("r", [20, 500])
def test_coverage_on_randomised_response_is_exact(r, epsilon):
    # Randomised response on r bits makes v exactly binomial, the worst case: the chance that the
    # bound exceeds epsilon is a sum, at most 5 % and, for many guesses, close to it.
    v = np.arange(r + 1)
    rejected = p_values(r, np.full(r + 1, r), v, epsilon, 0.0) < 0.05
    failure = stats.binom.pmf(v, r, 1 / (1 + math.exp(-epsilon)))[rejected].sum()
    assert failure <= 0.05
    assert r < 500 or failure > 0.03


@pytest.mark.parametrize(
    "arguments", [(0, 0, 0), (10, 11, 3), (10, -1, 0), (10, 5, 6), (10, 5, -1)]
)
def test_refuses_impossible_counts(arguments):
    with pytest.raises(InputError, match="must be"):
        p_value(*arguments, 1.0, 0.0)
    with pytest.raises(InputError, match="must be"):
        epsilon_lower_bound(*arguments, 0.0, 0.95)


@pytest.mark.parametrize("epsilon", [-0.1, math.inf, math.nan])
def test_refuses_epsilon(epsilon):
    with pytest.raises(InputError, match="epsilon must be"):
        p_value(10, 5, 3, epsilon, 0.0)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_refuses_confidence(confidence):
    with pytest.raises(InputError, match="confidence must be"):
        epsilon_lower_bound(10, 5, 3, 0.0, confidence)
