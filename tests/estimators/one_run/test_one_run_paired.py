"""Pairs of which one is included: guesses from scores, group privacy, coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value, p_values
from fl_audit.estimators.one_run.pair_scores import PairScores, right_among_surest
from fl_audit.estimators.one_run.sharp import sharp_p_values
from fl_audit.estimators.papers.steinke2023.paired import (
    add_remove_epsilon_lower_bound,
    add_remove_p_value,
    paired_one_run,
    replacement_parameters,
)


def test_the_surest_pairs_come_first():
    scores = PairScores(included=[9.0, 1.0, 4.0, 0.0], excluded=[1.0, 6.0, 2.0, 1.0])
    # Differences 8, -5, 2, -1.
    assert right_among_surest(scores).tolist() == [0, 1, 1, 2, 2]


def test_exchanging_all_members_and_partners_exchanges_right_and_wrong():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 50))
    right = right_among_surest(PairScores(a, b))
    wrong = right_among_surest(PairScores(b, a))
    assert np.array_equal(right + wrong, np.arange(51))


def test_ties_never_help():
    rng = np.random.default_rng(4)
    scores = PairScores(rng.integers(0, 4, 60), rng.integers(-1, 3, 60))
    gap = scores.included - scores.excluded
    ours = right_among_surest(scores)
    for _ in range(100):
        order = np.lexsort((rng.random(60), -np.abs(gap)))
        assert np.all(np.cumsum(gap[order] > 0) >= ours[1:])


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_estimate_is_corollary_5_4_on_pairs(delta):
    rng = np.random.default_rng(1)
    scores = PairScores(rng.normal(2, 1, 300), rng.normal(0, 1, 300))
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


def test_add_remove_bound_is_where_its_p_value_crosses():
    for delta in (1e-6, 1e-4):
        made = add_remove_epsilon_lower_bound(500, 200, 190, delta=delta, confidence=0.95)
        assert made > 0.5
        assert add_remove_p_value(500, 200, 190, epsilon=made, delta=delta) < 0.05
        assert add_remove_p_value(500, 200, 190, epsilon=made + 1e-6, delta=delta) >= 0.05
        implied = replacement_parameters(made, delta)
        p = p_value(500, 200, 190, implied.epsilon, implied.delta)
        assert add_remove_p_value(500, 200, 190, epsilon=made, delta=delta) <= p


def test_coverage_on_laplace_pairs():
    # Scores are inclusion plus Laplace noise of scale b; exchanging the members of a pair changes
    # two by 1 each, so (2 / b, 0)-DP under replacement. The 40 surest of 150 pairs are guessed. Of
    # 4,000 runs each fails with probability at most 5 %; more than the limit have chance 1e-6.
    rng, runs, m, r, epsilon = np.random.default_rng(9), 4000, 150, 40, 1.2
    included = 1 + rng.laplace(scale=2 / epsilon, size=(runs, m))
    excluded = rng.laplace(scale=2 / epsilon, size=(runs, m))
    pairs = zip(included, excluded, strict=True)
    v = np.array([right_among_surest(PairScores(a, b))[r] for a, b in pairs])
    rejected = p_values(m, np.full(runs, r), v, epsilon, 0.0) < 0.05
    assert rejected.sum() <= stats.binom.isf(1e-6, runs, 0.05)
    assert epsilon_lower_bound(m, r, int(v.max()), 0.0, 0.95) > 0.5  # not all trivial


@pytest.mark.parametrize("delta", [0.0, 1e-15, 0.999])
def test_extremes(delta):
    equal = paired_one_run(PairScores(np.ones(20), np.ones(20)), delta=delta, confidence=0.95)
    assert equal.epsilon == 0 == equal.details["epsilon_add_or_remove"]
    one = paired_one_run(PairScores([1.0], [0.0]), delta=delta, confidence=0.95)
    assert one.epsilon == 0
    none = PairScores(np.ones(20), np.zeros(20))
    assert paired_one_run(none, delta=delta, confidence=0.95, guesses=0).epsilon == 0
    assert add_remove_p_value(9, 9, 9, epsilon=50.0, delta=max(delta, 1e-9)) == 1


def test_refuses():
    with pytest.raises(InputError, match="as many included as excluded"):
        PairScores([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="finite"):
        PairScores([math.nan], [1.0])
    with pytest.raises(InputError, match="number of pairs"):
        paired_one_run(PairScores([1.0], [2.0]), delta=0.0, confidence=0.95, guesses=2)
    with pytest.raises(InputError, match="epsilon"):
        replacement_parameters(-1.0, 0.0)
