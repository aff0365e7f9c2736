"""The valid one-run bound: by hand, coverage, ties and properties (see also test_coverage.py)."""

import dataclasses
import math
import time

import numpy as np
import pytest
from scipy import special, stats

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores, estimate
from fl_audit.estimators.one_run.bound import epsilon_lower_bound
from fl_audit.estimators.one_run.guess_orders import orders_of
from fl_audit.estimators.one_run.guesses import correct_among_bottom, correct_among_top
from fl_audit.estimators.one_run.guessing_plan import spare_for_delta
from fl_audit.estimators.one_run.valid_guesses import one_run_epsilons, one_run_rejection

SEED = 20230515


def bound(scores: CanaryScores, method: str = "one_run_valid", **arguments):
    return estimate(scores, methods=[method], **arguments).estimates[0]


def scores_of(included, values) -> CanaryScores:
    return CanaryScores(values[included], values[~included])


def coin_flip_scores(rng: np.random.Generator, m: int, shift: float) -> CanaryScores:
    included = rng.random(m) < 0.5
    return scores_of(included, rng.normal(size=m) + shift * included)


LINE = CanaryScores(np.arange(1, 33), -np.arange(32))


@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_all_right_by_hand(delta):
    # At a boundary through r of r right guesses, fewer guesses are not enough even if all are
    # right, as levels fall with the distance from r. So p^64 = 0.05, less what is spared for delta.
    made = bound(LINE, delta=delta)
    spare = spare_for_delta(64, 64 * delta, 0.05)
    assert spare == pytest.approx(64 * delta * 0.9 / 32**0.5)
    p = (0.05 - spare) ** (1 / 64)
    assert made.epsilon == pytest.approx(math.log(p / (1 - p)), abs=2e-7)
    assert (made.details["k_plus"], made.details["k_minus"]) == (32, 32)
    if delta == 0:
        assert made.details["p_value_at_epsilon_0"] == pytest.approx(2.0**-64, rel=1e-6)


