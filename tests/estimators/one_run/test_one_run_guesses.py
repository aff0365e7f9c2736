"""The best numbers of guesses against brute force, with ties."""

import itertools

import numpy as np
import pytest

from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value
from fl_audit.estimators.one_run.guesses import best_guesses


def coin_flip_scores(rng: np.random.Generator, m: int, shift: float) -> CanaryScores:
    included = rng.random(m) < 0.5
    scores = rng.normal(size=m) + shift * included
    return CanaryScores(scores[included], scores[~included])


def correct_guesses(scores: CanaryScores, k_plus: int, k_minus: int) -> int:
    """Right guesses for k+ and k-, in an order that puts wrong guesses first among equals."""
    labelled = [(s, 1) for s in scores.included] + [(s, 0) for s in scores.excluded]
    from_top = sorted(labelled, key=lambda pair: (-pair[0], pair[1]))
    from_bottom = sorted(labelled, key=lambda pair: (pair[0], -pair[1]))
    top = sum(label for _, label in from_top[:k_plus])
    return top + sum(1 - label for _, label in from_bottom[:k_minus])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("decimals", [0, 12])  # 0: many ties
def test_brute_force_over_all_pairs(seed, delta, decimals):
    rng = np.random.default_rng(seed)
    scores = coin_flip_scores(rng, 24, rng.uniform(0, 4))
    scores = CanaryScores(scores.included.round(decimals), scores.excluded.round(decimals))
    made = estimate(scores, delta=delta, methods=["one_run"]).estimates[0]
    # A pair's bound is at most epsilon exactly if its p-value there is at least 5 %.
    beyond = made.epsilon * (1 + 1e-9)
    for a, b in itertools.product(range(25), repeat=2):
        if a + b <= 24:
            assert p_value(24, a + b, correct_guesses(scores, a, b), beyond, delta) >= 0.05
    k_plus, k_minus = made.details["k_plus"], made.details["k_minus"]
    correct = correct_guesses(scores, k_plus, k_minus)
    assert made.details["correct"] == correct
    counts = 24, k_plus + k_minus, correct
    assert made.epsilon == made.lower == epsilon_lower_bound(*counts, delta, 0.95)
    assert made.details["p_value_at_epsilon_0"] == p_value(*counts, 0.0, delta)
    assert "not valid after selection" in made.guarantee


def test_grid_for_many_canaries_loses_little():
    scores = coin_flip_scores(np.random.default_rng(4), 3000, 2.0)
    exact = best_guesses(scores, 1e-6, 0.95)
    sparse = best_guesses(scores, 1e-6, 0.95, exhaustive_up_to=0)
    by_exact = epsilon_lower_bound(3000, exact.total, exact.correct, 1e-6, 0.95)
    by_sparse = epsilon_lower_bound(3000, sparse.total, sparse.correct, 1e-6, 0.95)
    assert 0.95 * by_exact < by_sparse <= by_exact
