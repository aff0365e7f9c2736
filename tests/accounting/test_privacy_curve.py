"""Guarantees in full against closed forms, dp-accounting's distributions and simulated attacks."""

import dataclasses
import functools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from fl_audit.accounting import (
    AccountedEpsilon,
    FixedRounds,
    FixedSizeSampling,
    Guarantee,
    MinSeparationSampling,
    OneRoundPerBlock,
    PoissonSampling,
    SecretSampling,
    TruncatedPoissonSampling,
    attacker_bounds,
    full_guarantee,
)
from fl_audit.accounting.attacker_bounds import GaussianPair
from fl_audit.accounting.gaussian_accountants import SampledRounds, epsilon_pld
from fl_audit.accounting.privacy_curve import approximate_gdp, epsilon_of, largest_tpr
from tests.accounting.releases import release
from tests.gaussian_profile import delta_of_mu

DELTA = 1e-5
RATES = (0.001, 0.01, 0.1)


@functools.cache
def bounds_of(made, delta=DELTA):
    return attacker_bounds(made, made.client, delta)


def full(sampling, noise=1.0, *, knows=False, rounds=100, delta=DELTA, **facts):
    made = release(noise, sampling, rounds=rounds, **facts)
    return full_guarantee(made, made.client, bounds_of(made, delta), delta, knows)


def poisson_pld(z, q, rounds, interval=1e-3):
    one = pld.from_gaussian_mechanism(
        z, sampling_prob=q, value_discretization_interval=interval, pessimistic_estimate=True
    )
    return one.self_compose(rounds)


def rates(found):
    return [at.true_positive_rate for at in found.found]


@pytest.mark.parametrize(("rounds", "noise"), [(7, 1.0), (3, 100.0), (3, 0.1), (1, 1e-4)])
def test_rounds_without_sampling_are_one_gaussian_release(rounds, noise):
    found = full(FixedRounds(rounds), noise, rounds=1000)
    mu = math.sqrt(rounds) / noise
    assert found.mu == pytest.approx(mu, rel=1e-12)
    assert found.rho == pytest.approx(rounds / (2 * noise**2), rel=1e-12)
    assert found.approximate_mu is None
    assert [point.delta for point in found.profile] == [1e-4, 1e-5, 1e-6, 1e-7, 1e-8]
    for point in found.profile:
        if point.epsilon > 0:
            assert delta_of_mu(mu, point.epsilon) == pytest.approx(point.delta, rel=1e-5)
    assert rates(found) == pytest.approx(stats.norm.cdf(stats.norm.ppf(RATES) + mu), rel=1e-9)
    assert found.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1, rel=1e-9)


def test_a_profile_of_hardly_any_noise_is_finite():
    z, q, rounds = 1e-3, 0.1, 10
    numbers = np.arange(1, rounds + 1)
    masses = stats.binom.pmf(numbers, rounds, q)
    for point in full(PoissonSampling(q), z, rounds=rounds, knows=True).profile:
        deltas = [delta_of_mu(math.sqrt(number) / z, point.epsilon) for number in numbers]
        assert masses @ deltas == pytest.approx(point.delta, rel=1e-5)


@pytest.mark.parametrize(
    ("z", "q", "rounds"),
    [(0.7, 0.1, 50), pytest.param(1.0, 0.01, 1000, marks=pytest.mark.slow)],
)
def test_sampled_rounds_have_the_profile_and_the_risk_of_dp_accounting(z, q, rounds):
    found = full(PoissonSampling(q), z, rounds=rounds)
    reference = poisson_pld(z, q, rounds)
    for point in found.profile:
        epsilon = reference.get_epsilon_for_delta(point.delta)
        assert point.epsilon == pytest.approx(epsilon, rel=5e-3)
    epsilons = np.linspace(0, 30, 3001)
    forth, back = (
        np.array(pmf.get_delta_for_epsilon(epsilons))
        for pmf in (reference._pmf_remove, reference._pmf_add)
    )
    for rate, tpr in zip(RATES, rates(found), strict=True):
        lines = np.exp(epsilons) * rate + forth
        returned = 1 - np.exp(-epsilons) * (1 - rate - back)
        assert tpr == pytest.approx(min(lines.min(), returned.min()), rel=5e-3)
    assert found.advantage == pytest.approx(reference.get_delta_for_epsilon(0.0), rel=5e-3)


@pytest.mark.parametrize(
    ("sampling", "z", "rounds", "q"),
    [
        (PoissonSampling(0.5), 0.1, 100, 0.5),
        (MinSeparationSampling(0.5, 1, 60), 0.15, 60, 0.5),
        # A sample of 11 or more of 1,000 at a mean of 1 has probability 1e-8.
        (TruncatedPoissonSampling(0.001, 1_000, 10), 0.0644, 1_000, 0.001),
    ],
)
def test_ratios_beyond_floats_are_not_lost(sampling, z, rounds, q):
    found = full(sampling, z, rounds=rounds)
    # The attacker asks whether any round is above a threshold.
    for rate, tpr in zip(RATES, rates(found), strict=True):
        threshold = stats.norm.isf(-math.expm1(math.log1p(-rate) / rounds))
        caught = q * stats.norm.sf(threshold - 1 / z) + (1 - q) * stats.norm.sf(threshold)
        assert tpr >= -math.expm1(rounds * math.log1p(-caught)) - 1e-4
    at_delta = bounds_of(release(z, sampling, rounds=rounds)).not_knowing_rounds.guarantee.epsilon
    plain = epsilon_pld(SampledRounds(q, z, rounds), DELTA).epsilon
    epsilons = [point.epsilon for point in found.profile]
    assert epsilons == sorted(epsilons) and epsilons[1] == at_delta >= 0.999 * plain
    assert at_delta <= full(sampling, z, rounds=rounds, knows=True).profile[1].epsilon


