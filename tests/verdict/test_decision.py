"""What is said of a claim, on scores of mechanisms whose epsilon is known."""

import dataclasses
import re

import numpy as np
import pytest
from scipy import stats

from fl_audit.checks import CanaryCheck
from fl_audit.config import Audit
from fl_audit.errors import InputError
from fl_audit.estimators import (
    METHODS,
    AuditSetting,
    CanaryScores,
    GaussianCanaryNull,
    valid_methods,
)
from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.estimators.null import Null
from fl_audit.number_words import lower_bound_text
from fl_audit.verdict import Claim, ClaimTests, ScoredStatistic, reach_verdict, separation
from fl_audit.verdict.claim_tests import p_value
from fl_audit.verdict.scope import Scope

DELTA = 1e-3

ARRIVED = CanaryCheck("arrived", 1.0, "they are there")


def released(mechanism, num_canaries, seed, name="max"):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, num_canaries)
    scores = mechanism.release(rng, bits)
    null = "empirical" if mechanism.dim is None else "closed_form"
    canaries = CanaryScores(scores[bits == 1], scores[bits == 0])
    tail = None if mechanism.dim is None else GaussianCanaryNull(mechanism.dim)
    return ScoredStatistic(name, canaries, Null(null, tail, mechanism.dim))


def separated(num_canaries):
    half = num_canaries // 2
    return ScoredStatistic("max", CanaryScores(np.ones(half), np.zeros(half)))


def test_scores_without_noise_contradict_a_small_claim():
    verdict = reach_verdict(Claim(1.0, DELTA), ClaimTests([separated(1000)], 0.95))
    assert verdict.outcome == "contradicted"
    assert verdict.epsilon_lower > 4
    assert verdict.statistic == "max"
    assert verdict.method in valid_methods()
    assert verdict.p_value < 1e-8
    assert "exceeds the claim, with 95 % confidence for both bounds together" in verdict.reason


def test_a_true_claim_is_contradicted_as_rarely_as_the_confidence_says():
    # A right test of twenty independent statistics exceeds this limit with probability below 1e-6;
    # without the correction for twenty tests it is exceeded at once.
    mechanism, runs, alpha = gaussian(1.0, DELTA, 1000), 60, 0.1
    rng, contradicted = np.random.default_rng(5), 0
    for _ in range(runs):
        statistics = []
        for _ in range(20):
            scores = mechanism.release(rng, np.repeat([0, 1], [100, 100]))
            canaries = CanaryScores(scores[100:], scores[:100])
            statistics.append(ScoredStatistic("max", canaries, Null("closed_form", dim=1000)))
        tests = ClaimTests(statistics, 1 - alpha, ["threshold_valid"])
        contradicted += tests.bounds(mechanism.delta)[0].estimate.epsilon > mechanism.epsilon
    assert contradicted <= stats.binom.isf(1e-6, runs, alpha)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", valid_methods())
def test_the_p_value_is_where_estimate_ceases_to_contradict(method, seed):
    claim, statistic = Claim(1.0, DELTA), released(gaussian(3.5, DELTA), 300, seed)
    twin = released(gaussian(0.01, DELTA), 300, 100 + seed, name="sum")
    tests = ClaimTests([statistic, twin], 0.95, [method])
    bounds = tests.bounds(DELTA)
    p = p_value(tests, bounds, claim)

    def contradicts(alpha):
        setting = AuditSetting(statistic.scores, DELTA, 1 - alpha / 2)
        return METHODS[method](setting).epsilon > claim.epsilon

    assert 1e-8 < p < 1
    assert contradicts(1.001 * p)
    assert not contradicts(p / 1.03)
    assert (bounds[0].estimate.epsilon > claim.epsilon) == (p <= 0.05)


def test_a_verdict_that_is_wrong_more_often_than_right_is_refused():
    statistic = released(gaussian(2.0, DELTA, 10**6), 20, seed=3)
    with pytest.raises(InputError, match="for a verdict"):
        ClaimTests([statistic], 0.4)
    with pytest.raises(ValueError, match="for a verdict"):
        Audit(claimed_epsilon=1.0, confidence=0.4)
    assert Audit(confidence=0.4).confidence == 0.4


@pytest.mark.parametrize("unfit", [None, "canaries are elsewhere"])
def test_whatever_cannot_be_told_ends_with_what_to_do_next(unfit):
    one_kind = ScoredStatistic("max", CanaryScores(np.arange(3.0), np.zeros(0)))
    found = reach_verdict(
        Claim(2.0, DELTA), ClaimTests([one_kind], 0.95), Scope(unfit=unfit), canary_check=ARRIVED
    )
    pure = reach_verdict(
        Claim(50.0, 0.0),
        ClaimTests([separated(100)], 0.95),
        Scope(unfit=unfit),
        canary_check=ARRIVED,
    )
    for verdict in (found, pure):
        assert verdict.outcome == "inconclusive"
        assert "\nNext: " in verdict.reason


def test_a_consistent_verdict_had_the_power_to_contradict():
    statistic = released(gaussian(4.0, DELTA, 10**6), 2000, seed=3)
    verdict = reach_verdict(Claim(4.0, DELTA), ClaimTests([statistic], 0.95))
    assert verdict.outcome == "consistent"
    assert verdict.power >= 0.8
    assert verdict.canaries_needed is None
    assert verdict.p_value > 0.05


def test_an_inconclusive_verdict_says_how_many_canaries_would_tell():
    verdict = reach_verdict(
        Claim(1.0, DELTA), ClaimTests([released(gaussian(1.0, DELTA, 10**6), 300, seed=3)], 0.95)
    )
    assert verdict.outcome == "inconclusive"
    assert verdict.power < 0.5
    assert 600 < verdict.canaries_needed < 3000


