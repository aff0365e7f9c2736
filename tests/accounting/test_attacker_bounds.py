"""Bounds by what an attacker knows of rounds, for every participation pattern."""

import math

import pytest

from fl_audit.accounting import (
    GaussianPair,
    NoisyRounds,
    attacker_bounds,
    canaries_to_prove,
    most_provable,
)

KNOWN = {"rounds": 100, "delta": 1e-3, "noise_multiplier": 0.3, "sum_noise_multiplier": 0.3}


def bounds(**facts):
    run = NoisyRounds(**{**KNOWN, **facts})
    return attacker_bounds(run, run.canary)


def epsilons(**facts):
    found = bounds(**facts)
    return (
        found.knowing_rounds.guarantee.epsilon,
        found.not_knowing_rounds.guarantee.epsilon,
    )


# The quickstart: 15.2 to whoever knows the round, less the log of 100 to whoever does not.
def test_an_unknown_round_of_many_hides_a_canary():
    known, unknown = epsilons(canary_participations=1, canary_blocks=((100, 1),))
    assert known == pytest.approx(15.153, abs=1e-3)
    assert unknown == pytest.approx(known - math.log(100), abs=1e-3)


def test_several_blocks_compose():
    known, unknown = epsilons(canary_participations=2, canary_blocks=((50, 2),))
    assert known == pytest.approx(24.913, abs=1e-3)
    assert unknown == pytest.approx(known - 2 * math.log(50), abs=0.1)


@pytest.mark.parametrize(
    "facts",
    [
        {"canary_participations": 5},  # replay, every round, last rounds
        {"canary_participations": 5, "canary_blocks": ((1, 5),)},
        {"canary_participations": 1, "canary_blocks": ((100, 1),), "noise_multiplier": 0.02},
        {"noise_law": "tree", "canary_participations": 1, "canary_squared_sensitivity": 7},
    ],
)
def test_without_a_proof_the_bound_is_that_of_known_rounds(facts):
    noise = {"sum_noise_multiplier": facts.get("noise_multiplier", 0.3)}
    known, unknown = epsilons(**facts, **noise)
    assert known is not None
    assert known == unknown


@pytest.mark.parametrize(
    "facts", [{"sampling_probability": 1 / 15}, {"sample_size": 20, "sampled_from": 300}]
)
def test_an_attacker_who_knows_the_rounds_faces_no_sampling(facts):
    known, unknown = epsilons(**facts)
    assert known == pytest.approx(96.70, abs=0.01)
    assert unknown <= known
    if "sampling_probability" in facts:
        assert unknown < 0.7 * known


def test_sampling_everybody_is_every_round():
    assert epsilons(sampling_probability=1.0) == epsilons(canary_participations=100)


def test_no_noise_guarantees_nothing_and_hides_nothing():
    found = bounds(noise_multiplier=0.0, sum_noise_multiplier=0.0, canary_participations=1)
    for bound in (found.knowing_rounds, found.not_knowing_rounds):
        assert bound.guarantee.epsilon == math.inf
        provable = most_provable(bound, 10, 1e-3, 0.95)
        assert provable is not None
        assert provable.epsilon == math.inf


@pytest.mark.parametrize(
    "facts", [{"noise_law": "skellam"}, {"zeroing": "adaptive"}, {"noise_law": "tree"}]
)
def test_where_nothing_is_guaranteed_nothing_is_provable(facts):
    found = bounds(canary_participations=1, canary_blocks=((100, 1),), **facts)
    for bound in (found.knowing_rounds, found.not_knowing_rounds):
        assert bound.guarantee.epsilon is None
        assert most_provable(bound, 250, 1e-3, 0.95) is None


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize(
    "facts",
    [
        {"canary_participations": 1, "canary_blocks": ((100, 1),)},
        {"canary_participations": 2, "canary_blocks": ((50, 2),)},
        {"sampling_probability": 1 / 15},
        {"sample_size": 20, "sampled_from": 300},
    ],
)
def test_more_canaries_prove_more_and_never_more_than_the_guarantee(facts, knows):
    bound = bounds(**facts).against(knows)
    limit = bound.guarantee.epsilon
    found = [most_provable(bound, count, 1e-3, 0.95).epsilon for count in (10, 100, 10**4, 10**7)]
    assert found == sorted(found)
    assert found[0] < 0.9 * limit
    assert 0.97 * limit < found[-1] <= limit


def test_the_canaries_that_reach_a_share_reach_it():
    bound = bounds(canary_participations=1, canary_blocks=((100, 1),)).knowing_rounds
    assert isinstance(bound.pair, GaussianPair)
    count = canaries_to_prove(bound, 0.8, 1e-3, 0.95)
    assert count is not None
    limit = bound.guarantee.epsilon
    assert most_provable(bound, count // 2, 1e-3, 0.95).epsilon >= 0.8 * limit
    assert most_provable(bound, int(0.9 * count) // 2, 1e-3, 0.95).epsilon < 0.8 * limit
