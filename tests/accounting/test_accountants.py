"""Accountants against the paper's table, closed forms, quadrature and simulation."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, stats

from fl_audit.accounting import (
    ADD_OR_REMOVE,
    ZERO_OUT,
    NoiseDistribution,
    PoissonSampling,
    Release,
    account,
    none_known,
    register_noise_distribution,
    remove_noise_distribution,
)
from fl_audit.accounting.gaussian_accountants import (
    FixedSizeRounds,
    SampledRounds,
    account_fixed_size,
    account_gaussian,
    account_sampled,
    epsilon_pld,
    epsilon_rdp_fixed_size,
    epsilon_seen_rounds,
)
from fl_audit.accounting.renyi import RDP_ORDERS, epsilon_of_divergences
from tests.accounting.releases import release
from tests.gaussian_profile import epsilon_of_mu


def exact_epsilon_of_one_round(probability: float, noise_multiplier: float, delta: float) -> float:
    """By the hockey-stick divergence of N(0) and the mixture, in both directions."""
    q, z = probability, noise_multiplier

    def remove(epsilon: float) -> float:
        at = z**2 * math.log((math.exp(epsilon) - 1 + q) / q) + 0.5
        above, above_in = stats.norm.sf(at, 0, z), stats.norm.sf(at, 1, z)
        return float((1 - q) * above + q * above_in - math.exp(epsilon) * above)

    def add(epsilon: float) -> float:
        if math.exp(-epsilon) <= 1 - q:
            return 0.0
        at = z**2 * math.log((math.exp(-epsilon) - 1 + q) / q) + 0.5
        below, below_in = stats.norm.cdf(at, 0, z), stats.norm.cdf(at, 1, z)
        return float(below - math.exp(epsilon) * ((1 - q) * below + q * below_in))

    return float(optimize.brentq(lambda e: max(remove(e), add(e)) - delta, 0, 500, xtol=1e-12))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("q", "z", "delta"),
    [
        (0.05, 0.1, 1e-9),
        (0.9, 3.0, 1e-2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((0.05, 0.1, 1e-2), (0.3, 1.0, 1e-2), (0.3, 1.0, 1e-9), (0.9, 3.0, 1e-13))
        ),
    ],
)
def test_pld_of_one_round_is_exact_and_never_below(q, z, delta):
    exact = exact_epsilon_of_one_round(q, z, delta)
    found = epsilon_pld(SampledRounds(q, z, 1), delta).epsilon
    assert found == pytest.approx(exact, rel=1e-4)
    assert found >= exact * (1 - 1e-9)


def test_pld_of_many_rounds_is_what_simulation_gives():
    q, z, num_rounds, delta, trials = 0.2, 1.0, 30, 0.05, 200_000
    epsilon = epsilon_pld(SampledRounds(q, z, num_rounds), delta).epsilon
    rng = np.random.default_rng(0)
    loss = np.zeros(trials)
    for _ in range(num_rounds):
        output = rng.normal(0, z, trials) + (rng.random(trials) < q)
        loss += np.log1p(q * np.expm1((2 * output - 1) / (2 * z * z)))
    gains = np.maximum(-np.expm1(epsilon - loss), 0)
    standard_error = gains.std() / math.sqrt(trials)
    assert standard_error < 0.01 * delta
    # Fails by chance with probability 6e-7 (5 standard errors, two-sided).
    assert gains.mean() == pytest.approx(delta, abs=5 * standard_error)


def test_pld_says_where_it_cannot_tell():
    rdp, pld = account_sampled(SampledRounds(0.05, 1e-6, 1000), 8.2e-7)  # losses of 1e11 nats
    assert pld.epsilon is None
    assert "floating point" in pld.reason
    assert math.isfinite(rdp.epsilon)


@pytest.mark.parametrize(
    ("noise_multiplier", "participations"), [(0.01, 4), (0.3, 1), (1.0, 100), (30.0, 1)]
)
def test_releases_without_sampling_are_the_analytic_gaussian(noise_multiplier, participations):
    rdp, exact = account_gaussian(noise_multiplier, participations, 1e-5)
    shift = math.sqrt(participations) / noise_multiplier
    assert exact.epsilon == pytest.approx(epsilon_of_mu(shift, 1e-5), rel=1e-9)
    assert exact.epsilon <= rdp.epsilon <= 1.35 * exact.epsilon


@pytest.mark.parametrize(("z", "num_rounds"), [(0.3, 1), (1.0, 4), (30.0, 100)])
def test_samples_of_everybody_are_no_samples(z, num_rounds):
    found = epsilon_seen_rounds(1.0, num_rounds, z, 1e-5)
    expected = epsilon_of_mu(math.sqrt(num_rounds) / z, 1e-5)
    assert found == pytest.approx(expected, rel=1e-9)


def test_seen_samples_are_what_listing_all_samples_gives():
    # Client 0 of 4 in three rounds that draw 2 each: 6^3 equally likely triples of samples.
    z, delta = 0.7, 1e-3
    epsilon = epsilon_seen_rounds(0.5, 3, z, delta)
    samples = list(itertools.combinations(range(4), 2))
    deltas = []
    for triple in itertools.product(samples, repeat=3):
        seen = sum(0 in sample for sample in triple)
        gaussian = GaussianPrivacyLoss(z / math.sqrt(seen)) if seen else None
        deltas.append(gaussian.get_delta_for_epsilon([epsilon])[0] if gaussian else 0.0)
    assert np.mean(deltas) == pytest.approx(delta, rel=1e-9)


def test_whoever_is_hardly_ever_seen_is_safe():
    assert epsilon_seen_rounds(1e-6, 5, 1e-3, 1e-5) == 0
    assert 0 < epsilon_seen_rounds(1e-6, 5, 1e-3, 4e-6) < math.inf
    assert epsilon_seen_rounds(1e-6, 5, 0.0, 1e-5) == 0
    assert epsilon_seen_rounds(1e-6, 5, 0.0, 4e-6) == math.inf
    assert epsilon_rdp_fixed_size(FixedSizeRounds(1, 10**6, 0.0, 5), 1e-5) == math.inf


@pytest.mark.parametrize(("q", "z"), [(0.1, 0.5), (0.1, 4.0), (0.5, 10.0)])
def test_rdp_without_replacement_at_order_2_is_the_theorem(q, z):
    # Wang et al. 2019, theorem 9 at order 2, where the Gaussian's divergence is (2 / z)^2; without
    # the term for a bounded order of infinity, which a Gaussian does not have.
    gaussian = (2 / z) ** 2
    expected = math.log1p(q**2 * min(4 * math.expm1(gaussian), 2 * math.exp(gaussian)))
    rounds = FixedSizeRounds(round(1000 * q), 1000, z, 1)
    accountant = RdpAccountant([2.0], NeighboringRelation.REPLACE_ONE)
    assert accountant.compose(rounds.replacing_one).rdp[0] == pytest.approx(expected, rel=1e-9)


def delta_of_one_round(
    first: tuple[float, ...], second: tuple[float, ...], size: int, z: float, epsilon: float
) -> float:
    """Exact delta of a round's noised sum of a sample of either, on a grid, in both directions."""
    at = np.linspace(-size - 10 * z, size + 10 * z, 20_001)

    def density(updates: tuple[float, ...]) -> np.ndarray:
        sums = [sum(sample) for sample in itertools.combinations(updates, size)]
        return np.mean([stats.norm.pdf(at, total, z) for total in sums], axis=0)

    p, q = density(first), density(second)
    excess = [np.maximum(x - math.exp(epsilon) * y, 0).sum() for x, y in ((p, q), (q, p))]
    return float(max(excess) * (at[1] - at[0]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("size", "z"), [(1, 1.0), pytest.param(2, 2.0, marks=pytest.mark.slow), (3, 0.8)]
)
def test_fixed_size_bounds_hold_for_every_small_population(size, z):
    delta = 1e-4
    rounds = FixedSizeRounds(size, 5, z, 1)
    replaced = epsilon_rdp_fixed_size(rounds, delta)
    silenced = epsilon_seen_rounds(size / 5, 1, z, delta)
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), 4):
        one, silent, opposite = ((update, *others) for update in (1.0, 0.0, -1.0))
        assert delta_of_one_round(one, silent, size, z, silenced) <= delta
        assert delta_of_one_round(one, silent, size, z, replaced) <= delta
        assert delta_of_one_round(one, opposite, size, z, replaced) <= delta


