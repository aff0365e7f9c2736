"""The valid one-run bound: by hand, brute force, ties and properties (see test_coverage.py)."""

import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.errors import InputError
from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value, p_values
from fl_audit.estimators.one_run.valid import numbers_of_guesses

SEED = 20230515


def bound(scores: CanaryScores, method: str = "one_run_valid", **arguments):
    return estimate(scores, methods=[method], **arguments).estimates[0]


def coin_flip_scores(rng: np.random.Generator, m: int, shift: float) -> CanaryScores:
    included = rng.random(m) < 0.5
    scores = rng.normal(size=m) + shift * included
    return CanaryScores(scores[included], scores[~included])


def correct_guesses(scores: CanaryScores, r: int) -> int:
    """Right guesses of r, in an order that puts wrong guesses first among equals."""
    labelled = [(s, 1) for s in scores.included] + [(s, 0) for s in scores.excluded]
    from_top = sorted(labelled, key=lambda pair: (-pair[0], pair[1]))
    from_bottom = sorted(labelled, key=lambda pair: (pair[0], -pair[1]))
    k_minus = r // 2
    top = sum(label for _, label in from_top[: r - k_minus])
    return top + sum(1 - label for _, label in from_bottom[:k_minus])


def test_all_right_by_hand():
    # 128, 64, 32, 16, 8 guesses: five choices. All 128 right reject every q with q^128 < 0.01.
    made = bound(CanaryScores(np.arange(1, 65), -np.arange(64)), delta=0.0)
    q = 0.01 ** (1 / 128)
    assert made.epsilon == pytest.approx(math.log(q / (1 - q)), rel=1e-9)
    assert made.epsilon == pytest.approx(3.3069, abs=1e-4)
    assert made.details["corrected_confidence"] == pytest.approx(0.99, abs=1e-15)


@pytest.mark.parametrize("m", [2, 7, 8, 15, 16, 100, 2000, 2**14])
def test_numbers_of_guesses_are_all_that_can_reject(m):
    totals = numbers_of_guesses(m).tolist()
    assert totals == [m >> j for j in range(len(totals))]
    alpha = 0.05 / len(totals)
    assert m < 8 or p_value(m, totals[-1], totals[-1], 0.0, 0.0) < alpha
    # One more could reject nothing, once it too is corrected for.
    more = m >> len(totals)
    assert m < 100 or p_value(m, more, more, 0.0, 0.0) > 0.05 / (len(totals) + 1)


