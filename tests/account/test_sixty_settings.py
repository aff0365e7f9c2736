"""Sixty settings by `account` against values that nothing of the package computes.

A known schedule is one Gaussian release, of the largest shift over all schedules that are allowed,
which are enumerated; its epsilon is solved here in 30 digits. That of Poisson samples is
dp-accounting's, whose own accountant finds a round's privacy loss point by point.
"""

import itertools
import math
from collections.abc import Iterator

import dp_accounting
import mpmath
import numpy as np
import pytest
from scipy import special, stats

from fl_audit.account import accounted
from fl_audit.account.files import source_of_path
from fl_audit.account.options import Options, source_of_options
from fl_audit.accounting.privacy_loss import _GRID, loss_width

mpmath.mp.dps = 30


def epsilon_of_shift(mu: float, delta: float) -> float:
    """Balle & Wang 2018, theorem 8, solved in 30 digits."""

    def excess(epsilon: mpmath.mpf) -> mpmath.mpf:
        upper = mpmath.ncdf(mu / 2 - epsilon / mu)
        return upper - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu) - delta

    if excess(mpmath.mpf(0)) <= 0:
        return 0.0
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while excess(high) > 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(high)


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


def schedules(rounds: int, most: int, separation: int) -> Iterator[tuple[int, ...]]:
    for number in range(1, most + 1):
        for chosen in itertools.combinations(range(rounds), number):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def shift_of_trees(rounds: int, allowed: Iterator[tuple[int, ...]], every: int | None) -> float:
    period = every or rounds
    worst = 0
    for chosen in allowed:
        total = 0
        for start in range(0, rounds, period):
            size = min(period, rounds - start)
            for height in range(size.bit_length()):
                width = 1 << height
                for first in range(start, start + size - width + 1, width):
                    total += sum(first <= t < first + width for t in chosen) ** 2
        worst = max(worst, total)
    return math.sqrt(worst)


def shift_of_matrix(column: np.ndarray, rounds: int, allowed: Iterator[tuple[int, ...]]) -> float:
    """The largest norm of |C| times the rounds; all updates of one direction."""
    strategy = np.zeros((rounds, rounds))
    for lag, entry in enumerate(column[:rounds]):
        strategy += np.diag(np.full(rounds - lag, abs(entry)), -lag)
    return max(np.linalg.norm(strategy[:, list(chosen)].sum(axis=1)) for chosen in allowed)


def binomial_column(rounds: int) -> np.ndarray:
    """The square root of the prefix sums' matrix: 4^-k binom(2k, k)."""
    return np.array([math.comb(2 * k, k) / 4**k for k in range(rounds)])


def inverse(column: np.ndarray, rounds: int) -> np.ndarray:
    matrix = sum(
        (np.diag(np.full(rounds - lag, entry), -lag) for lag, entry in enumerate(column)),
        np.zeros((rounds, rounds)),
    )
    return np.linalg.inv(matrix)[:, 0]


FIXED = [
    *itertools.product((0.3, 1.0, 4.0), (1, 7, 200), (1e-5,)),
    (1.0, 3, 1e-12),
    (20.0, 50, 0.1),
]
SHUFFLE = [(0.5, 10, 2), (1.0, 40, 4), (2.0, 41, 10), (1.0, 7, 7), (1.0, 100, 30)]
TREES = [
    (8, 1, 1, None), (13, 2, 5, None), (12, 3, 3, None), (11, 4, 2, None),
    (14, 3, 4, 5), (9, 2, 1, 4), (12, 12, 1, None), (10, 3, 2, 3),
]  # fmt: skip
MATRICES = ["sqrt", "banded_sqrt", "blt", "banded_inverse_sqrt", "falling", "not_falling"]
PARTICIPATION = [(10, 2, 4), (9, 3, 2)]
POISSON = [
    (1.0, 0.01, 2000, 1e-6), (0.5, 0.08, 200, 1e-5), (3.0, 0.01, 5000, 1e-9),
    (0.7, 4.9e-4, 2048, 1e-6), (8.0, 0.2, 500, 1e-5), (1.0, 0.5, 20, 1e-3),
    (2.0, 0.1, 1000, 1e-7), (1.1, 256 / 60000, 1000, 1e-5),
]  # fmt: skip
FIXED_SIZE = [
    (1.0, 0.1, 50, 1e-5), (2.0, 0.02, 300, 1e-6), (0.6, 0.25, 20, 1e-4), (5.0, 0.5, 40, 1e-5),
]  # fmt: skip
CLIENT_NOISE = [(1.0, 20, 5), (0.3, 50, 1), (3.0, 4, 12), (1.0, 7, 30)]
DISTRIBUTED = [(1.0, 12, 20, 1), (2.0, 12, 20, 30), (0.5, 14, 50, 3), (4.0, 10, 8, 100)]
CAPS = [
    ("gaussian_fixed", "", 3),
    ("tree_aggregation", "", 3),
    ("tree_aggregation", "restart_every = 6", 2),
    ("matrix_factorisation", 'strategy = "banded_sqrt"\nbands = 3', 3),
    ("matrix_factorisation", 'strategy = "sqrt"', 2),
]