@pytest.mark.sampled(1)
@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize(
    ("sampling", "rounds"),
    [(PoissonSampling(0.05), 200), (OneRoundPerBlock(4, ((50, 4),)), 200)],
)
def test_an_approximate_mu_covers_the_profile_and_is_hardly_too_large(sampling, rounds, knows):
    found = full(sampling, 1.0, rounds=rounds, knows=knows)
    made = release(1.0, sampling, rounds=rounds)
    pair = bounds_of(made).against(knows).pair
    if isinstance(pair, GaussianPair):
        assert found.approximate_mu is None
        return
    assert found.approximate_mu < 0.5 * found.mu
    epsilons = np.linspace(0, 40, 401)

    def covers(mu, tail):
        return all(max(pair.deltas(e)) <= delta_of_mu(mu, e) + tail * (1 + 1e-6) for e in epsilons)

    assert covers(found.approximate_mu, found.tail)
    assert not covers(0.99 * found.approximate_mu, found.tail)


def test_rho_is_the_limit_of_renyi_divergences_by_their_order():
    found = full(PoissonSampling(0.1), 1.0, rounds=100)
    event = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0))
    orders = [2, 8, 32, 128, 512]
    accountant = RdpAccountant(orders).compose(dp_accounting.SelfComposedDpEvent(event, 100))
    shares = accountant.rdp / np.array(orders)
    assert found.rho == 50
    assert (np.diff(shares) > 0).all()
    assert shares[-1] < found.rho
    assert shares[-1] == pytest.approx(found.rho, rel=0.02)


def test_tree_noise_is_one_gaussian_release():
    found = full(1, 2.0, distribution="tree", client_squared=9)
    assert (found.mu, found.rho) == (1.5, 1.125)


def test_samples_of_fixed_size_have_a_falling_profile_by_the_better_accountant():
    sampling = FixedSizeSampling(20, 2000)
    hidden = full(sampling, rounds=1000)
    seen = full(sampling, rounds=1000, knows=True)
    assert hidden.mu == seen.mu == pytest.approx(math.sqrt(1000))
    epsilons = [point.epsilon for point in hidden.profile]
    assert epsilons == sorted(epsilons)
    for one, other in zip(hidden.profile, seen.profile, strict=True):
        assert one.delta == other.delta
        assert one.epsilon <= other.epsilon


def test_whoever_guesses_finds_no_more_than_stated():
    # 200,000 rounds hidden among 10; a standard error is at most 0.0011, 6 of them 7e-3 (P < 1e-8).
    found = full(OneRoundPerBlock(1, ((10, 1),)), 0.6, rounds=10, delta=1e-3)
    rng = np.random.default_rng(1)
    count = 200_000
    seen = rng.normal(size=(2, count, 10))
    seen[1, np.arange(count), rng.integers(10, size=count)] += 1 / 0.6
    ratios = np.exp(seen / 0.6).sum(axis=2)  # the likelihood ratio but for a factor
    for at in found.found:
        threshold = np.quantile(ratios[0], 1 - at.false_positive_rate)
        share = (ratios[1] > threshold).mean()
        assert share == pytest.approx(at.true_positive_rate, abs=0.02)
        assert share <= at.true_positive_rate + 0.01


@pytest.mark.parametrize(
    ("facts", "noise"),
    [({"distribution": "skellam"}, 1.0), ({"zeroing": "adaptive"}, 1.0), ({}, 0.0)],
)
def test_where_nothing_is_guaranteed_the_reason_is_said(facts, noise):
    found = full(1, noise, **facts)
    assert (found.mu, found.rho, found.advantage, found.approximate_mu) == (None,) * 4
    assert found.profile == found.found == ()
    assert found.unknown


@dataclasses.dataclass(frozen=True)
class Oddly(SecretSampling):
    """A way to draw rounds of which an accountant knows (epsilon, delta) alone."""

    def guarantee(self, release, party, delta):
        return Guarantee(None, (AccountedEpsilon("odd", 1.0),))


def test_an_accountant_without_a_pair_gives_the_risk_of_its_points():
    found = full(Oddly())
    assert (found.mu, found.rho) == (None, None)
    assert "dominates" in found.unknown
    assert {point.epsilon for point in found.profile} == {1.0}
    # Kairouz et al.: TPR <= e^epsilon FPR + delta, 1 - TPR >= e^-epsilon (1 - FPR - delta).
    smallest = 1e-8
    assert rates(found) == pytest.approx([math.e * rate + smallest for rate in RATES])
    assert found.advantage == pytest.approx(math.tanh(0.5), abs=1e-7)
    point = found.profile[-1:]
    assert largest_tpr(0.5, None, point) == pytest.approx(1 - 0.5 / math.e, abs=1e-7)


def test_pairs_are_asked_at_both_ends():
    assert epsilon_of(GaussianPair(1e-3), 0.1) == 0
    assert epsilon_of(GaussianPair(math.inf), 0.5) == math.inf
    assert approximate_gdp(GaussianPair(math.inf), 0.5) is None
    assert approximate_gdp(GaussianPair(2.0), 1e-12) == pytest.approx(2.0, rel=5e-3)
    assert approximate_gdp(GaussianPair(1e-3), 0.1) == 0
