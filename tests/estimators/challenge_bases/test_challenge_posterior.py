"""The posterior by both methods: against each other, brute force, limits and its own prior."""

import re

import numpy as np
import pytest
from scipy import signal, stats

from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.counts_and_priors import (
    BetaStrength,
    ChallengeCounts,
    CorrelationPrior,
    FixedStrength,
    Prior,
)
from fl_audit.estimators.challenge_bases.grid import grid_posterior
from fl_audit.estimators.challenge_bases.mhaar_chains import ChainSettings
from fl_audit.estimators.challenge_bases.posterior import posterior
from fl_audit.estimators.challenge_bases.posterior_summary import (
    effective_sample_size,
    split_r_hat,
)
from fl_audit.estimators.challenge_bases.region_mass import below_diagonal, log_reach


def six(summary):
    e, s = summary.epsilon, summary.strength
    return np.array([e.mean, e.lower, e.upper, s.mean, s.lower, s.upper])


def brute_force(counts, delta, prior, draws, seed):
    """Importance sampling from the prior of (epsilon, s) and the Beta laws of the error rates.

    A weight is the share of pairs in R_s over its area, averaged over 200 pairs for each base.
    Returns the six numbers and the standard errors of the two means.
    """
    rng = np.random.default_rng(seed)
    epsilon = np.abs(rng.normal(0, np.sqrt(prior.epsilon_variance), draws))
    s = rng.beta(prior.strength.a, prior.strength.b, draws)
    log_weight = np.zeros(draws)
    for fp, n0, fn, n1 in zip(counts.fp, counts.n0, counts.fn, counts.n1, strict=True):
        hits = np.zeros(draws)
        for _ in range(200):
            a = rng.beta(fp + 1, n0 - fp + 1, draws)
            b = rng.beta(fn + 1, n1 - fn + 1, draws)
            hits += below_diagonal(a, b).reached(epsilon, s, delta)
        with np.errstate(divide="ignore"):
            log_weight += np.log(hits) - log_reach(epsilon, s * epsilon, delta)
    weight = np.exp(log_weight - np.max(log_weight))
    weight /= np.sum(weight)
    numbers, errors = [], []
    for values in (epsilon, s):
        order = np.argsort(values)
        sums = np.cumsum(weight[order])
        mean = np.sum(weight * values)
        numbers += [mean, *values[order][np.searchsorted(sums, [0.05, 0.95])]]
        errors.append(np.sqrt(np.sum(weight**2 * (values - mean) ** 2)))
    return np.array(numbers), np.array(errors)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("counts", "delta", "prior"),
    [
        (ChallengeCounts([3], [10], [2], [10]), 0.0, Prior()),
        (ChallengeCounts([0, 2], [5, 8], [1, 3], [6, 4]), 0.1, Prior(4.0, BetaStrength(2, 0.5))),
        (ChallengeCounts([1, 9], [10, 10], [2, 8], [10, 10]), 1e-3, Prior(1.0, BetaStrength(3, 2))),
    ],
    ids=["one base", "large delta", "a base worse than chance"],
)
def test_grid_agrees_with_importance_sampling(counts, delta, prior):
    """Means within 5 of their standard errors (chance 1e-6 each), ends within 1/30 of the width."""
    found = six(grid_posterior(counts, delta, prior).summary(0.9))
    expected, errors = brute_force(counts, delta, prior, 6_000, 0)
    for mean, error in zip((0, 3), errors, strict=True):
        assert found[mean] == pytest.approx(expected[mean], abs=5 * error)
        width = found[mean + 2] - found[mean + 1]
        np.testing.assert_allclose(
            found[mean + 1 : mean + 3], expected[mean + 1 : mean + 3], atol=width / 30
        )


def test_quantiles_of_the_strength_ask_for_the_prior_of_a_grid_once(monkeypatch):
    # An incomplete Beta function of extreme shapes takes seconds on a grid.
    asked, moments = [], BetaStrength.moments_below
    monkeypatch.setattr(
        BetaStrength,
        "moments_below",
        lambda prior, strength: asked.append(np.size(strength)) or moments(prior, strength),
    )
    counts = ChallengeCounts(fp=[3, 1], n0=[10, 10], fn=[2, 0], n1=[10, 10])
    found = grid_posterior(counts, 1e-5, Prior(10.0, BetaStrength(5.0, 0.5)))
    asked.clear()
    found.summary(0.9)
    assert sum(asked) < 1.1 * found.strength.strength.size


