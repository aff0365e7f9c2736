"""The analytical epsilon against the paper's table, closed forms, quadrature and simulation."""

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, special, stats

from fl_audit.accounting import (
    ADD_OR_REMOVE,
    RDP_ORDERS,
    ZERO_OUT,
    NoisyRounds,
    SampledRounds,
    account,
    effective_noise_multiplier,
    epsilon_pld,
    epsilon_rdp,
)

STACK_OVERFLOW_DELTA = 341_000**-1.1
TABLE_3 = [(0.0644, 100_000), (0.1023, 1000), (0.1836, 100), (0.2344, 50)]


def poisson(noise_multiplier: float, probability: float = 0.1, rounds: int = 50) -> NoisyRounds:
    return NoisyRounds(
        rounds, 1e-5, noise_multiplier, noise_multiplier, sampling_probability=probability
    )


def shuffled(noise_multiplier: float, client: int | None, canary: int | None) -> NoisyRounds:
    return NoisyRounds(
        rounds=100,
        delta=1e-5,
        noise_multiplier=noise_multiplier,
        sum_noise_multiplier=noise_multiplier,
        client_participations=client,
        canary_participations=canary,
    )


def balle_wang_epsilon(shift: float, delta: float) -> float:
    """The analytic Gaussian mechanism (Balle & Wang 2018, theorem 8)."""

    def excess(epsilon: float) -> float:
        log_p = special.log_ndtr(shift / 2 - epsilon / shift)
        log_q = special.log_ndtr(-shift / 2 - epsilon / shift)
        return float(log_p + np.log1p(-np.exp(epsilon + log_q - log_p))) - math.log(delta)

    return float(optimize.brentq(excess, 0, shift**2 + 50 * shift, xtol=1e-13, rtol=1e-14))


# Andrew et al., Tables 2 and 3. The text says "Bernoulli sampling at a rate of q = 167/2048
# (about 0.081)", but 2048 is the number of rounds: what reproduces the printed column is q =
# 167/341000, with dp-accounting's default orders, the smallest of which is 1.1.
@pytest.mark.parametrize(("noise_multiplier", "printed"), TABLE_3)
def test_the_papers_epsilons_come_from_the_share_of_clients_in_a_round(noise_multiplier, printed):
    rounds = SampledRounds(167 / 341_000, noise_multiplier, 2048)
    default_orders = RdpAccountant().orders.tolist()
    found = epsilon_rdp(rounds.event, STACK_OVERFLOW_DELTA, default_orders)
    assert found == pytest.approx(printed, rel=5e-3)


@pytest.mark.parametrize(("noise_multiplier", "printed"), TABLE_3)
def test_the_rate_that_the_paper_prints_does_not_give_its_epsilons(noise_multiplier, printed):
    rounds = SampledRounds(167 / 2048, noise_multiplier, 2048)
    default_orders = RdpAccountant().orders.tolist()
    assert epsilon_rdp(rounds.event, STACK_OVERFLOW_DELTA, default_orders) > 2 * printed


# Values of this code, so that a change is seen. Orders nearer 1 are worth a factor of 87 in the
# first row; privacy loss distributions are tighter still.
@pytest.mark.parametrize(
    ("noise_multiplier", "rdp", "pld"),
    [(0.0644, 1148.0, 1004.0), (0.1023, 422.0, 369.19), (0.1836, 100.0, 86.974)],
)
def test_tighter_epsilons_for_the_papers_runs(noise_multiplier, rdp, pld):
    rounds = SampledRounds(167 / 341_000, noise_multiplier, 2048)
    assert epsilon_rdp(rounds.event, STACK_OVERFLOW_DELTA) == pytest.approx(rdp, rel=2e-3)
    assert epsilon_pld(rounds, STACK_OVERFLOW_DELTA).epsilon == pytest.approx(pld, rel=1e-3)