def checked(given: Options, delta: float, expected: float, *, is_exact: bool = True) -> None:
    """The bound against an attacker who knows the rounds is the expected one, or above it."""
    bounds = accounted(source_of_options(given, delta)).bounds["knows_rounds"][0]
    check(bounds, expected, is_exact=is_exact)


def check(bounds, expected: float, *, is_exact: bool = True) -> None:
    found = bounds.guarantee.epsilon
    assert found >= expected * (1 - 1e-6) - 1e-9
    if is_exact:
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if bounds.lower is not None:
        assert bounds.lower == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_there_are_sixty():
    number = len(FIXED) + len(SHUFFLE) + len(TREES) + len(MATRICES) * (len(PARTICIPATION) + 1)
    number += len(POISSON) + len(FIXED_SIZE) + len(CLIENT_NOISE) + len(CAPS)
    number += len(DISTRIBUTED)
    assert number >= 60


@pytest.mark.parametrize(("noise", "most", "delta"), FIXED)
def test_fixed_rounds(noise, most, delta):
    given = options(noise_multiplier=noise, rounds=200, participations=most)
    checked(given, delta, epsilon_of_shift(math.sqrt(most) / noise, delta))


@pytest.mark.parametrize(("noise", "rounds", "epochs"), SHUFFLE)
def test_shuffled_epochs(noise, rounds, epochs):
    given = options(
        noise_multiplier=noise, rounds=rounds, sampling="shuffle", participations=epochs
    )
    checked(given, 1e-5, epsilon_of_shift(math.sqrt(epochs) / noise, 1e-5))


@pytest.mark.parametrize(("rounds", "epochs"), [(12, 4), (11, 4)])  # of one length, and of two
def test_trees_under_shuffled_epochs(rounds, epochs):
    given = options(
        noise_multiplier=2.0,
        rounds=rounds,
        sampling="shuffle",
        participations=epochs,
        mechanism="tree_aggregation",
    )
    parts = np.array_split(np.arange(rounds), epochs)
    shift = shift_of_trees(rounds, itertools.product(*parts), None)
    checked(given, 1e-5, epsilon_of_shift(shift / 2.0, 1e-5))


@pytest.mark.parametrize(("rounds", "most", "separation", "every"), TREES)
def test_trees(rounds, most, separation, every):
    keys = {} if every is None else {"restart_every": every}
    given = options(
        noise_multiplier=2.0,
        rounds=rounds,
        participations=most,
        separation=separation,
        mechanism="tree_aggregation",
        keys=keys,
    )
    shift = shift_of_trees(rounds, schedules(rounds, most, separation), every)
    checked(given, 1e-5, epsilon_of_shift(shift / 2, 1e-5))


def strategy(name: str, rounds: int, tmp_path) -> tuple[dict, np.ndarray, bool]:
    """The keys of a matrix, its first column, and whether accounting is exact."""
    match name:
        case "sqrt":
            return {"strategy": name}, binomial_column(rounds), True
        case "banded_sqrt":
            return {"strategy": name, "bands": 3}, binomial_column(3), True
        case "banded_inverse_sqrt":
            column = binomial_column(rounds)
            column[1:] /= 1 - 2 * np.arange(1, rounds)
            return {"strategy": name, "bands": 3}, inverse(column[:3], rounds), True
        case "blt":
            from fl_audit.mechanisms.matrix import MatrixFactorisation, strategy_of

            table = MatrixFactorisation(
                noise_multiplier=1.0, clip_norm=1.0, strategy="blt", buffers=2
            )
            return {"strategy": name, "buffers": 2}, strategy_of(table, rounds).column, True
        case _:
            falls = name == "falling"
            column = np.array([1.0, 0.6, 0.5, 0.1] if falls else [1.0, -0.2, 0.4])
            np.save(tmp_path / "column.npy", column)
            file = str(tmp_path / "column.npy")
            return {"strategy": "file", "coefficients": file}, column, falls


