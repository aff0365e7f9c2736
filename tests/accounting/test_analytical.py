"""The analytical epsilon of a run: participations, parts of the noise, and what is refused."""

import dataclasses
import math

import pytest

from fl_audit.accounting import (
    ADD_OR_REMOVE,
    ZERO_OUT,
    FixedRounds,
    FixedSizeSampling,
    Noise,
    Party,
    PoissonSampling,
    Release,
    SecretSampling,
    UnknownRounds,
    account,
    effective_noise_multiplier,
)
from fl_audit.accounting.analytical import noise_multiplier_for
from fl_audit.accounting.gaussian_accountants import (
    FixedSizeRounds,
    account_fixed_size,
    account_gaussian,
)
from fl_audit.engines.shadow_recipe import DpSgd, Recipe, accounted_epsilon, with_epsilon
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import epsilon_of_sigma
from tests.accounting.releases import release

DELTA = 1e-5


def poisson(noise_multiplier: float, probability: float = 0.1, rounds: int = 50) -> Release:
    return release(noise_multiplier, PoissonSampling(probability), rounds=rounds)


def shuffled(noise_multiplier: float, client: int, canary: int) -> Release:
    return release(noise_multiplier, client, canary)


def test_poisson_takes_the_tightest_accountant_for_everybody():
    accounting = account(poisson(0.2), DELTA)
    rdp, pld = accounting.client.by_accountant
    assert (rdp.accountant, pld.accountant) == ("rdp", "pld")
    assert accounting.epsilon == pld.epsilon < rdp.epsilon
    assert accounting.canary == accounting.client
    assert accounting.neighbours == ADD_OR_REMOVE


def test_a_sampling_without_an_accountant_may_be_in_every_round():
    accounting = account(release(1.0, SecretSampling()), DELTA)
    assert accounting.client.by_accountant == account_gaussian(1.0, 100, DELTA)


def test_poisson_with_probability_1_is_every_round():
    everybody = account(poisson(5.0, probability=1.0, rounds=50), DELTA)
    assert everybody.epsilon == account(shuffled(5.0, 50, 50), DELTA).epsilon
    assert everybody.client.participations == 50
    # And is the limit of probabilities below 1.
    almost = account(poisson(5.0, probability=0.9999, rounds=50), DELTA)
    assert almost.epsilon == pytest.approx(everybody.epsilon, rel=1e-3)


@pytest.mark.parametrize(("client", "canary"), [(1, 5), (5, 1), (3, 3)])
def test_the_single_number_is_about_whoever_takes_part_most(client, canary):
    accounting = account(shuffled(0.5, client, canary), DELTA)
    _, most = account_gaussian(0.5, max(client, canary), 1e-5)
    assert accounting.epsilon == most.epsilon
    assert (accounting.client.epsilon > accounting.canary.epsilon) == (client > canary)


def test_unknown_participation_is_no_number():
    accounting = account(release(1.0, UnknownRounds(), 1), DELTA)
    assert accounting.epsilon is None
    assert accounting.client.by_accountant[0].reason
    assert accounting.canary.by_accountant == account_gaussian(1.0, 1, 1e-5)


@pytest.mark.parametrize(
    "run",
    [
        poisson(0.0),
        poisson(0.0, 1.0),
        shuffled(0.0, 4, 1),
        release(0.0, FixedSizeSampling(20, 300)),
    ],
)
def test_no_noise_is_infinite_by_every_accountant(run):
    accounting = account(run, DELTA)
    assert accounting.epsilon == math.inf
    assert all(by.epsilon == math.inf for by in accounting.client.by_accountant)


@pytest.mark.parametrize("noise_multiplier", [0.0, 0.0644, 1.0])
def test_parts_compose_to_what_tff_splits(noise_multiplier):
    from fl_audit.config import GaussianAdaptive
    from fl_audit.mechanisms import round_noise

    noise = round_noise(GaussianAdaptive(noise_multiplier=noise_multiplier), 32.0)
    found = effective_noise_multiplier(noise.sum_noise_multiplier, noise.count_noise_stddev)
    assert found == pytest.approx(noise_multiplier, rel=1e-12)
    assert noise.sum_noise_multiplier > noise_multiplier or noise_multiplier == 0


def test_the_count_is_in_the_assumptions_only_where_it_is_released():
    with_count = release(1 / math.sqrt(2), sum_noise=1.0, count_noise=0.5)
    assert "count" in account(with_count, DELTA).assumes[0]
    assert "count" not in account(shuffled(1.0, 1, 1), DELTA).assumes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": 1.001}, r"noise_multiplier must be 1, .* got 1\.001"),
        ({"count_noise_stddev": 5.0}, r"noise_multiplier must be 0\.995037, .* got 1"),
        ({"sum_noise_multiplier": 0.0}, "noise_multiplier must be 0,"),
        ({"sum_noise_multiplier": -1.0}, "noise on the sum must be .* got -1.0"),
        ({"count_noise_stddev": math.nan}, "noise on the count must be .* got nan"),
    ],
)
def test_noise_that_does_not_add_up_is_refused(change, message):
    noise = dataclasses.replace(Noise("gaussian", 1.0, 1.0), **change)
    with pytest.raises(ValueError, match=message):
        shuffled(1.0, 1, 1).with_noise(noise)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: account(shuffled(1.0, 1, 1), 0.0), r"delta must be in \(0, 1\), got 0.0"),
        (lambda: release(1.0, rounds=0), "rounds must be at least 1, got 0"),
        (lambda: PoissonSampling(1.5), "sampling_probability must be .* got 1.5"),
        (lambda: FixedSizeSampling(0, 9), "sample_size must be .* is 9, got 0"),
        (lambda: FixedSizeSampling(10, 9), "sample_size must be .* is 9, got 10"),
    ],
)
def test_numbers_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def fixed_size(noise_multiplier: float, of: int = 300) -> Release:
    return release(noise_multiplier, FixedSizeSampling(20, of))


