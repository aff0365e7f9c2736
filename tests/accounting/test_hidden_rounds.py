"""Epsilon under a secret participation schedule, against closed forms and quadrature."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from fl_audit.accounting.gaussian_accountants import SampledRounds, account_gaussian, epsilon_pld
from fl_audit.accounting.hidden_rounds import (
    RatioDistribution,
    gaussian_ratio,
    one_round_of_each,
    sampled_rounds,
    weighted_sum,
)


def exact(noise_multiplier: float, releases: int, delta: float) -> float:
    epsilon = account_gaussian(noise_multiplier, releases, delta)[1].epsilon
    assert epsilon is not None
    return epsilon


@pytest.mark.parametrize(("noise_multiplier", "delta"), [(0.1, 1e-12), (1.0, 1e-3), (10.0, 1e-12)])
def test_one_round_is_the_gaussian_mechanism(noise_multiplier, delta):
    found = one_round_of_each(noise_multiplier, ((1, 1),), delta).epsilon(delta)
    truth = exact(noise_multiplier, 1, delta)
    assert truth <= found <= 1.0001 * truth


@pytest.mark.parametrize(("noise_multiplier", "rounds"), [(0.3, 3), (3.0, 200)])
def test_blocks_of_one_round_compose_to_the_gaussian_mechanism(noise_multiplier, rounds):
    found = one_round_of_each(noise_multiplier, ((1, rounds),), 1e-6).epsilon(1e-6)
    truth = exact(noise_multiplier, rounds, 1e-6)
    assert truth <= found <= 1.001 * truth


def above(log_mean: float, threshold: float, shift: float) -> float:
    """E (e^log_mean W - threshold)_+ for the log-normal ratio W = exp(shift z - shift^2 / 2)."""
    if threshold <= 0:
        return math.exp(log_mean) - threshold
    start = (log_mean - math.log(threshold)) / shift
    return math.exp(log_mean) * special.ndtr(start + shift / 2) - threshold * special.ndtr(
        start - shift / 2
    )


def deltas_of_two_rounds(shift: float, epsilon: float) -> tuple[float, float]:
    """The deltas of a mean of two rounds, by one quadrature over the first round's ratio."""
    half = math.log(0.5)

    def forth(z: float) -> float:
        first = 0.5 * math.exp(shift * z - shift**2 / 2)
        return math.exp(-(z**2) / 2) * above(half, math.exp(epsilon) - first, shift)

    def back(z: float) -> float:
        rest = math.exp(-epsilon) - 0.5 * math.exp(shift * z - shift**2 / 2)
        below = above(half, rest, shift) - 0.5 + rest if rest > 0 else 0.0
        return math.exp(-(z**2) / 2) * math.exp(epsilon) * below

    kinks = sorted((math.log(2) + sign * epsilon + shift**2 / 2) / shift for sign in (1.0, -1.0))
    ends = [-12.0, *(k for k in kinks if -12 < k < shift + 12), shift + 12]
    return tuple(
        sum(
            integrate.quad(f, a, b, epsabs=0, epsrel=1e-10, limit=400)[0]
            for a, b in itertools.pairwise(ends)
        )
        / math.sqrt(2 * math.pi)
        for f in (forth, back)
    )


@pytest.mark.parametrize(("shift", "part"), [(0.1, 2.0), (1.0, 1.0), (3.0, 0.2)])
def test_two_rounds_agree_with_a_quadrature_in_both_directions(shift, part):
    epsilon = part * shift
    distribution = one_round_of_each(1 / shift, ((2, 1),), 1e-9)
    for found, truth in zip(
        distribution.deltas(epsilon), deltas_of_two_rounds(shift, epsilon), strict=True
    ):
        assert truth * (1 - 1e-7) - 1e-13 <= found <= truth * 1.01 + 1e-12


@pytest.mark.parametrize(
    ("noise_multiplier", "delta"),
    [
        (1.0, 1e-3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((0.1, 1e-12), (1.0, 1e-12), (10.0, 1e-3))
        ),
    ],
)
def test_more_rounds_hide_more(noise_multiplier, delta):
    epsilons = [
        one_round_of_each(noise_multiplier, ((rounds, 1),), delta).epsilon(delta)
        for rounds in (1, 2, 16, 333, 2_000)
    ]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[-1] < epsilons[0]


# One round cannot hide better than by the log of the number of rounds: the ratio is at least
# W_1 / T. With little noise it hides just as well as that.
def test_with_little_noise_a_hidden_round_is_worth_the_log_of_the_number_of_rounds():
    for rounds in (2, 100, 1_999):
        found = one_round_of_each(0.1, ((rounds, 1),), 1e-6).epsilon(1e-6)
        assert found == pytest.approx(exact(0.1, 1, 1e-6) - math.log(rounds), abs=2e-3)


@pytest.mark.parametrize(
    ("noise_multiplier", "probability", "rounds", "delta"),
    [
        (0.3, 1 / 15, 100, 1e-3),
        pytest.param(1.0, 0.01, 2_000, 1e-5, marks=pytest.mark.slow),
        pytest.param(1.0, 0.1, 100, 1e-12, marks=pytest.mark.slow),
        pytest.param(5.0, 0.5, 100, 1e-6, marks=pytest.mark.slow),
    ],
)
def test_sampled_rounds_agree_with_privacy_loss_distributions(
    noise_multiplier, probability, rounds, delta
):
    found = sampled_rounds(noise_multiplier, probability, rounds, delta).epsilon(delta)
    pld = epsilon_pld(SampledRounds(probability, noise_multiplier, rounds), delta).epsilon
    assert found == pytest.approx(pld, rel=1e-3)


# Rounding to the grid keeps the total mass of both laws, to the rounding of floats.
@pytest.mark.parametrize(
    ("pair", "facts"),
    [
        (one_round_of_each, (1.0, ((100, 1), (7, 3)), 1e-9)),
        # Ratios up to e^5000 and e^120000, of which no float holds the mass.
        (sampled_rounds, (0.1, 0.5, 100, 1e-5)),
        (sampled_rounds, (0.0644, 0.01, 1_000, 1e-5)),
    ],
)
def test_both_laws_keep_their_mass(pair, facts):
    distribution = pair(*facts)
    assert distribution.masses.sum() + distribution.at_zero == pytest.approx(1, abs=1e-11)
    assert distribution.p_masses.sum() + distribution.at_infinity == pytest.approx(1, abs=1e-11)


def test_a_sum_with_unequal_weights_keeps_the_mean_and_only_adds_spread():
    step, tail = 0.002, 1e-12
    one = gaussian_ratio(1.0, step, tail)
    two = weighted_sum(one, 0.5, one)
    three = weighted_sum(two, 2 / 3, one)
    assert three.p_masses.sum() + three.at_infinity == pytest.approx(1, abs=1e-11)
    variance = three.masses @ np.expm1(three.logs) ** 2 + three.at_zero
    assert math.expm1(1.0) / 3 <= variance <= 1.001 * math.expm1(1.0) / 3


def test_delta_below_what_lies_outside_the_grid_gives_no_bound():
    distribution = RatioDistribution(0.1, 0.0, np.array([0.9]), 0.1, 0.1)
    assert distribution.epsilon(0.05) == math.inf
    assert distribution.epsilon(0.2) == 0.0
