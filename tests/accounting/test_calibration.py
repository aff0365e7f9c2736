"""Noise for a target epsilon: closed forms, and targets that cannot be met."""

import math

import pytest

from fl_audit.accounting import account
from fl_audit.accounting.analytical import noise_multiplier_for
from fl_audit.engines.shadow_recipe import DpSgd, Recipe, guaranteed_epsilon, with_epsilon
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from tests.accounting.releases import release


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 8.0, 300.0])
def test_it_inverts_a_power(epsilon):
    found = noise_multiplier_for(epsilon, lambda z: 3 / z**2)
    assert found == pytest.approx(math.sqrt(3 / epsilon), rel=1e-4)
    assert 3 / found**2 <= epsilon


@pytest.mark.parametrize("rounds", [1, 16])
def test_several_releases_need_the_noise_of_one_that_is_longer(rounds):
    def epsilon(z):
        return account(release(z, rounds, 1, rounds=20), 1e-5).client.epsilon

    found = noise_multiplier_for(2.0, epsilon)
    assert epsilon_of_sigma(found / math.sqrt(rounds), 1e-5) == pytest.approx(2.0, rel=1e-3)


def test_epsilons_that_are_infinite_or_zero_somewhere_are_met():
    assert noise_multiplier_for(1.0, lambda z: math.inf if z < 5 else 0.0) == pytest.approx(
        5.0, rel=1e-4
    )


def test_what_cannot_be_met_is_refused():
    with pytest.raises(InputError, match="finite number above 0"):
        noise_multiplier_for(0.0, lambda z: 1 / z)
    with pytest.raises(InputError, match=r"no noise gives epsilon 0\.5"):
        noise_multiplier_for(0.5, lambda z: 1.0)
    with pytest.raises(InputError, match="no accountant"):
        noise_multiplier_for(0.5, lambda z: None)


def test_the_guarantee_of_models():
    plain = Recipe(2, 10, 0.1)
    assert guaranteed_epsilon(plain, 1e-5) == math.inf
    with pytest.raises(InputError, match="only DP-SGD"):
        with_epsilon(plain, 1.0, 1e-5)
    # Every step takes every point: one Gaussian mechanism of two steps.
    full = with_epsilon(Recipe(2, 10, 0.1, privacy=DpSgd(1.0, 0.0, 10)), 1.0, 1e-5)
    parts = DpSgd(1.0, 2 * full.privacy.noise_multiplier, 10, microbatches=5)
    assert guaranteed_epsilon(Recipe(2, 10, 0.1, privacy=parts), 1e-5) == guaranteed_epsilon(
        full, 1e-5
    )
    expected = epsilon_of_sigma(full.privacy.noise_multiplier / math.sqrt(2), 1e-5)
    assert expected == pytest.approx(1.0, rel=1e-2)