@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decimals", [0, 12])  # 0: many ties
def test_brute_force(seed, delta, decimals):
    rng = np.random.default_rng(seed)
    scores = coin_flip_scores(rng, 101, rng.uniform(0, 3))
    scores = CanaryScores(scores.included.round(decimals), scores.excluded.round(decimals))
    correct = {r: correct_guesses(scores, r) for r in (101, 50, 25, 12)}
    bounds = {r: epsilon_lower_bound(101, r, v, delta, 1 - 0.05 / 4) for r, v in correct.items()}
    made = bound(scores, delta=delta)
    assert made.epsilon == pytest.approx(max(bounds.values()), rel=1e-12)
    assert made.details["num_choices"] == 4
    if made.epsilon > 0:
        r = made.details["guesses"]
        assert made.details["correct"] == correct[r]
        assert (made.details["k_plus"], made.details["k_minus"]) == ((r + 1) // 2, r // 2)
        assert made.details["p_value_at_epsilon_0"] == p_value(101, r, correct[r], 0.0, delta)


def test_details_begin_with_those_of_one_run():
    scores = coin_flip_scores(np.random.default_rng(SEED), 200, 2.0)
    unadjusted, valid = bound(scores, "one_run", delta=0.0), bound(scores, delta=0.0)
    words = ["assumes", "guarantee", "source"]
    assert list(valid.details) == [*unadjusted.details, "num_choices", "corrected_confidence"]
    assert list(valid.to_json()["details"])[-3:] == words
    assert valid.guarantee.startswith("True epsilon is at least this with 95 % confidence; valid ")
    assert valid.assumes == unadjusted.assumes
    assert valid.lower == valid.epsilon


@pytest.mark.parametrize("shift", [0.0, 0.7, 2.0, 5.0])
def test_is_weaker_than_the_unadjusted_bound(shift):
    scores = coin_flip_scores(np.random.default_rng(SEED), 400, shift)
    unadjusted = bound(scores, "one_run", delta=1e-5).epsilon
    valid = bound(scores, delta=1e-5).epsilon
    assert valid <= unadjusted
    assert shift < 2 or valid > 0.6 * unadjusted


def test_decreases_with_confidence_and_delta():
    scores = coin_flip_scores(np.random.default_rng(SEED), 200, 2.0)
    levels = 1 - np.logspace(-6, -0.31, 60)
    by_level = [bound(scores, delta=0.0, confidence=c).epsilon for c in levels]
    by_delta = [bound(scores, delta=d).epsilon for d in (0.0, *np.logspace(-6, -4, 5))]
    assert np.all(np.diff(by_level) > 0)
    assert np.all(np.diff(by_delta) < 0)


def test_invariant_under_increasing_maps():
    scores = coin_flip_scores(np.random.default_rng(SEED), 200, 2.0)
    curved = CanaryScores(np.arctan(scores.included), np.arctan(scores.excluded))
    assert bound(curved, delta=0.0) == bound(scores, delta=0.0)


def test_unchanged_where_every_tie_is_lost():
    # An included score equal to an excluded one counts as if it lay below.
    rng = np.random.default_rng(SEED)
    included, excluded = rng.integers(1, 7, 100), rng.integers(0, 5, 100)
    tied = bound(CanaryScores(included, excluded), delta=0.0)
    lost = bound(CanaryScores(included - 0.5, excluded), delta=0.0)
    assert tied.epsilon == lost.epsilon > 0


def test_equal_scores_prove_nothing():
    made = bound(CanaryScores(np.zeros(500), np.zeros(500)), delta=0.0)
    assert made.epsilon == 0.0
    assert (made.details["guesses"], made.details["correct"]) == (0, 0)


def test_a_confidence_next_to_one_proves_nothing():
    scores = CanaryScores(np.arange(1, 65), -np.arange(64))
    assert bound(scores, delta=0.0, confidence=1 - 2.0**-53).epsilon == 0.0


def test_coverage_on_the_gaussian_mechanism():
    # A bit released with N(0, 1): epsilon(1e-5) = 4.38. The bound exceeds it if a number of
    # guesses rejects it at its level. With 1,000 runs that fail with 5 % each, more failures than
    # the limit have probability below 1e-6.
    rng, runs, m, delta = np.random.default_rng(SEED), 1000, 1000, 1e-5
    epsilon = epsilon_of_sigma(1.0, delta)
    included = rng.random((runs, m)) < 0.5
    order = np.argsort(included + rng.normal(size=(runs, m)), axis=1)
    ranked = np.take_along_axis(included, order, axis=1)
    totals = [1000, 500, 250, 125, 62, 31, 15]
    rejected = np.zeros(runs, dtype=bool)
    for r in totals:
        k_minus = r // 2
        v = ranked[:, m - (r - k_minus) :].sum(axis=1) + (~ranked[:, :k_minus]).sum(axis=1)
        rejected |= p_values(m, np.full(runs, r), v, epsilon, delta) < 0.05 / len(totals)
    assert numbers_of_guesses(m).tolist() == totals
    assert rejected.sum() <= stats.binom.isf(1e-6, runs, 0.05)


@pytest.mark.parametrize(("included", "excluded"), [([], [1.0]), ([1.0], [])])
def test_needs_both_kinds(included, excluded):
    with pytest.raises(InputError, match="one_run_valid: needs at least 1"):
        bound(CanaryScores(included, excluded), delta=0.0, dim=5)