def renyi_divergence(probability: float, noise_multiplier: float, order: float) -> float:
    """Of one Poisson-sampled Gaussian from pure noise, by summing on a fine grid."""
    z, q = noise_multiplier, probability
    x = np.linspace(-40 * z, order + 40 * z, 400_001)
    ratio = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * z * z))
    log_integrand = stats.norm.logpdf(x, scale=z) + order * ratio
    return float(special.logsumexp(log_integrand) + math.log(x[1] - x[0])) / (order - 1)


@pytest.mark.parametrize("order", [1.02, 1.3, 3.5, 8])
@pytest.mark.parametrize(("q", "z"), [(167 / 341_000, 0.0644), (0.08, 0.3), (0.5, 2.0)])
def test_rdp_at_one_order_is_what_quadrature_gives(q, z, order):
    delta, num_rounds = 1e-6, 100
    # Canonne, Kamath & Steinke (2020), proposition 12.
    conversion = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    expected = num_rounds * renyi_divergence(q, z, order) + conversion
    found = epsilon_rdp(SampledRounds(q, z, num_rounds).event, delta, [order])
    assert found == pytest.approx(expected, rel=1e-6)


def test_divergences_that_round_below_zero_are_survived():
    # dp-accounting finds -4e-17 at order 3 here, and refuses it.
    event = SampledRounds(2.3015016624419502e-07, 281.76377375840974, 1).event
    assert (RdpAccountant(orders=list(RDP_ORDERS)).compose(event).rdp < 0).any()
    assert 0 <= epsilon_rdp(event, 1e-9) < 0.01


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


@pytest.mark.parametrize("delta", [1e-2, 1e-9])
@pytest.mark.parametrize(("q", "z"), [(0.05, 0.1), (0.3, 1.0), (0.9, 3.0)])
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


@pytest.mark.parametrize(
    ("q", "z", "num_rounds"),
    [(0.08, 0.0644, 2048), (0.1, 1.0, 100), (0.9, 20.0, 10), (1e-4, 5.0, 10_000)],
)
def test_pld_is_tighter_than_rdp(q, z, num_rounds):
    rounds = SampledRounds(q, z, num_rounds)
    assert epsilon_pld(rounds, 1e-6).epsilon <= epsilon_rdp(rounds.event, 1e-6)


@pytest.mark.parametrize(
    ("rounds", "delta", "word"),
    [
        (SampledRounds(0.1, 1.0, 100), 1e-12, "FFT"),
        # e^-epsilon is a denormal number: epsilon is about 716 here.
        (SampledRounds(0.08, 0.3, 1930), 8.2e-7, "floating point"),
        # Losses of 1e11 nats: e to the grid's spacing overflows.
        (SampledRounds(0.05, 1e-6, 1000), 8.2e-7, "floating point"),
    ],
)
def test_pld_says_where_it_cannot_tell(rounds, delta, word):
    found = epsilon_pld(rounds, delta)
    assert found.epsilon is None
    assert word in found.reason
    assert math.isfinite(epsilon_rdp(rounds.event, delta))


def test_rdp_stands_in_where_pld_cannot_tell():
    run = dataclasses.replace(poisson(0.3, 0.08, 1930), delta=8.2e-7)
    rdp, pld = account(run).client.by_accountant
    assert pld.epsilon is None
    assert account(run).epsilon == rdp.epsilon
    assert 700 < rdp.epsilon < 800


def test_poisson_takes_the_tightest_accountant_for_everybody():
    accounting = account(poisson(0.2))
    rdp, pld = accounting.client.by_accountant
    assert (rdp.accountant, pld.accountant) == ("rdp", "pld")
    assert accounting.epsilon == pld.epsilon < rdp.epsilon
    assert accounting.canary == accounting.client
    assert accounting.neighbours == ADD_OR_REMOVE


def test_poisson_with_probability_1_is_every_round():
    everybody = account(poisson(5.0, probability=1.0, rounds=50))
    assert everybody.epsilon == account(shuffled(5.0, 50, 50)).epsilon
    assert everybody.client.participations == 50
    # And is the limit of probabilities below 1.
    almost = account(poisson(5.0, probability=0.9999, rounds=50))
    assert almost.epsilon == pytest.approx(everybody.epsilon, rel=1e-3)


