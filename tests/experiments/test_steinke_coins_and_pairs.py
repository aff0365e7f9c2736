"""Other coins: exact arithmetic and the best mechanism there is; pairs: group privacy, coverage."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from experiments.steinke2023_bounds.coins_and_pairs import (
    included_logit,
    inclusion_epsilon_lower_bound,
    inclusion_p_value,
    paired_one_run,
    printed_inclusion_p_value,
    replacement_parameters,
    right_guesses_tail,
)
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value, p_values, sharp_p_values
from fl_audit.estimators.one_run.guesses import Guesses, right_among_surest
from fl_audit.estimators.scores import CanaryScores

pair_scores = functools.partial(CanaryScores, inclusion="pairs")


def exact_tail(k_plus: int, k_minus: int, v: int, odds: int, inclusion: Fraction) -> Fraction:
    p = inclusion * odds / (inclusion * odds + 1 - inclusion)
    q = (1 - inclusion) * odds / ((1 - inclusion) * odds + inclusion)
    return sum(
        (
            math.comb(k_plus, a) * p**a * (1 - p) ** (k_plus - a)
            * math.comb(k_minus, b) * q**b * (1 - q) ** (k_minus - b)
            for a in range(k_plus + 1)
            for b in range(k_minus + 1)
            if a + b >= v
        ),
        Fraction(0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("k_plus", "k_minus", "inclusion", "odds"),
    [(0, 7, "9/10", 3), (7, 0, "1/3", 3), (5, 12, "1/100", 1000), (20, 3, "1/2", 1)],
)
def test_law_in_rational_arithmetic(k_plus, k_minus, inclusion, odds):
    pi = Fraction(inclusion)
    guesses = Guesses(k_plus, k_minus, 0)
    needed = np.arange(k_plus + k_minus + 2)
    found = right_guesses_tail(guesses, needed, inclusion=float(pi), epsilon=math.log(odds))
    exact = [float(exact_tail(k_plus, k_minus, int(v), odds, pi)) for v in needed]
    assert found == pytest.approx(exact, rel=1e-10)


def best_chance(
    m: int, k_plus: int, k_minus: int, v: int, *, inclusion: float, epsilon: float, delta: float
) -> float:
    """The largest chance of v right guesses over ALL (epsilon, delta)-DP mechanisms.

    A linear program in M(t | s), with slacks for what (epsilon, delta) lets one input exceed
    another at each output.
    """
    inputs = list(itertools.product([-1, 1], repeat=m))
    outputs = [
        t for t in itertools.product([-1, 0, 1], repeat=m)
        if t.count(1) == k_plus and t.count(-1) == k_minus
    ]  # fmt: skip
    neighbours = [
        (a, b)
        for a, s in enumerate(inputs)
        for b, u in enumerate(inputs)
        if sum(x != y for x, y in zip(s, u, strict=True)) == 1
    ]
    n = len(outputs)
    size = len(inputs) * n + len(neighbours) * n
    gain, rows, limits, sums = np.zeros(size), [], [], []
    for a, s in enumerate(inputs):
        weight = inclusion ** s.count(1) * (1 - inclusion) ** s.count(-1)
        for j, t in enumerate(outputs):
            right = sum(x == y for x, y in zip(s, t, strict=True))
            gain[a * n + j] = weight * (right >= v)
        row = np.zeros(size)
        row[a * n : (a + 1) * n] = 1
        sums.append(row)
    for k, (a, b) in enumerate(neighbours):
        slack = (len(inputs) + k) * n
        for j in range(n):
            row = np.zeros(size)
            row[a * n + j], row[b * n + j], row[slack + j] = 1, -math.exp(epsilon), -1
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(size)
        row[slack : slack + n] = 1
        rows.append(row)
        limits.append(delta)
    found = optimize.linprog(
        -gain, A_ub=np.array(rows), b_ub=limits, A_eq=np.array(sums), b_eq=np.ones(len(sums))
    )
    assert found.success
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.0, 2.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize(
    ("counts", "inclusion"), [((2, 1, 1), 0.2), ((3, 2, 0), 0.7), ((2, 0, 2), 0.2)]
)
def test_no_mechanism_exceeds_the_p_value(counts, inclusion, delta, epsilon):
    m, k_plus, k_minus = counts
    for v in range(1, k_plus + k_minus + 1):
        null = {"inclusion": inclusion, "epsilon": epsilon, "delta": delta}
        best = best_chance(m, k_plus, k_minus, v, **null)
        assert best <= inclusion_p_value(m, Guesses(k_plus, k_minus, v), **null) + 1e-7


def test_printed_proposition_5_7_is_refuted_by_randomised_response():
    # It says p e^-eps / (p e^-eps + 1 - p), its proof p e^eps / (p e^eps + 1 - p). Let a canary be
    # included with p = 1/2, and its bit be released truly with probability 3/4: (log 3, 0)-DP.
    # Released "included", it was so with probability 3/4, where the statement allows only 1/4.
    p, epsilon = 0.5, math.log(3)
    right_if_said_included = (p * 0.75) / (p * 0.75 + (1 - p) * 0.25)
    as_stated = p * math.exp(-epsilon) / (p * math.exp(-epsilon) + 1 - p)
    as_proved = 1 / (1 + math.exp(-included_logit(p, epsilon)))
    assert as_stated == pytest.approx(0.25)
    assert right_if_said_included == pytest.approx(0.75) == as_proved


@pytest.mark.parametrize(("k_plus", "k_minus", "v"), [(100, 0, 75), (30, 70, 81), (0, 50, 50)])
def test_half_is_corollary_5_4(k_plus, k_minus, v):
    seen, r = Guesses(k_plus, k_minus, v), k_plus + k_minus
    for delta in (0.0, 1e-5, 1e-3):
        null = {"epsilon": 0.7, "delta": delta}
        printed = printed_inclusion_p_value(300, seen, inclusion=0.5, **null)
        assert printed == pytest.approx(p_value(300, r, v, **null), rel=1e-9)
        assert inclusion_p_value(300, seen, inclusion=0.5, **null) <= printed * (1 + 1e-9)
    found = inclusion_epsilon_lower_bound(300, seen, inclusion=0.5, delta=0.0, confidence=0.95)
    assert found == pytest.approx(epsilon_lower_bound(300, r, v, 0.0, 0.95), abs=3e-9)


# Pairs of which one is included: guesses from scores, group privacy, coverage.


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_estimate_is_corollary_5_4_on_pairs(delta):
    rng = np.random.default_rng(1)
    scores = pair_scores(rng.normal(2, 1, 300), rng.normal(0, 1, 300))
    made = paired_one_run(scores, delta=delta, confidence=0.95, guesses=100)
    v = int(right_among_surest(scores)[100])
    by_corollary = epsilon_lower_bound(300, 100, v, delta, 0.95)
    assert made.details["epsilon_by_corollary_5_4"] == by_corollary > 1
    assert made.epsilon == pytest.approx(by_corollary, abs=2e-9) or delta > 0
    assert made.epsilon >= by_corollary - 2e-9
    sharp = sharp_p_values(300, np.array([100]), np.array([v]), made.epsilon, delta)
    assert float(sharp[0]) == pytest.approx(0.05, rel=1e-6)
    assert (made.details["m"], made.details["guesses"], made.details["correct"]) == (300, 100, v)
    assert "replacement" in made.guarantee
    add_remove = made.details["epsilon_add_or_remove"]
    assert delta == 0 or add_remove < made.epsilon / 2
    assert delta > 0 or add_remove == pytest.approx(made.epsilon / 2, abs=2e-9)


def test_group_privacy_by_brute_force():
    # M(present) over three outputs, with (epsilon, delta) under add or remove of x, and of x':
    # the hockey-stick divergence between "x" and "x'" is at most what footnote 5 says.
    rng, epsilon = np.random.default_rng(6), 0.4

    def exceeds(p, q, e):
        return float(np.maximum(p - math.exp(e) * q, 0).sum())

    for _ in range(300):
        neither = rng.dirichlet(np.ones(3))
        x, y = (0.8 * neither + 0.2 * rng.dirichlet(np.ones(3)) for _ in range(2))
        delta = max(exceeds(*pair, epsilon) for pair in [(x, neither), (neither, x),
                                                         (y, neither), (neither, y)])  # fmt: skip
        implied = replacement_parameters(epsilon, delta)
        assert exceeds(x, y, implied.epsilon) <= implied.delta + 1e-12


def test_coverage_on_laplace_pairs():
    # Scores are inclusion plus Laplace noise of scale b; exchanging the members of a pair changes
    # two by 1 each, so (2 / b, 0)-DP under replacement. The 40 surest of 150 pairs are guessed. Of
    # 4,000 runs each fails with probability at most 5 %; more than the limit have chance 1e-6.
    rng, runs, m, r, epsilon = np.random.default_rng(9), 4000, 150, 40, 1.2
    included = 1 + rng.laplace(scale=2 / epsilon, size=(runs, m))
    excluded = rng.laplace(scale=2 / epsilon, size=(runs, m))
    pairs = zip(included, excluded, strict=True)
    v = np.array([right_among_surest(pair_scores(a, b))[r] for a, b in pairs])
    rejected = p_values(m, np.full(runs, r), v, epsilon, 0.0) < 0.05
    assert rejected.sum() <= stats.binom.isf(1e-6, runs, 0.05)
    assert epsilon_lower_bound(m, r, int(v.max()), 0.0, 0.95) > 0.5  # not all trivial