@pytest.mark.parametrize(("rounds", "most", "separation"), PARTICIPATION)
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, rounds, most, separation, tmp_path):
    keys, column, is_exact = strategy(name, rounds, tmp_path)
    given = options(
        rounds=rounds,
        participations=most,
        separation=separation,
        mechanism="matrix_factorisation",
        keys=keys,
    )
    shift = shift_of_matrix(column, rounds, schedules(rounds, most, separation))
    checked(given, 1e-5, epsilon_of_shift(shift, 1e-5), is_exact=is_exact)


@pytest.mark.parametrize("rounds", [12, 11])  # epochs of one length, and of two
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_under_shuffled_epochs(name, rounds, tmp_path):
    epochs = 4
    keys, column, _ = strategy(name, rounds, tmp_path)
    given = options(
        rounds=rounds,
        sampling="shuffle",
        participations=epochs,
        mechanism="matrix_factorisation",
        keys=keys,
    )
    parts = np.array_split(np.arange(rounds), epochs)
    shift = shift_of_matrix(column, rounds, itertools.product(*parts))
    is_short = len(column) <= rounds // epochs + 1
    checked(given, 1e-5, epsilon_of_shift(shift, 1e-5), is_exact=is_short)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("noise", "rate", "rounds", "delta"), POISSON)
def test_poisson_samples(noise, rate, rounds, delta):
    """On one grid they differ by dp-accounting's rounding.

    At a delta of 1e-9 two versions of it differ by 2e-6 on this grid, and each by as much on a
    grid twice as fine.
    """
    given = options(noise_multiplier=noise, sampling="poisson", rate=rate, rounds=rounds)
    bounds = accounted(source_of_options(given, delta)).bounds
    hidden, known = bounds["does_not_know_rounds"][0], bounds["knows_rounds"][0]
    interval = loss_width(rate, noise, rounds) / _GRID
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=interval)
    sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(dp_accounting.SelfComposedDpEvent(sampled, rounds))
    rounding = 1e-6 if delta > 1e-8 else 3e-6
    expected = pytest.approx(accountant.get_epsilon(delta), rel=rounding)
    assert hidden.guarantee.epsilon == expected
    assert hidden.lower <= hidden.guarantee.epsilon <= hidden.lower * (1 + 2e-3)
    check_seen(known, noise, rate, rounds, delta)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("noise", "rate", "rounds", "delta"), FIXED_SIZE)
def test_samples_of_fixed_size(noise, rate, rounds, delta):
    given = options(noise_multiplier=noise, sampling="fixed_size", rate=rate, rounds=rounds)
    bounds = accounted(source_of_options(given, delta)).bounds
    hidden, known = bounds["does_not_know_rounds"][0], bounds["knows_rounds"][0]
    check_seen(known, noise, rate, rounds, delta)
    assert hidden.lower <= hidden.guarantee.epsilon <= known.guarantee.epsilon * (1 + 1e-9)


def check_seen(known, noise: float, rate: float, rounds: int, delta: float) -> None:
    """Who sees the samples faces a mixture of Gaussian releases: its delta at epsilon is delta."""
    epsilon = known.guarantee.epsilon
    counts = np.arange(1, rounds + 1)
    masses = stats.binom.pmf(counts, rounds, rate)
    total = mpmath.mpf(0)
    for count, mass in zip(counts.tolist(), masses.tolist(), strict=True):
        if mass > 1e-25:
            mu = mpmath.sqrt(count) / noise
            upper = mpmath.ncdf(mu / 2 - epsilon / mu)
            lower = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            total += mass * (upper - lower)
    assert float(total) == pytest.approx(delta, rel=1e-5)
    assert known.lower == pytest.approx(epsilon, rel=1e-9)


CONFIG = """
[task]
kind = "numbers"
num_clients = {clients}
dim = 1000
[mechanism]
kind = "{mechanism}"
noise_multiplier = {noise}
clip_norm = 1.0
{keys}
[participation]
{participation}
[canaries]
count = 0
[audit]
delta = 1e-5
"""