@pytest.mark.parametrize("participations", [1, 4, 100])
@pytest.mark.parametrize("noise_multiplier", [0.01, 0.3, 1.0, 30.0])
def test_fixed_participation_is_the_analytic_gaussian(noise_multiplier, participations):
    accounting = account(shuffled(noise_multiplier, participations, 1))
    shift = math.sqrt(participations) / noise_multiplier
    assert accounting.client.epsilon == pytest.approx(balle_wang_epsilon(shift, 1e-5), rel=1e-9)
    by_dp_accounting = GaussianPrivacyLoss(1 / shift).get_delta_for_epsilon(
        [accounting.client.epsilon]
    )
    assert by_dp_accounting[0] == pytest.approx(1e-5, rel=1e-6)
    rdp, exact = accounting.client.by_accountant
    assert exact.epsilon <= rdp.epsilon <= 1.35 * exact.epsilon
    assert accounting.neighbours == ZERO_OUT


@pytest.mark.parametrize(("client", "canary"), [(1, 5), (5, 1), (3, 3)])
def test_the_single_number_is_about_whoever_takes_part_most(client, canary):
    accounting = account(shuffled(0.5, client, canary))
    most = account(shuffled(0.5, 5 if client != canary else 3, 1)).client.epsilon
    assert accounting.epsilon == most
    assert (accounting.client.epsilon > accounting.canary.epsilon) == (client > canary)


def test_unknown_participation_is_no_number():
    accounting = account(shuffled(1.0, None, 1))
    assert accounting.epsilon is None
    assert accounting.client.by_accountant[0].reason
    assert accounting.canary.epsilon == pytest.approx(balle_wang_epsilon(1.0, 1e-5))


@pytest.mark.parametrize("run", [poisson(0.0), poisson(0.0, 1.0), shuffled(0.0, 4, 1)])
def test_no_noise_is_infinite_by_every_accountant(run):
    accounting = account(run)
    assert accounting.epsilon == math.inf
    assert all(by.epsilon == math.inf for by in accounting.client.by_accountant)


def test_more_noise_is_more_private():
    for make in (poisson, lambda noise: shuffled(noise, 3, 1)):
        epsilons = [account(make(noise)).epsilon for noise in (0.2, 1.0, 3.0)]
        assert epsilons[0] > epsilons[1] > epsilons[2]


def test_orders_include_dp_accountings_own():
    assert set(np.round(RdpAccountant().orders, 9)) <= set(np.round(RDP_ORDERS, 9))


@pytest.mark.parametrize("noise_multiplier", [0.0, 0.0644, 1.0])
def test_parts_compose_to_what_tff_splits(noise_multiplier):
    from fl_audit.config import GaussianAdaptive
    from fl_audit.training.mechanism import round_noise

    noise = round_noise(GaussianAdaptive(noise_multiplier=noise_multiplier), 32.0)
    found = effective_noise_multiplier(noise.sum_noise_multiplier, noise.count_noise_stddev)
    assert found == pytest.approx(noise_multiplier, rel=1e-12)
    assert noise.sum_noise_multiplier > noise_multiplier or noise_multiplier == 0


def test_the_count_is_in_the_assumptions_only_where_it_is_released():
    with_count = NoisyRounds(10, 1e-5, 1 / math.sqrt(2), 1.0, 0.5, client_participations=1)
    assert "count" in account(with_count).assumes[0]
    assert "count" not in account(shuffled(1.0, 1, 1)).assumes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_multiplier": 1.001}, r"noise_multiplier must be 1, .* got 1\.001"),
        ({"count_noise_stddev": 5.0}, r"noise_multiplier must be 0\.995037, .* got 1"),
        ({"sum_noise_multiplier": 0.0}, "noise_multiplier must be 0,"),
        ({"sum_noise_multiplier": -1.0}, "noise on the sum must be .* got -1.0"),
        ({"count_noise_stddev": math.nan}, "noise on the count must be .* got nan"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"sampling_probability": 1.5}, "sampling_probability must be .* got 1.5"),
    ],
)
def test_a_run_that_does_not_add_up_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(shuffled(1.0, 1, 1), **change)
