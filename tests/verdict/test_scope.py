"""Whom an audit is about, and which statistics count."""

import numpy as np
import pytest

from fl_audit.verdict.scope import Scope, _rounds_left_out

ROUNDS = 100


def _one_round_each(rounds, canaries):
    return [np.array([rounds[canary % len(rounds)]]) for canary in range(canaries)]


def _one_group_each(canaries, groups=2):
    """Every canary has all rounds of a group; all canaries have the first group's."""
    return [np.arange(0, ROUNDS, groups)] * canaries


EVEN = range(0, ROUNDS, 2)


@pytest.mark.parametrize(
    ("rounds", "released", "clause"),
    [
        (_one_round_each(range(ROUNDS), 1000), ROUNDS, None),
        (_one_round_each(range(40), 1000), ROUNDS, "in rounds 41 to 100"),
        (_one_round_each(EVEN, 1000), ROUNDS, "in 50 of 100 rounds"),
        (_one_round_each(EVEN, 2000), ROUNDS, "in 50 of 100 rounds"),
        # By chance 50 canaries may be in 50 rounds, and eight in one of two groups.
        (_one_round_each(EVEN, 50), ROUNDS, None),
        (_one_group_each(8), ROUNDS, None),
        # A run that stopped in round 10: of 1,000 canaries seven have had their round.
        (_one_round_each([1, 2, 4, 5, 7, 8, 9, *range(10, 1003)], 1000), 10, None),
        ([np.zeros(0, np.int64)] * 3, ROUNDS, None),
    ],
)
def test_rounds_without_canaries_are_named_if_chance_does_not_explain_them(
    rounds, released, clause
):
    found = _rounds_left_out(rounds, np.ones(len(rounds), bool), range(released))
    if clause is None:
        assert found is None
    else:
        assert found == f"no canary participated {clause}, so scores say nothing about them"


def test_chance_alone_leaves_out_rounds_about_once_in_a_thousand_audits():
    random, included = np.random.default_rng(1), np.ones(150, bool)
    groups = np.array([np.arange(group, ROUNDS, 20) for group in range(20)])
    named = {"alone": 0, "groups": 0}
    for _ in range(200):
        alone = list(random.integers(ROUNDS, size=(150, 1)))
        named["alone"] += _rounds_left_out(alone, included, range(ROUNDS)) is not None
        together = list(groups[random.integers(20, size=150)])
        named["groups"] += _rounds_left_out(together, included, range(ROUNDS)) is not None
    # Two tests at 0.001 each: three of 200 have a probability of 0.008.
    assert max(named.values()) <= 2


@pytest.mark.parametrize(
    ("statistic", "covered"),
    [
        (None, (True, True, True)),
        ("max", (True, True, True)),
        ("own_rounds", (True, False, False)),
        ("a statistic of a plugin", (True, True, False)),
    ],
)
def test_a_claim_that_counts_on_sampling_covers_no_attacker_who_may_know_rounds(statistic, covered):
    found = tuple(
        Scope(counts_on_sampling=counts).covers(statistic) for counts in (False, None, True)
    )
    assert found == covered
