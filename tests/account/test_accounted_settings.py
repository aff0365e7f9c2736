"""Settings by `account` against values that nothing of the package computes.

A known schedule is one Gaussian release. The epsilon of Poisson samples is dp-accounting's, whose
own accountant finds a round's privacy loss point by point.
"""

import math

import dp_accounting
import pytest
from scipy import stats

from fl_audit.account import accounted
from fl_audit.account.files import source_of_path
from fl_audit.account.options import Options, source_of_options
from fl_audit.accounting.privacy_loss import _GRID, loss_width
from tests.gaussian_profile import delta_of_mu, epsilon_of_mu


def options(**given) -> Options:
    plain = {
        "noise_multiplier": 1.0,
        "epsilon": None,
        "rounds": 1,
        "sampling": "none",
        "rate": None,
        "participations": None,
        "separation": None,
        "mechanism": "gaussian_fixed",
        "keys": {},
    }
    return Options(**plain | given)


FIXED = [
    (0.3, 1, 1e-5),
    (4.0, 200, 1e-5),
    (1.0, 3, 1e-12),
    (20.0, 50, 0.1),
]
SHUFFLE = [(0.5, 10, 2), (1.0, 40, 4), (2.0, 41, 10), (1.0, 7, 7)]
POISSON = [
    (1.0, 0.01, 2000, 1e-6), (0.5, 0.08, 200, 1e-5), (3.0, 0.01, 5000, 1e-9),
    (8.0, 0.2, 500, 1e-5), (1.0, 0.5, 20, 1e-3), (0.7, 4.9e-4, 2048, 1e-6),
    (2.0, 0.1, 1000, 1e-7), (1.1, 256 / 60000, 1000, 1e-5),
]  # fmt: skip
FIXED_SIZE = [
    (1.0, 0.1, 50, 1e-5), (2.0, 0.02, 300, 1e-6), (0.6, 0.25, 20, 1e-4), (5.0, 0.5, 40, 1e-5),
]  # fmt: skip
CLIENT_NOISE = [(0.3, 50, 1), (3.0, 4, 12)]


def check(bounds, expected: float) -> None:
    assert bounds.guarantee.epsilon == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if bounds.lower is not None:
        assert bounds.lower == pytest.approx(expected, rel=1e-6, abs=1e-9)


def known(given: Options, delta: float):
    return accounted(source_of_options(given, delta)).bounds["knows_rounds"][0]


@pytest.mark.parametrize(("noise", "most", "delta"), FIXED)
def test_fixed_rounds(noise, most, delta):
    given = options(noise_multiplier=noise, rounds=200, participations=most)
    check(known(given, delta), epsilon_of_mu(math.sqrt(most) / noise, delta))


@pytest.mark.parametrize(("noise", "rounds", "epochs"), SHUFFLE)
def test_shuffled_epochs(noise, rounds, epochs):
    given = options(
        noise_multiplier=noise, rounds=rounds, sampling="shuffle", participations=epochs
    )
    length = -(-rounds // epochs)
    check(known(given, 1e-5), epsilon_of_mu(math.sqrt(-(-rounds // length)) / noise, 1e-5))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("noise", "rate", "rounds", "delta"), POISSON)
def test_poisson_samples(noise, rate, rounds, delta):
    """On one grid they differ by dp-accounting's rounding, up to 8e-7 at a delta of 1e-9."""
    given = options(noise_multiplier=noise, sampling="poisson", rate=rate, rounds=rounds)
    bounds = accounted(source_of_options(given, delta)).bounds
    hidden, seen = bounds["does_not_know_rounds"][0], bounds["knows_rounds"][0]
    interval = loss_width(rate, noise, rounds) / _GRID
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(dp_accounting.SelfComposedDpEvent(sampled, rounds))
    assert hidden.guarantee.epsilon == pytest.approx(accountant.get_epsilon(delta), rel=1e-6)
    assert hidden.lower <= hidden.guarantee.epsilon <= hidden.lower * (1 + 2e-3)
    check_seen(seen, noise, rate, rounds, delta)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("noise", "rate", "rounds", "delta"), FIXED_SIZE)
def test_samples_of_fixed_size(noise, rate, rounds, delta):
    given = options(noise_multiplier=noise, sampling="fixed_size", rate=rate, rounds=rounds)
    bounds = accounted(source_of_options(given, delta)).bounds
    hidden, seen = bounds["does_not_know_rounds"][0], bounds["knows_rounds"][0]
    check_seen(seen, noise, rate, rounds, delta)
    assert hidden.lower <= hidden.guarantee.epsilon <= seen.guarantee.epsilon * (1 + 1e-9)


def check_seen(seen, noise: float, rate: float, rounds: int, delta: float) -> None:
    """Who sees the samples faces a mixture of Gaussian releases: its delta at epsilon is delta."""
    epsilon = seen.guarantee.epsilon
    total = sum(
        stats.binom.pmf(count, rounds, rate) * delta_of_mu(math.sqrt(count) / noise, epsilon)
        for count in range(1, rounds + 1)
    )
    assert total == pytest.approx(delta, rel=1e-5)
    assert seen.lower == pytest.approx(epsilon, rel=1e-9)


CONFIG = """
task = {{kind = "numbers", num_clients = {clients}, dim = 1000}}
mechanism = {{kind = "client_gaussian", noise_multiplier = {noise}, clip_norm = 1.0}}
participation = {{kind = "every_round", rounds = {rounds}}}
canaries = {{count = 0}}
audit = {{delta = 1e-5}}
"""


@pytest.mark.parametrize(("noise", "clients", "rounds"), CLIENT_NOISE)
def test_noise_of_clients(noise, clients, rounds, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(clients=clients, noise=noise, rounds=rounds))
    bounds = accounted(source_of_path(path, [], None, None)).bounds
    check(bounds["knows_rounds"][0], epsilon_of_mu(math.sqrt(rounds / clients) / noise, 1e-5))
    uploads = epsilon_of_mu(math.sqrt(rounds) / noise, 1e-5)
    assert bounds["sees_uploads"][0].guarantee.epsilon == pytest.approx(uploads, rel=1e-6)
