"""The arrival of canaries under simulated mechanisms: no false alarms, and errors as stated."""

import dataclasses
import itertools

import numpy as np
import pytest

from fl_audit.attacks.own_rounds import OwnRounds, RoundLengths, arrival_in_rounds
from fl_audit.canaries.families import FAMILIES
from fl_audit.checks.canary_check import Presentations, coefficient

COHORT = 20


def simulated(seed, family, noise, pattern, *, dim=300, count=120, rounds=12):
    """The arrival of canaries under a correct mechanism with an adaptive clip."""
    rng = np.random.default_rng(seed)
    made = FAMILIES[family](seed, count, dim)
    vectors = np.stack([made.vector(canary) for canary in range(count)])
    included = rng.random(count) < 0.5
    if pattern == "sampled":
        present = rng.random((count, rounds)) < 0.2
    else:
        repeats = {"once": 1, "thrice": 3, "always": rounds}[pattern]
        present = np.array([rng.permutation(rounds) < repeats for _ in range(count)])
    own = OwnRounds(tuple(np.flatnonzero(row) for row in present))
    rows, of_aggregate, of_canary = [], [], []
    model, target = np.zeros(dim), rng.normal(size=dim) / np.sqrt(dim)
    for index in range(rounds):
        clip = 0.1 * np.exp(0.2 * rng.normal() + 0.1 * index)
        moved = 0.1 * (target - model) + rng.normal(size=dim) * clip / np.sqrt(dim)
        total = 10 * moved * min(1.0, clip / np.linalg.norm(moved))
        total += clip * vectors[included & present[:, index]].sum(axis=0)
        aggregate = (total + noise * clip * rng.normal(size=dim)) / COHORT
        model = model + aggregate
        cosines = made.cosines(aggregate.astype(np.float32)).astype(np.float32)
        rows.append((index, cosines))
        of_aggregate.append(np.linalg.norm(aggregate))
        of_canary.append(clip / COHORT)
    lengths = RoundLengths(np.array(of_aggregate), np.array(of_canary))
    return arrival_in_rounds(rows, own, included, lambda: lengths, dim=dim, family=family)


CASES = list(
    itertools.product(FAMILIES, (0.0, 0.1, 1.0, 2.0), ("once", "thrice", "always", "sampled"))
)


@pytest.mark.parametrize(("family", "noise", "pattern"), CASES)
def test_canaries_that_arrive_are_never_said_not_to(family, noise, pattern):
    # By design a false alarm has probability below 1e-6 in each of the 96 simulations.
    for seed in (1, 2):
        arrival = simulated(seed, family, noise, pattern)
        assert arrival.state != "not_arrived", arrival.reason
        assert noise >= 1 or arrival.state == "arrived", arrival.reason


@pytest.mark.parametrize(("dim", "count", "rounds"), [(2, 60, 3), (10, 200, 4), (40, 400, 2)])
def test_nor_in_few_dimensions_with_rounds_full_of_canaries(dim, count, rounds):
    for seed, noise in itertools.product(range(20), (0.0, 1.0)):
        arrival = simulated(seed, "gaussian", noise, "once", dim=dim, count=count, rounds=rounds)
        assert arrival.state != "not_arrived", arrival.reason


def shown_in_rounds(along, lengths, *, dim=100, others=0, first=True):
    """Presentations of as many canaries, each in a round of its own."""
    count = len(along)
    return Presentations(
        canaries=np.arange(count),
        rounds=np.arange(count),
        cosines=np.asarray(along) / lengths,
        aggregate_lengths=np.broadcast_to(lengths, count).astype(np.float64),
        client_lengths=np.ones(count),
        others=np.full(count, float(others)),
        is_first=np.full(count, first),
        dim=dim,
        knows_tails=True,
    )


@pytest.mark.parametrize("dim", [2, 3, 10, 100, 10_000, 10**6])
@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_the_share_is_unbiased_and_its_error_as_stated_in_any_dimension(dim, noise):
    # 400 nearly normal deviates: their standard deviation is off by more than 18 %, and their mean
    # by more than 0.25, with probability 1e-6 each.
    rng = np.random.default_rng(3)
    deviations = []
    for _ in range(400):
        # The rest of the aggregate along a canary, and its whole length, from their exact laws.
        along = noise * rng.normal(size=100)
        across = noise**2 * rng.chisquare(dim - 1, 100)
        lengths = np.sqrt((1 + along) ** 2 + across)
        found = coefficient(shown_in_rounds(1 + along, lengths, dim=dim), 1)
        assert found is not None
        deviations.append((found.ratio - 1) / found.standard_error)
    assert 0.82 < np.std(deviations) < 1.18
    assert abs(np.mean(deviations)) < 0.25


def test_a_round_without_any_aggregate_holds_no_canary():
    shown = shown_in_rounds(np.zeros(3), np.ones(3))
    empty = dataclasses.replace(shown, aggregate_lengths=np.array([0.0, 1.0, np.nan]))
    assert len(empty.with_promise) == 2
    assert empty.along[0] == 0
    assert empty.rest(1)[0] == 1
