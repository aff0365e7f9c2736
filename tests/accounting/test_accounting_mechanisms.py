"""The analytical epsilon by mechanism: where one is known, and the reason where none is."""

import dataclasses
import math

import pytest

from fl_audit.accounting import ZERO_OUT, Noise, Party, PoissonSampling, Release, account
from fl_audit.accounting.accountants import account_gaussian
from tests.accounting.releases import release

TREE = release(0.8, 7, 1, law="tree", client_squared=28, canary_squared=4)


def by_law(law: str, made: Release = TREE) -> Release:
    return made.with_noise(dataclasses.replace(made.noise, law=law))


def test_a_tree_is_one_release_of_all_its_nodes():
    accounting = account(TREE, 1e-5)
    assert accounting.client.by_accountant == account_gaussian(0.8, 28, 1e-5)
    assert accounting.canary.by_accountant == account_gaussian(0.8, 4, 1e-5)
    assert accounting.client.participations == 7
    assert accounting.epsilon == accounting.client.epsilon
    assert any("node of a tree" in sentence for sentence in accounting.assumes)


def test_a_tree_under_sampling_has_no_epsilon():
    drawn = dataclasses.replace(TREE, client=Party(PoissonSampling(0.1)))
    accounting = account(drawn, 1e-5)
    assert accounting.epsilon is None
    (client,) = accounting.client.by_accountant
    assert (client.accountant, client.epsilon) == ("none_known", None)
    assert "drawn at random" in client.reason
    assert accounting.canary == account(TREE, 1e-5).canary
    assert accounting.neighbours == ZERO_OUT


@pytest.mark.parametrize(
    ("law", "zeroing", "reason"),
    [
        ("skellam", "none", "Skellam"),
        ("gaussian", "adaptive", "not noised"),
        ("tree", "adaptive", "not noised"),
        ("skellam", "adaptive", "not noised"),
    ],
)
def test_what_has_no_epsilon_says_why(law, zeroing, reason):
    run = dataclasses.replace(by_law(law), zeroing=zeroing)
    accounting = account(run, 1e-5)
    assert accounting.epsilon is accounting.client.epsilon is accounting.canary.epsilon is None
    assert reason in accounting.client.by_accountant[0].reason
    silent = run.with_noise(Noise(law, 0.0, 0.0))
    assert account(silent, 1e-5).epsilon == math.inf


def test_zeroing_at_a_fixed_norm_changes_no_epsilon():
    plain = by_law("gaussian")
    fixed = dataclasses.replace(plain, zeroing="fixed")
    accounting = account(fixed, 1e-5)
    assert accounting.client == account(plain, 1e-5).client
    assert any("depends on that update alone" in sentence for sentence in accounting.assumes)