@pytest.mark.parametrize(("noise", "clients", "rounds"), CLIENT_NOISE)
def test_noise_of_clients(noise, clients, rounds, tmp_path):
    path = tmp_path / "config.toml"
    participation = f'kind = "every_round"\nrounds = {rounds}'
    path.write_text(
        CONFIG.format(
            clients=clients,
            mechanism="client_gaussian",
            noise=noise,
            keys="",
            participation=participation,
        )
    )
    bounds = accounted(source_of_path(path, [], None, None)).bounds
    check(bounds["knows_rounds"][0], epsilon_of_shift(math.sqrt(rounds / clients) / noise, 1e-5))
    uploads = epsilon_of_shift(math.sqrt(rounds) / noise, 1e-5)
    seen = bounds["sees_uploads"][0]
    assert (seen.guarantee.epsilon, seen.lower) == pytest.approx((uploads, uploads), rel=1e-6)


def skellam_epsilon(shift: int, variance: float, rounds: int) -> float:
    """By the exact Rényi divergences of one coordinate of integers that moves by a shift."""
    reach = math.ceil(30 * math.sqrt(variance))
    points = np.arange(-reach, reach + 1)
    moved, rest = (np.log(special.ive(np.abs(points - by), variance)) for by in (shift, 0))
    epsilons = []
    for order in range(2, 13):  # the best ones are 2 to 6
        divergence = special.logsumexp(order * moved - (order - 1) * rest) / (order - 1)
        # Canonne, Kamath & Steinke 2020, proposition 12
        slack = math.log1p(-1 / order) - math.log(1e-5 * order) / (order - 1)
        epsilons.append(rounds * divergence + slack)
    return min(epsilons)


@pytest.mark.parametrize(("noise", "bits", "clients", "rounds"), DISTRIBUTED)
def test_skellam_noise_of_clients(noise, bits, clients, rounds, tmp_path):
    """Between the whole numbers of steps around a client's norm, and 1 % for all directions."""
    path = tmp_path / "config.toml"
    path.write_text(
        CONFIG.format(
            clients=clients,
            mechanism="distributed",
            noise=noise,
            keys=f"bits = {bits}",
            participation=f'kind = "every_round"\nrounds = {rounds}',
        )
    )
    source = source_of_path(path, [], None, None)
    grid = source.release.noise.grid
    norm, variance = (1 + grid.norm_inflation) * grid.cells, (noise * grid.cells) ** 2
    below, above = (
        skellam_epsilon(shift, variance, rounds) for shift in (math.floor(norm), math.ceil(norm))
    )
    found = accounted(source).bounds["knows_rounds"][0].guarantee.epsilon
    assert below <= found <= 1.01 * above


@pytest.mark.parametrize(("mechanism", "keys", "cap"), CAPS)
def test_caps_on_the_rounds_of_a_client(mechanism, keys, cap, tmp_path):
    rounds, separation = 16, 4
    path = tmp_path / "config.toml"
    participation = (
        f'kind = "min_separation"\nrounds = {rounds}\nclients_per_round = 2\n'
        f"separation = {separation}\nclient_rounds_at_most = {cap}"
    )
    path.write_text(
        CONFIG.format(
            clients=40, mechanism=mechanism, noise=1.0, keys=keys, participation=participation
        )
    )
    bounds = accounted(source_of_path(path, [], None, None)).bounds["knows_rounds"][0]
    allowed = list(schedules(rounds, cap, separation))
    match mechanism:
        case "gaussian_fixed":
            shift = math.sqrt(cap)
        case "tree_aggregation":
            shift = shift_of_trees(rounds, allowed, 6 if keys else None)
        case _:
            shift = shift_of_matrix(binomial_column(3 if "bands" in keys else 16), rounds, allowed)
    check(bounds, epsilon_of_shift(shift, 1e-5))
    assert bounds.guarantee.participations == cap


def test_dp_accounting_has_the_same_epsilon_of_one_release():
    """The values above are not this file's alone."""
    event = dp_accounting.GaussianDpEvent(0.7)
    epsilon = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-5)
    assert epsilon == pytest.approx(epsilon_of_shift(1 / 0.7, 1e-5), rel=1e-3)