@pytest.mark.parametrize("decimals", [0, 12])  # 0: many ties
def test_guesses_are_from_both_ends_and_ties_are_lost(decimals):
    scores = coin_flip_scores(np.random.default_rng(SEED), 101, 2.0)
    scores = CanaryScores(scores.included.round(decimals), scores.excluded.round(decimals))
    details = bound(scores, delta=0.0).details
    assert details["guesses"] > 0
    half = details["k_plus"]
    assert half == details["k_minus"] == details["guesses"] / 2
    labelled = [(s, 1) for s in scores.included] + [(s, 0) for s in scores.excluded]
    from_top = sorted(labelled, key=lambda pair: (-pair[0], pair[1]))[:half]
    from_bottom = sorted(labelled, key=lambda pair: (pair[0], -pair[1]))[:half]
    right = sum(label for _, label in from_top) + sum(1 - label for _, label in from_bottom)
    assert details["correct"] == right


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_better_than_fixed_numbers_with_a_bonferroni_correction(seed, delta):
    # As it was before: r = m, m / 2, m / 4, ... with alpha shared out.
    scores = coin_flip_scores(np.random.default_rng(seed), 1000, 2.0)
    top, bottom = correct_among_top(scores), correct_among_bottom(scores)
    totals = [1000 >> j for j in range(7)]
    correct = [int(top[r - r // 2] + bottom[r // 2]) for r in totals]
    confidence = 1 - 0.05 / len(totals)
    corrected = [
        epsilon_lower_bound(1000, r, v, delta, confidence)
        for r, v in zip(totals, correct, strict=True)
    ]
    assert bound(scores, delta=delta).epsilon > max(corrected)


@pytest.mark.slow
def test_a_million_scores_take_seconds():
    scores = coin_flip_scores(np.random.default_rng(1), 10**6, 2.0)
    start = time.perf_counter()
    assert bound(scores, delta=0.0).epsilon > 5
    assert time.perf_counter() - start < 10


# `one_run_valid` with coins that are not fair and with pairs, against closed forms.


def pairs_bound(scores, delta=0.0, confidence=0.95):
    return METHODS["one_run_valid"](AuditSetting(scores, delta, confidence))


def test_chances_of_a_right_guess_are_those_of_randomised_response():
    """A bit of probability pi, kept with probability e^eps / (1 + e^eps): Bayes by hand."""
    pi, epsilon = 0.2, 1.5
    kept = special.expit(epsilon)
    said_included = pi * kept + (1 - pi) * (1 - kept)
    top, bottom = orders_of(CanaryScores([1.0], [0.0], "unequal_coins", pi))
    assert special.expit(top.log_odds(epsilon)) == pytest.approx(pi * kept / said_included)
    said_excluded = 1 - said_included
    assert special.expit(bottom.log_odds(epsilon)) == pytest.approx((1 - pi) * kept / said_excluded)
    assert top.epsilon(top.log_odds(epsilon)) == pytest.approx(epsilon)


def test_pairs_all_told_apart_are_bounded_by_clopper_and_pearson():
    m = 300
    made = pairs_bound(CanaryScores(np.arange(m) + 0.5, np.arange(m) - 0.5, "pairs"))
    # The best that any test of m right guesses of m could say of the replacement of one.
    at_most = -math.log(0.05 ** (-1 / m) - 1)
    assert 0.7 * at_most < made.details["epsilon_replacement"] <= at_most
    assert made.epsilon == made.details["epsilon_replacement"] / 2
    assert made.details["m"] == m


@pytest.mark.parametrize(("inclusion", "pi"), [("unequal_coins", 0.2), ("pairs", 0.5)])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_fast_rejection_rejects_what_the_bound_exceeds(inclusion, pi, delta):
    rng = np.random.default_rng(3)
    rejects = {epsilon: one_run_rejection(epsilon, delta, 0.05) for epsilon in (0.3, 0.8)}
    for shift in (0.0, 1.0, 2.0, 4.0):
        n1 = 100 if inclusion == "pairs" else int(stats.binom.rvs(200, pi, random_state=rng))
        n0 = 200 - n1
        scores = CanaryScores(shift + rng.normal(size=n1), rng.normal(size=n0), inclusion, pi)
        found = pairs_bound(scores, delta).epsilon
        for epsilon, test in rejects.items():
            if abs(found - epsilon) > 0.03:
                setting = AuditSetting(scores, delta, 0.95)
                assert test([setting])[0] == (found > epsilon), (shift, epsilon, found)


# The region of scores that make the valid one-run bound exceed an epsilon.


LEVEL = 0.05 / 8


def setting_of(scores, delta, level):
    return AuditSetting(scores, delta, 1 - level)


@pytest.mark.parametrize(
    ("epsilon", "delta", "num_canaries"),
    [
        pytest.param(1.0, 1e-5, 400, marks=pytest.mark.slow),
        pytest.param(2.0, 1e-4, 1001, marks=pytest.mark.slow),
        (3.0, 1e-3, 250),
    ],
)
def test_the_one_run_region_is_where_the_bound_exceeds_epsilon(epsilon, delta, num_canaries):
    rejects = one_run_rejection(epsilon, delta, LEVEL)
    rng = np.random.default_rng(1)
    rejected = 0
    for index, shift in enumerate(np.repeat(np.linspace(0.5, 4.0, 12), 2)):
        bits = rng.integers(0, 2, num_canaries)
        spread = np.where(bits == 1, 1 + shift, 1) if index % 2 == 1 else 1
        values = shift * bits + spread * rng.standard_normal(num_canaries)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        setting = setting_of(scores, delta, LEVEL)
        bound = METHODS["one_run_valid"](setting).epsilon
        rejected += int(rejects([setting])[0])
        if rejects([setting])[0]:
            assert bound > epsilon - 1e-5
        else:
            assert bound < epsilon + 0.03  # boundaries are 0.01 apart
    assert 2 < rejected < 22


@pytest.mark.parametrize(
    ("num_canaries", "shift", "inclusion", "delta"),
    [
        (1000, 4.0, "coins", 0.01),  # each boundary reserves its own part for delta
        (200, 2.0, "coins", 1e-5),
        (120, 1.2, "pairs", 1e-5),  # few guesses reach less than the level at their own epsilon
        (200, 2.0, "unequal_coins", 1e-4),
    ],
)
def test_the_fast_rejection_rejects_all_claims_up_to_the_bound(
    num_canaries, shift, inclusion, delta
):
    rng = np.random.default_rng(SEED)
    num_included = num_canaries // (5 if inclusion == "unequal_coins" else 2)
    values = rng.standard_normal(num_canaries)
    included, excluded = shift + values[:num_included], values[num_included:]
    probability = num_included / num_canaries
    scores = CanaryScores(included, excluded, inclusion, probability)
    setting = setting_of(scores, delta, 0.05)
    found = METHODS["one_run_valid"](setting).epsilon
    assert found > 0.4
    claims = [0.0, found / 8, found / 4, found / 2, found - 0.1, found - 0.03, found + 0.001]
    rejected = [bool(one_run_rejection(each, delta, 0.05)([setting])[0]) for each in claims]
    assert rejected == [each < found for each in claims]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 42, 97])
def test_few_epsilons_whose_chance_is_small_enough_are_found(seed):
    """With m delta = 0.5 the chance falls and rises again, below alpha only close to its least."""
    bits = (rng := np.random.default_rng(seed)).integers(0, 2, 500)
    values = rng.standard_normal(500) + 0.62 * bits
    scores = CanaryScores(values[bits == 1], values[bits == 0])
    setting = setting_of(scores, 1e-3, 0.05)
    assert one_run_rejection(0.5, 1e-3, 0.05)([setting])[0]
    assert METHODS["one_run_valid"](setting).epsilon > 0.5


def test_no_region_rejects_where_none_can():
    rejects = one_run_rejection(20.0, 1e-5, LEVEL)
    scores = CanaryScores(np.arange(100.0, 125.0), np.arange(25.0))
    assert not rejects([setting_of(scores, 1e-5, LEVEL)])[0]


def test_one_rejection_serves_samples_of_several_sizes():
    rejects = one_run_rejection(1.0, 1e-5, LEVEL)
    rng, samples, shifts = np.random.default_rng(2), [], (3.0, 3.0, 0.0)
    for num_canaries, shift in zip((400, 100, 400), shifts, strict=True):
        bits = rng.integers(0, 2, num_canaries)
        values = shift * bits + rng.standard_normal(num_canaries)
        scores = CanaryScores(values[bits == 1], values[bits == 0])
        samples.append(setting_of(scores, 1e-5, LEVEL))
    assert rejects(samples).tolist() == [shift > 0 for shift in shifts]


def test_nothing_is_rejected_where_the_method_cannot_be_applied():
    rejects = one_run_rejection(1.0, 1e-5, LEVEL)
    everybody, nobody = np.arange(400.0), np.zeros(0)
    one_pair = CanaryScores(np.ones(1), np.zeros(1), "pairs")
    for scores in (CanaryScores(everybody, nobody), CanaryScores(nobody, everybody), one_pair):
        assert not rejects([setting_of(scores, 1e-5, LEVEL)])[0]
        assert one_run_epsilons([setting_of(scores, 1e-5, LEVEL)]) == [None]


# 14 of 14 guesses right with m = 60 once gave 0 beside a p-value of 0.008, as delta took a little
# more than was spared for it. The bound and the p-value are now of one test.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("m", [12, 30, 60, 100])
@pytest.mark.parametrize("inclusion", ["coins", "unequal_coins", "pairs"])
def test_a_bound_above_0_and_a_p_value_below_the_level_go_together(m, inclusion):
    probability = 0.2 if inclusion == "unequal_coins" else 0.5
    for seed in range(8):
        random = np.random.default_rng([SEED, seed, m])
        num = m // 2 if inclusion == "pairs" else max(1, int(random.binomial(m, probability)))
        shift = random.choice([0.5, 1.0, 2.0, 4.0])
        included, excluded = random.normal(shift, 1, num), random.normal(0, 1, m - num)
        scores = CanaryScores(included, excluded, inclusion, probability)
        for confidence in (0.9, 0.95, 0.999):
            made = bound(scores, delta=1e-3, confidence=confidence)
            p_value = made.details["p_value_at_epsilon_0"]
            assert (made.epsilon > 0) == (p_value < 1 - confidence), (seed, shift)


@pytest.mark.parametrize(("seed", "shift", "delta"), [(54, 0.45, 8e-4), (110, 0.35, 1e-4)])
def test_a_p_value_holds_the_whole_part_that_is_spared_for_delta(seed, shift, delta):
    made = bound(coin_flip_scores(np.random.default_rng(seed), 200, shift), delta=delta)
    assert made.epsilon == 0
    assert 0.05 <= made.details["p_value_at_epsilon_0"] < 0.06


@pytest.mark.parametrize(
    ("num_included", "num_excluded", "wrong", "is_without_error"),
    [(32, 33, 0, True), (33, 32, 0, True), (33, 33, 0, True), (32, 33, 1, False)],
)
def test_guesses_without_error_are_as_many_as_the_method_makes(
    num_included, num_excluded, wrong, is_without_error
):
    included = np.where(np.arange(num_included) < wrong, -1e3, 1e3)
    made = bound(CanaryScores(included, np.arange(num_excluded)), delta=1e-5)
    assert made.epsilon > 0
    assert made.is_without_error == is_without_error


def test_the_published_bound_also_guesses_about_an_odd_last_canary():
    # It makes any number of guesses: 4 right of 5 canaries are not all.
    details = {"m": 5, "guesses": 4, "correct": 4}
    published = dataclasses.replace(bound(LINE, "one_run", delta=0.0), details=details)
    assert not published.is_without_error
    assert dataclasses.replace(published, valid_for="any mechanism").is_without_error


def test_all_guesses_right_of_few_canaries_are_not_lost_to_delta():
    assert bound(CanaryScores(np.arange(1, 8), -np.arange(7)), delta=1e-3).epsilon > 1
    # Of 60 that leak a little, 11 of these 20 bounds were 0 when a tenth of m delta was spared.
    samples = [coin_flip_scores(np.random.default_rng([SEED, seed]), 60, 1.0) for seed in range(20)]
    bounds = METHODS["one_run_valid"].epsilons([AuditSetting(one, 1e-3, 0.95) for one in samples])
    assert sum(found == 0 for found in bounds) <= 4


@pytest.mark.parametrize("inclusion", ["coins", "unequal_coins", "pairs"])
def test_bounds_of_many_samples_are_those_of_each(inclusion):
    random = np.random.default_rng(SEED)
    probability = 0.3 if inclusion == "unequal_coins" else 0.5
    samples = [
        CanaryScores(random.normal(s, 1, n), random.normal(0, 1, 80 - n), inclusion, probability)
        for s in (0.0, 1.0, 3.0)
        for n in ((40,) if inclusion == "pairs" else (25, 40))
    ]
    method = METHODS["one_run_valid"]
    settings = [AuditSetting(one, 1e-3, 0.95) for one in samples]
    assert method.epsilons(settings) == [method(one).epsilon for one in settings]
    alone = AuditSetting(CanaryScores([1.0], []), 1e-3, 0.95)
    assert method.epsilons([alone, *settings[:1]])[0] is None