def test_rdp_without_replacement_composes_over_rounds():
    # 4 rounds at noise z are at least one at z / 2, which sampling would have to undo.
    one, four = (epsilon_rdp_fixed_size(FixedSizeRounds(3, 100, 4.0, t), 1e-6) for t in (1, 4))
    assert one < four < 4 * one
    # Sampling never costs anything, not even where the theorem's constants exceed what it gains.
    for sample_size in (3, 60, 99):
        rounds = FixedSizeRounds(sample_size, 100, 1.0, 50)
        unsampled, _ = account_gaussian(rounds.noise_multiplier / 2, rounds.rounds, 1e-6)
        assert epsilon_rdp_fixed_size(rounds, 1e-6) <= unsampled.epsilon


def test_orders_that_are_not_tried_give_no_smaller_epsilon():
    rounds = FixedSizeRounds(20, 300, 1.0, 40)
    sampled, unsampled = (
        RdpAccountant(list(RDP_ORDERS), NeighboringRelation.REPLACE_ONE).compose(event).rdp
        for event in (rounds.replacing_one, rounds.replacing_one.event)
    )
    by_all = epsilon_of_divergences(RDP_ORDERS, 40 * np.minimum(sampled, unsampled), 1e-6)
    assert epsilon_rdp_fixed_size(rounds, 1e-6) == by_all


