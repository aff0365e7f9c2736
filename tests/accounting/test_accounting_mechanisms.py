"""The analytical epsilon by mechanism: where one is known, and the reason where none is."""

import dataclasses
import math

import pytest

from fl_audit.accounting import ZERO_OUT, NoisyRounds, account
from fl_audit.accounting.accountants import account_gaussian

TREE = NoisyRounds(
    rounds=100,
    delta=1e-5,
    noise_multiplier=0.8,
    sum_noise_multiplier=0.8,
    client_participations=7,
    canary_participations=1,
    noise_law="tree",
    client_squared_sensitivity=28,
    canary_squared_sensitivity=4,
)


def test_a_tree_is_one_release_of_all_its_nodes():
    accounting = account(TREE)
    assert accounting.client.by_accountant == account_gaussian(0.8, 28, 1e-5)
    assert accounting.canary.by_accountant == account_gaussian(0.8, 4, 1e-5)
    assert accounting.client.participations == 7
    assert accounting.epsilon == accounting.client.epsilon
    assert any("node of a tree" in sentence for sentence in accounting.assumes)


def test_a_tree_under_sampling_has_no_epsilon():
    drawn = dataclasses.replace(
        TREE,
        sampling_probability=0.1,
        client_participations=None,
        client_squared_sensitivity=None,
    )
    accounting = account(drawn)
    assert accounting.epsilon is None
    (client,) = accounting.client.by_accountant
    assert (client.accountant, client.epsilon) == ("none_known", None)
    assert "drawn at random" in client.reason
    assert accounting.canary == account(TREE).canary
    assert accounting.neighbours == ZERO_OUT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"noise_law": "skellam"}, "Skellam"),
        ({"noise_law": "gaussian", "zeroing": "adaptive"}, "not noised"),
        ({"zeroing": "adaptive"}, "not noised"),
        ({"noise_law": "skellam", "zeroing": "adaptive"}, "not noised"),
    ],
)
def test_what_has_no_epsilon_says_why(change, reason):
    run = dataclasses.replace(TREE, **change)
    accounting = account(run)
    assert accounting.epsilon is accounting.client.epsilon is accounting.canary.epsilon is None
    assert reason in accounting.client.by_accountant[0].reason
    silent = dataclasses.replace(run, noise_multiplier=0.0, sum_noise_multiplier=0.0)
    assert account(silent).epsilon == math.inf


def test_zeroing_at_a_fixed_norm_changes_no_epsilon():
    plain = dataclasses.replace(TREE, noise_law="gaussian")
    fixed = dataclasses.replace(plain, zeroing="fixed")
    assert account(fixed).client == account(plain).client
    assert any("depends on that update alone" in sentence for sentence in account(fixed).assumes)