def test_few_canaries_cannot_contradict_a_large_claim_whatever_they_score():
    verdict = reach_verdict(Claim(30.0, DELTA), ClaimTests([separated(100)], 0.95))
    assert verdict.outcome == "inconclusive"
    assert verdict.power == 0
    assert verdict.canaries_needed is None
    assert "audits like this notice no true ε, however large" in verdict.reason
    assert "choose one method before training" in verdict.reason


@pytest.mark.parametrize(
    ("canary_check", "words"),
    [
        (None, "The canary check is not conclusive"),
        (
            CanaryCheck("cannot_tell", 0.4, "they may"),
            "so low scores mean nothing: they may.\nNext",
        ),
        (
            CanaryCheck("not_arrived", 0.0, "they are lost"),
            "The canary check failed.*they are lost",
        ),
    ],
)
def test_without_arrival_nothing_is_consistent(canary_check, words):
    silent = released(gaussian(1e-3, DELTA, 10**6), 2000, seed=3)
    tests = ClaimTests([silent], 0.95)
    verdict = reach_verdict(Claim(4.0, DELTA), tests, canary_check=canary_check)
    assert verdict.outcome == "inconclusive"
    assert re.search(words, verdict.reason)


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (0.0, "score no higher than excluded ones"),
        (0.05, "do not score clearly above excluded ones .*too few canaries would explain"),
        (0.3, "score only a little above .* where 0.0001 would show"),
    ],
)
def test_words_on_scores_do_not_contradict_their_p_value(shift, words):
    scores = np.linspace(-2, 2, 100)
    found = separation([ScoredStatistic("max", CanaryScores(scores + shift, scores))])
    assert found.state == "cannot_tell"
    assert re.search(words, found.reason)


def test_scores_with_the_wrong_sign_are_named():
    right = released(gaussian(2.0, DELTA, 10**6), 2000, seed=3)
    scores = CanaryScores(-right.scores.included, -right.scores.excluded)
    wrong = dataclasses.replace(right, scores=scores)
    assert separation([right]).state == "arrived"
    assert separation([wrong]).state == "not_arrived"
    verdict = reach_verdict(Claim(4.0, DELTA), ClaimTests([wrong], 0.95))
    assert "score below excluded ones on max" in verdict.reason
    assert "the scores have the wrong sign, or the coins are inverted" in verdict.reason


def test_canaries_that_do_not_stand_for_clients_contradict_nothing():
    tests = ClaimTests([separated(1000)], 0.95)
    verdict = reach_verdict(Claim(1.0, DELTA), tests, Scope(unfit="they take part too often"))
    assert verdict.outcome == "inconclusive"
    assert verdict.reason.startswith("They take part too often.\nNext: let canaries participate as")
    assert verdict.p_value is None
    assert verdict.epsilon_lower > 4


def test_a_statistic_of_which_nothing_is_known_contradicts_no_claim_on_sampling():
    unknown = dataclasses.replace(separated(1000), name="my_rounds")
    scope = Scope(counts_on_sampling=True)
    verdict = reach_verdict(Claim(1.0, DELTA), ClaimTests([unknown], 0.95), scope)
    assert verdict.outcome == "inconclusive"
    assert verdict.reason.startswith("It is not known whether the attacker of my_rounds knows")


@pytest.mark.parametrize("outcome", ["contradicted", "inconclusive"])
def test_delta_0_can_be_contradicted_and_is_not_simulated(outcome):
    epsilon = 1.0 if outcome == "contradicted" else 20.0
    verdict = reach_verdict(Claim(epsilon, 0.0), ClaimTests([separated(200)], 0.95))
    assert verdict.outcome == outcome
    assert verdict.power is None


def test_a_bound_that_exceeds_the_claim_by_itself_is_named_with_what_correction_leaves_of_it():
    """Of five looks one would have decided alone: what to fix beforehand is said, and no number."""
    strong = released(gaussian(2.5, DELTA, 10**6), 400, seed=4, name="own_rounds")
    silent = [released(gaussian(1e-3, DELTA, 10**6), 400, seed=s, name="max") for s in range(4)]
    alone = ClaimTests([strong], 0.95, ["threshold_valid"]).bounds(DELTA)[0].estimate.epsilon
    many = ClaimTests([strong, *silent], 0.95, ["threshold_valid"])
    corrected = many.bounds(DELTA)[0].estimate.epsilon
    claim = Claim((alone + corrected) / 2, DELTA)
    verdict = reach_verdict(claim, many, canary_check=ARRIVED)
    assert verdict.outcome != "contradicted"
    assert (
        f"bound by threshold_valid on own_rounds is ε ≥ {lower_bound_text(alone)}" in verdict.reason
    )
    assert f"corrected for all 5 bounds it is {lower_bound_text(corrected)}.\n" in verdict.reason
    assert "Next: choose this statistic and this method" in verdict.reason
    assert "canaries instead" not in verdict.reason
    doubtful = reach_verdict(
        claim, many, Scope(not_covered="a client may do more"), canary_check=ARRIVED
    )
    assert doubtful.outcome == "inconclusive"
    assert "a client may do more" in doubtful.reason.splitlines()[0]
    assert f"corrected for all 5 bounds it is {lower_bound_text(corrected)}.\n" in doubtful.reason
    steps = [line for line in doubtful.reason.splitlines() if line.startswith("Next: ")]
    assert [step.split()[1] for step in steps] == ["choose", "let"]
