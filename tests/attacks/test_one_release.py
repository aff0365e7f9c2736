"""One-shot audits of the Gaussian mechanism, and the command `mechanism`."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from fl_audit.attacks import one_release
from fl_audit.attacks.one_release import audit_gaussian_mechanism, release
from fl_audit.canaries.families import GaussianFamily
from fl_audit.cli import main
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    sigma_of_epsilon,
)

SMALL = {"epsilon": 3.0, "delta": 1e-6, "dim": 500, "num_canaries": 20, "seed": 1}
COMMAND = ["mechanism", "--epsilon=3", "--delta=1e-6", "--dim=500", "--canaries=20", "--trials=4"]
COMMAND += ["--seed=1"]


@pytest.mark.parametrize("num_canaries", [1, 5, 8, 21])
def test_without_noise_a_release_is_the_sum_of_the_vectors(num_canaries):
    family = GaussianFamily(3, num_canaries, 300)
    vectors = np.stack([family.vector(canary) for canary in range(num_canaries)])
    released = release(family, 0.0, np.random.default_rng(0))
    np.testing.assert_allclose(released, vectors.sum(axis=0), atol=1e-6)


def test_every_digit_is_the_same_on_any_number_of_cores(monkeypatch):
    family, released = GaussianFamily(3, 50, 5000), []
    for cores in (1, 2, 7):
        monkeypatch.setattr(one_release, "num_cores", lambda cores=cores: cores)
        released.append(release(family, 0.7, np.random.default_rng(1)))
    np.testing.assert_array_equal(released[0], released[1])
    np.testing.assert_array_equal(released[0], released[2])


def test_noise_has_the_deviation_asked_for():
    family, sigma = GaussianFamily(3, 10, 40_000), 0.7
    noise = release(family, sigma, np.random.default_rng(1)) - release(
        family, 0.0, np.random.default_rng(1)
    )
    # Gaussian noise: fails with probability below 1e-6 each (a chi-square and a normal tail).
    low, high = stats.chi2(40_000).ppf([2.5e-7, 1 - 2.5e-7])
    assert low < np.sum((noise.astype(np.float64) / sigma) ** 2) < high
    assert abs(noise.mean(dtype=np.float64)) < 5 * sigma / 200


def standard_error(epsilon: float, num_canaries: int, trials: int) -> float:
    """Of the mean estimate at delta 1e-6, from 1 / estimate's relative error sigma / sqrt(k)."""
    sigma = sigma_of_epsilon(epsilon, 1e-6)
    slope = (epsilon_of_sigma(sigma / 1.01, 1e-6) - epsilon_of_sigma(sigma * 1.01, 1e-6)) / 0.02
    return slope * sigma / math.sqrt(num_canaries * trials)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_small_release_gives_the_true_epsilon(epsilon):
    audit = audit_gaussian_mechanism(
        epsilon=epsilon, delta=1e-6, dim=20_000, num_canaries=200, num_trials=6, seed=1
    )
    # 5 standard errors: with fresh seeds it would fail with probability 6e-7. The bias of
    # k / d = 0.01 beside sigma^2 is below a tenth of a standard error at these epsilons.
    assert abs(audit.mean - epsilon) < 5 * standard_error(epsilon, 200, 6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 10.0])
def test_full_size_trial_of_paper_table_1(epsilon):
    audit = audit_gaussian_mechanism(
        epsilon=epsilon, delta=1e-6, dim=10**6, num_canaries=1000, num_trials=1, seed=1
    )
    # 5 standard deviations of 1 / estimate: with fresh seeds below 1e-6.
    centre = 1 / math.sqrt(audit.sigma**2 + 1e-3)
    spread = 5 * math.sqrt(audit.sigma**2 / 1000 + 2e-6)
    low, high = (epsilon_of_sigma(1 / (centre * (1 + s)), 1e-6) for s in (-spread, spread))
    assert low < audit.mean < high


def test_command_prints_one_json_object(capsys):
    assert main([*COMMAND, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    audit = audit_gaussian_mechanism(**SMALL, num_trials=4)
    assert list(printed) == ["sigma", "mean", "std", "epsilons"]
    assert printed == audit.to_json()
    assert printed["sigma"] == sigma_of_epsilon(3, 1e-6)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--epsilon", "-1", "epsilon must be finite and at least 0, got -1.0"),
        ("--epsilon", "inf", "epsilon must be finite and at least 0, got inf"),
        ("--delta", "0", "delta must be in (0, 1)"),
        ("--delta", "nan", "delta must be in (0, 1)"),
        ("--dim", "1", "dim must be at least 2, got 1"),
        ("--dim", "1e6", "--dim: must be a whole number, got '1e6'"),
        ("--dim", str(10**15), "dim must be at most 1,000,000,000, got"),
        ("--canaries", "0", "canaries must be at least 1, got 0"),
        ("--trials", "0", "trials must be at least 1, got 0"),
        ("--seed", "-1", "seed must be at least 0, got -1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(option, value, message, capsys):
    assert main([*COMMAND, option, value]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