def test_fixed_size_samples_are_accounted_for_everybody_who_is_drawn():
    accounting = account(fixed_size(1.0), DELTA)
    expected = account_fixed_size(FixedSizeRounds(20, 300, 1.0, 100), 1e-5)
    assert accounting.client.by_accountant == accounting.canary.by_accountant == expected
    assert accounting.epsilon == min(by.epsilon for by in expected)
    assert accounting.client.participations is None
    # What the audit asks, an update or none, is a case of replacing one.
    assert accounting.neighbours == ZERO_OUT
    assert any("20 of 300 uniformly without replacement" in text for text in accounting.assumes)


def test_a_sample_of_everybody_is_every_round():
    accounting = account(fixed_size(5.0, of=20), DELTA)
    assert accounting.epsilon == account(shuffled(5.0, 100, 100), DELTA).epsilon
    assert accounting.client.participations == 100


@pytest.mark.parametrize("run", [poisson(1.0), fixed_size(1.0)])
def test_placed_canaries_are_not_sampled(run):
    accounting = account(dataclasses.replace(run, canary=Party(FixedRounds(7))), DELTA)
    assert accounting.canary.by_accountant == account_gaussian(1.0, 7, 1e-5)
    assert accounting.canary.participations == 7
    assert accounting.client == account(run, DELTA).client
    assert accounting.neighbours == ZERO_OUT
    client, canary = (text for text in accounting.assumes if text.startswith("For "))
    assert client.startswith("For real clients: Each ")
    assert canary.startswith("For canaries: No amplification is counted")


# The analytical epsilon by mechanism: where one is known, and the reason where none is.


TREE = release(0.8, 7, 1, distribution="tree", client_squared=28, canary_squared=4)


def by_law(distribution: str, made: Release = TREE) -> Release:
    return made.with_noise(dataclasses.replace(made.noise, distribution=distribution))


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
    assert "sampled rounds" in client.reason
    assert accounting.canary == account(TREE, 1e-5).canary
    assert accounting.neighbours == ZERO_OUT


@pytest.mark.parametrize(
    ("distribution", "zeroing", "reason"),
    [
        ("skellam", "none", "the clip norm is adaptive"),
        ("gaussian", "adaptive", "not noised"),
        ("tree", "adaptive", "not noised"),
        ("skellam", "adaptive", "not noised"),
    ],
)
def test_what_has_no_epsilon_says_why(distribution, zeroing, reason):
    run = dataclasses.replace(by_law(distribution), zeroing=zeroing)
    accounting = account(run, 1e-5)
    assert accounting.epsilon is accounting.client.epsilon is accounting.canary.epsilon is None
    assert reason in accounting.client.by_accountant[0].reason
    silent = run.with_noise(Noise(distribution, 0.0, 0.0))
    assert account(silent, 1e-5).epsilon == math.inf


def test_zeroing_at_a_fixed_norm_changes_no_epsilon():
    plain = by_law("gaussian")
    fixed = dataclasses.replace(plain, zeroing="fixed")
    accounting = account(fixed, 1e-5)
    assert accounting.client == account(plain, 1e-5).client
    assert any("depends on that update alone" in sentence for sentence in accounting.assumes)


# Noise for a target epsilon: closed forms, and targets that cannot be met.


@pytest.mark.parametrize("epsilon", [1e-3, 300.0])
def test_it_inverts_a_power(epsilon):
    found = noise_multiplier_for(epsilon, lambda z: 3 / z**2)
    assert found == pytest.approx(math.sqrt(3 / epsilon), rel=1e-4)
    assert 3 / found**2 <= epsilon


def test_epsilons_that_are_infinite_or_zero_somewhere_are_met():
    found = noise_multiplier_for(1.0, lambda z: math.inf if z < 5 else 0.0)
    assert found == pytest.approx(5.0, rel=1e-4)


def test_what_cannot_be_met_is_refused():
    with pytest.raises(InputError, match="finite number above 0"):
        noise_multiplier_for(0.0, lambda z: 1 / z)
    with pytest.raises(InputError, match=r"no noise multiplier gives epsilon 0\.5"):
        noise_multiplier_for(0.5, lambda z: 1.0)


def test_the_guarantee_of_models():
    plain = Recipe(2, 10, 0.1)
    assert accounted_epsilon(plain, 1e-5) == math.inf
    with pytest.raises(InputError, match="only DP-SGD"):
        with_epsilon(plain, 1.0, 1e-5)
    # Every step takes every point: one Gaussian mechanism of two steps.
    full = with_epsilon(Recipe(2, 10, 0.1, privacy=DpSgd(1.0, 0.0, 10)), 1.0, 1e-5)
    parts = DpSgd(1.0, 2 * full.privacy.noise_multiplier, 10, microbatches=5)
    assert accounted_epsilon(Recipe(2, 10, 0.1, privacy=parts), 1e-5) == accounted_epsilon(
        full, 1e-5
    )
    expected = epsilon_of_sigma(full.privacy.noise_multiplier / math.sqrt(2), 1e-5)
    assert expected == pytest.approx(1.0, rel=1e-2)