@pytest.mark.slow
def test_correlated_chain_agrees_with_importance_sampling():
    """Equation 7 by its covariance matrix, everything drawn from the prior or the unit square."""
    counts = ChallengeCounts([3, 1], [12, 10], [4, 5], [12, 10])
    delta, draws, pairs = 0.01, 6_000, 100
    rng = np.random.default_rng(3)
    prior = Prior(correlation=CorrelationPrior(0.01))
    epsilon, s = np.abs(rng.normal(0, np.sqrt(10), draws)), rng.random(draws)
    tau = stats.truncnorm(-1 / 11 / 0.1, 1 / 0.1, scale=0.1).rvs(draws, random_state=rng)
    # N^2 |rho| is less than N + N (N - 1) tau for both N.
    largest = np.min([(1 + (n - 1) * tau) / n for n in (10, 12)], axis=0)
    rho = largest * rng.uniform(-1, 1, draws)
    weight = np.ones(draws)
    for x, y, n in ((3, 4, 12), (1, 5, 10)):
        total = np.zeros(draws)
        for _ in range(pairs):
            a, b = rng.random((2, draws))
            c00, c11 = (r * (1 - r) * (n + n * (n - 1) * tau) for r in (a, b))
            c01 = n**2 * rho * np.sqrt(a * (1 - a) * b * (1 - b))
            determinant = c00 * c11 - c01**2
            u, v = x - n * a, y - n * b
            form = (c11 * u**2 - 2 * c01 * u * v + c00 * v**2) / determinant
            reached = below_diagonal(a, b).reached(epsilon, s, delta)
            total += reached * np.exp(-form / 2) / np.sqrt(determinant)
        weight *= total / np.exp(log_reach(epsilon, s * epsilon, delta))
    weight /= np.sum(weight)
    settings = ChainSettings(draws=4_000, burn_in=400, auxiliary=16)
    chain = posterior(counts, delta, correlated=True, prior=prior, settings=settings, seed=4)
    assert chain.r_hat < 1.1
    assert chain.ess > 100
    for marginal, values in (
        (chain.epsilon, epsilon), (chain.strength, s), (chain.tau, tau), (chain.rho, rho)
    ):  # fmt: skip
        mean = np.sum(weight * values)
        deviation = np.sqrt(np.sum(weight * (values - mean) ** 2))
        # 6 standard errors at the chain's ess, plus that of the weights.
        error = 6 * deviation / np.sqrt(chain.ess) + 5 * np.sqrt(
            np.sum(weight**2 * (values - mean) ** 2)
        )
        assert marginal.mean == pytest.approx(mean, abs=error)


def test_full_strength_with_many_challenges_knows_epsilon():
    """Rates of 0.1 on both sides at s = 1: epsilon is log(0.9 / 0.1), up to 1 / sqrt(N)."""
    counts = ChallengeCounts([10_000], [100_000], [10_000], [100_000])
    summary = grid_posterior(counts, 0.0, Prior(strength=FixedStrength(1.0))).summary(0.9)
    assert summary.epsilon.lower < np.log(9) < summary.epsilon.upper
    # Where alpha = beta the better of two tests binds: deviation of log(1/x - 1) below 0.01.
    assert summary.epsilon.upper - summary.epsilon.lower < 0.04