def test_which_accountant_is_tighter_depends_on_the_noise():
    little, much = (
        account_fixed_size(FixedSizeRounds(167, 341_000, z, 2048), 341_000**-1.1)
        for z in (0.1836, 1.0)
    )
    assert [by.accountant for by in little] == ["rdp", "seen_samples"]
    assert little[1].epsilon < little[0].epsilon
    assert much[0].epsilon < much[1].epsilon


# Noise laws by name, and one from outside the package.


LAPLACE = NoiseDistribution(
    name="laplace",
    guarantee=lambda run, party, delta: none_known(party.participations, f"{run.rounds} rounds"),
    counts_drawing=True,
    release_assumptions=("Everything is released.",),
    noise_assumption="Noise is exactly Laplacian.",
)


def drawn(distribution: str) -> Release:
    return release(1.0, PoissonSampling(0.1), rounds=10, distribution=distribution)


@pytest.fixture
def laplace():
    register_noise_distribution(LAPLACE)
    yield
    remove_noise_distribution("laplace")


def test_a_law_from_outside(laplace):
    accounting = account(drawn("laplace"), 1e-5)
    assert accounting.client.by_accountant[0].reason == "10 rounds"
    assert accounting.neighbours == ADD_OR_REMOVE
    assert accounting.assumes[1] == "Everything is released."
    assert "probability 0.1" in accounting.assumes[2]
    assert accounting.assumes[-1] == "Noise is exactly Laplacian."
    with pytest.raises(ValueError, match="'laplace' is registered already"):
        register_noise_distribution(LAPLACE)


@pytest.mark.parametrize("distribution", ["tree", "skellam"])
def test_laws_that_count_nothing_on_drawn_rounds(distribution):
    accounting = account(drawn(distribution), 1e-5)
    assert accounting.neighbours == ZERO_OUT
    assert any(said.startswith("No amplification is counted") for said in accounting.assumes)


def test_an_unknown_law_is_never_taken_for_gaussian():
    laws = "gaussian, tree, matrix, client_gaussian, skellam"
    with pytest.raises(ValueError, match=f"must be one of {laws}, got 'laplace'"):
        account(drawn("laplace"), 1e-5)
