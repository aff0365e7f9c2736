"""bar_epsilon of a mechanism (equations 18 and 19), against closed forms and Theorem 2."""

import math

import numpy as np
import pytest
from scipy import stats

from experiments.negoescu2024_appendix_b.several_models import (
    log_mean_exp_epsilon,
    mechanism_epsilon,
)
from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import empirical_epsilon_star

RATES = np.linspace(0.05, 0.95, 19)


def epsilon_of(fpr, fnr, delta):
    """Equation 19, as printed."""
    pairs = ((1 - fnr, fpr), (1 - fpr, fnr), (fnr, 1 - fpr), (fpr, 1 - fnr))
    return math.log(max(1.0, *(np.max((p - delta) / q) for p, q in pairs)))


def test_two_kinds_of_models_have_the_average_of_their_rates():
    """Losses at exact quantiles: members of half of the models are N(-1, 1), of others N(-2, 1)."""
    at = (np.arange(400_000) + 0.5) / 400_000
    others = stats.norm.ppf(at)
    members = [others - 1, others - 2] * 3
    fnr = np.mean([stats.norm.sf(stats.norm.ppf(RATES) + shift) for shift in (1, 2)], axis=0)
    found = mechanism_epsilon(members, [others] * 6, RATES, 1e-3)
    assert found.epsilon == pytest.approx(epsilon_of(RATES, fnr, 1e-3), abs=2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_theorem_2_holds_exactly_of_samples(seed):
    """log mean exp of the models' own values at the same rates is no smaller, by Jensen."""
    rng = np.random.default_rng(seed)
    others = [rng.normal(size=200) for _ in range(8)]
    members = [rng.normal(rng.normal(), 1, size=300) for _ in range(8)]
    bar = mechanism_epsilon(members, others, RATES, 1e-5).epsilon
    own = [
        mechanism_epsilon([m], [o], RATES, 1e-5).epsilon
        for m, o in zip(members, others, strict=True)
    ]
    assert bar <= log_mean_exp_epsilon(own).epsilon + 1e-12


def test_models_that_tell_nothing_have_none():
    same = [np.arange(10.0)] * 3
    found = mechanism_epsilon(same, same, [0.1, 0.5], 0.0)
    assert (found.epsilon, found.false_positive_rate) == (0.0, None)


def test_separated_losses_have_no_bound():
    found = mechanism_epsilon([[0.0, 0.1]], [[1.0, 2.0]], [0.5], 1e-5)
    assert found.epsilon == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], [0.5], 0.0), "one array for each model, got 0 and 0"),
        (([[1.0]], [[1.0], [2.0]], [0.5], 0.0), "one array for each model, got 1 and 2"),
        (([[1.0]], [[1.0]], [0.0, 0.5], 0.0), r"must be a list of numbers in \(0, 1\)"),
        (([[1.0]], [[1.0]], [0.5], 1.0), "delta must be in"),
        (([[math.nan]], [[1.0]], [0.5], 0.0), "member_losses must be a list"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        mechanism_epsilon(*arguments)


# Theorem 2's mean over models: the number, the theorem, and what it does not say.


def test_the_mean_by_hand():
    made = log_mean_exp_epsilon([0.0, 1.0, 2.0])
    values = np.exp([0.0, 1.0, 2.0])
    assert made.epsilon == pytest.approx(math.log(values.mean()))
    # d log(x) = dx / x.
    assert made.standard_error == pytest.approx(values.std(ddof=1) / 3**0.5 / values.mean())
    assert made.largest_share == pytest.approx(values[2] / values.sum())
    assert made.num_models == 3


def test_one_model_is_itself():
    made = log_mean_exp_epsilon([1.25])
    assert (made.epsilon, made.standard_error, made.largest_share) == (1.25, None, 1.0)


@pytest.mark.parametrize("epsilons", [[800.0, 801.0], [0.0, 5000.0], [1e-300, 0.0], [0.1] * 7])
def test_never_overflows_nor_leaves_the_range(epsilons):
    with np.errstate(over="raise", invalid="raise"):
        made = log_mean_exp_epsilon(epsilons)
    assert min(epsilons) <= made.epsilon <= max(epsilons)
    assert made.epsilon == pytest.approx(
        max(epsilons) + math.log(np.mean(np.exp(np.array(epsilons) - max(epsilons))))
    )


def test_an_infinite_model_makes_it_infinite():
    made = log_mean_exp_epsilon([1.0, math.inf])
    assert (made.epsilon, made.standard_error, made.largest_share) == (math.inf, None, 1.0)


@pytest.mark.parametrize("bad", [[], [-0.1], [math.nan], 1.0, [[1.0]]])
def test_refuses_what_is_no_epsilon(bad):
    with pytest.raises(InputError, match="epsilons must be"):
        log_mean_exp_epsilon(bad)


def test_the_standard_error_is_the_spread_of_repetitions():
    rng = np.random.default_rng(0)
    made = [log_mean_exp_epsilon(rng.uniform(0, 2, 400)) for _ in range(1000)]
    spread = np.std([one.epsilon for one in made])
    # A deviation of 1,000 values is known to 2.2 %; five of those.
    assert np.mean([one.standard_error for one in made]) == pytest.approx(spread, rel=0.12)


def equation_7(fpr, fnr, delta):
    """Equation 7 in plain floats; [..., k] rates of k thresholds."""
    tpr, tnr = 1 - fnr, 1 - fpr
    pairs = ((tpr, fpr), (tnr, fnr), (fnr, tnr), (fpr, tpr))
    ratios = np.stack([(p - delta) / q for p, q in pairs])
    return np.log(np.maximum(1.0, ratios.max(axis=(0, -1))))


def test_theorem_2_on_models_of_known_rates():
    # Equally likely models with the same FPRs: of the averaged FNRs, never more than the mean.
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(300):
        fpr = np.sort(rng.uniform(0.01, 0.99, 5))
        fnr = -np.sort(-rng.uniform(0.01, 0.99, (4, 5)))
        bar_epsilon = float(equation_7(fpr, fnr.mean(axis=0), 1e-5))
        gaps.append(log_mean_exp_epsilon(equation_7(fpr, fnr, 1e-5)).epsilon - bar_epsilon)
    assert min(gaps) > -1e-12
    assert max(gaps) > 0.5


def test_it_is_no_lower_bound_on_the_mechanisms_epsilon():
    # One model whatever the data: epsilon is 0. Its losses on a training set of 200 points and on
    # the population have one law, yet the mean over 20 models, each with its own training set, is
    # positive, as Theorem 2 allows: it bounds bar_epsilon = 0 from above only.
    rng = np.random.default_rng(2)
    population = rng.exponential(size=20_000)
    found = [
        empirical_epsilon_star(rng.exponential(size=200), population, 1e-5).epsilon
        for _ in range(20)
    ]
    made = log_mean_exp_epsilon(found)
    assert made.epsilon > 1
    assert made.epsilon > 5 * made.standard_error


def test_one_training_point_gives_an_infinite_expectation():
    # The same with training sets of one point and the population known: where its loss has rank
    # U, Epsilon* is log(max((1 - delta) / U, (1 - delta) / (1 - U))), and E[1 / U] is infinite:
    # the mean over models grows without end, about as 2 log(m) for m models.
    means = []
    for m in (100, 10_000, 1_000_000):
        u = (np.arange(m) + 0.5) / m
        epsilons = np.log(np.maximum(1 / u, 1 / (1 - u)))
        means.append(math.exp(log_mean_exp_epsilon(epsilons).epsilon))
    assert np.diff(means) == pytest.approx(2 * math.log(100), rel=0.01)