def test_figure_2_stronger_assumptions_narrow_the_interval():
    """Figure 2, left: X = Y = 0.4 N on one base; the interval narrows as s grows."""
    counts = ChallengeCounts([400], [1000], [400], [1000])
    widths = []
    for s in (0.0, 0.5, 1.0):
        epsilon = (
            grid_posterior(counts, 1e-3, Prior(strength=FixedStrength(s))).summary(0.9).epsilon
        )
        widths.append(epsilon.upper - epsilon.lower)
    assert np.all(np.diff(widths) < 0)
    assert widths[0] > 20 * widths[-1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "counts",
    [
        ChallengeCounts([0], [100_000], [0], [100_000]),
        ChallengeCounts([100_000], [100_000], [0], [100_000]),
        ChallengeCounts([50_000] * 3, [100_000] * 3, [50_000] * 3, [100_000] * 3),
        ChallengeCounts([0, 100_000], [100_000] * 2, [0, 100_000], [100_000] * 2),
        ChallengeCounts([5], [10], [0], [0]),
    ],
)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_extreme_counts_give_finite_ordered_numbers(counts, delta):
    with np.errstate(all="raise", under="ignore"):
        mean, lower, upper, s_mean, s_lower, s_upper = six(
            grid_posterior(counts, delta, Prior()).summary(0.9)
        )
    assert 0 <= lower < mean < upper < 25
    assert 0 <= s_lower <= s_mean <= s_upper <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 1.0}, "delta must be in [0, 1)"),
        ({"confidence": 90}, "confidence must be in (0, 1)"),
        ({"method": "mcmc"}, "unknown method 'mcmc'"),
        (
            {"method": "mhaar", "prior": Prior(strength=FixedStrength(1.0))},
            "mhaar needs a strength below 1",
        ),
        (
            {"method": "mhaar", "prior": Prior(strength=FixedStrength(0.999))},
            "mhaar found no epsilon to start from",
        ),
        (
            {"counts": ChallengeCounts([0], [0], [1], [5]), "correlated": True},
            "at least 1 challenge on each side",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    counts = ChallengeCounts([50_000, 1000], [100_000] * 2, [50_000, 1000], [100_000] * 2)
    with pytest.raises(InputError, match=re.escape(message)):
        posterior(**{"counts": counts, "delta": 1e-5, **arguments})


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform():
    """Simulation-based calibration: parameters from the prior, counts from the model.

    The posterior cdf at the true epsilon and s is uniform. A Kolmogorov-Smirnov distance of
    sqrt(log(2 / 1e-7) / (2 n)) has a chance of at most 1e-7.
    """
    rng = np.random.default_rng(0)
    prior, delta, runs = Prior(4.0, BetaStrength(2, 2)), 0.02, 80
    ranks = []
    for _ in range(runs):
        epsilon, s = abs(rng.normal(0, 2)), rng.beta(2, 2)
        alpha, beta = rng.random((2, 4_000_000 if epsilon < 0.05 else 400_000))
        reached = below_diagonal(alpha, beta).reached(epsilon, s, delta)
        alpha, beta = alpha[reached][:4], beta[reached][:4]
        assert len(alpha) == 4
        counts = ChallengeCounts(
            rng.binomial(50, alpha), [50] * 4, rng.binomial(30, beta), [30] * 4
        )
        found = grid_posterior(counts, delta, prior)
        points, masses = found.epsilon.points, found.epsilon.masses
        below = np.concatenate([[0.0], np.cumsum(masses)])
        ranks.append(
            [np.interp(epsilon, points, below), found.epsilon.weights @ found.strength.cdf(s)]
        )
    limit = np.sqrt(np.log(2 / 1e-7) / (2 * runs))
    for column in np.transpose(ranks):
        assert stats.kstest(column, "uniform").statistic < limit


# Effective sample size and R-hat, on chains whose answer is known.


@pytest.mark.parametrize("memory", [pytest.param(0.0, marks=pytest.mark.slow), 0.9])
def test_effective_size_of_autoregressions(memory):
    """AR(1) with coefficient a has (1 - a) / (1 + a) effective draws per draw.

    The estimate's deviation here is below 5 %: 25 % is 5 of them.
    """
    noise = np.random.default_rng(0).normal(size=(4, 51_000))
    chains = signal.lfilter([1], [1, -memory], noise, axis=1)[:, 1000:]
    expected = 200_000 * (1 - memory) / (1 + memory)
    assert effective_sample_size(chains) == pytest.approx(expected, rel=0.25)
    assert split_r_hat(chains) == pytest.approx(1, abs=0.01)


def test_chains_that_disagree_or_drift_are_seen():
    chains = np.random.default_rng(0).normal(size=(4, 1000))
    assert split_r_hat(chains + np.linspace(0, 4, 1000)) > 1.3
    apart = chains + np.array([[0], [0], [0], [3]])
    assert split_r_hat(apart) > 1.3
    assert effective_sample_size(apart) < 40
