"""Canaries that follow a pattern with a chosen expected number of rounds."""

import re
from pathlib import Path

import numpy as np
import pytest

from fl_audit.accounting.attacker_bounds import attacker_bounds
from fl_audit.accounting.sampling import OncePerBlock, Sampling
from fl_audit.accounting.secret_sampling import SecretSampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config import (
    BallsInBins,
    Bernoulli,
    BMinSep,
    CyclicPoisson,
    MinSeparation,
    RandomAllocation,
    Shuffle,
    Uniform,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms.mechanism_of_run import squared_sensitivity
from tests.accounting.releases import release
from tests.participation.attendance import attendance, schedule_of

POOL, ROUNDS, MEAN = 4_000, 40, 5
SIZES = {"rounds": ROUNDS, "clients_per_round": 6, "canary_mean_repeats": MEAN}
PATTERNS = [
    Shuffle(**SIZES, canaries="like_clients"),
    Bernoulli(**SIZES),
    Uniform(**SIZES),
    BallsInBins(**SIZES),
    RandomAllocation(**SIZES),
    CyclicPoisson(**SIZES, separation=4),
    MinSeparation(**SIZES, separation=4),
    BMinSep(**SIZES, separation=4),
    Shuffle(**SIZES, canaries="last_rounds", canary_last_rounds=20),
    Shuffle(rounds=ROUNDS, clients_per_round=6, canary_repeats=MEAN, canary_last_rounds=20),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: type(p).__name__)
def test_a_canary_has_this_many_rounds_on_average_and_clients_keep_theirs(pattern):
    schedule = schedule_of(pattern, 60, np.ones(POOL, bool))
    rounds = attendance(schedule, 60, POOL).canaries.sum(axis=0)
    # The variance is that of Poisson sampling at most; six deviations of the mean are 0.21.
    assert rounds.mean() == pytest.approx(MEAN, abs=6 * (MEAN / POOL) ** 0.5)
    assert schedule.expected_canaries == pytest.approx(MEAN * POOL / ROUNDS, rel=0.03)
    assert schedule.expected_clients == pytest.approx(6, rel=0.01)
    share = schedule.canary_attendance.sampling.round_share
    assert share is None or share * ROUNDS == pytest.approx(MEAN)


@pytest.mark.parametrize(
    ("pattern", "mean", "nearest"),
    [
        (Shuffle(**SIZES, canaries="like_clients"), 2.5, "2 or 3"),
        (RandomAllocation(**SIZES), 41, "40"),
        (BallsInBins(**SIZES), 6, "5.714286 or 6.666667"),
        (CyclicPoisson(**SIZES, separation=4), 11, "10"),
        (MinSeparation(**SIZES, separation=4), 11, "10"),
        (BMinSep(**SIZES, separation=4), 11, "10"),
        (Uniform(**SIZES), 41, "40"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_pattern_says_which_means_it_can_have(pattern, mean, nearest):
    other = type(pattern)(
        **{name: getattr(pattern, name) for name in pattern.__struct_fields__}
        | {"canary_mean_repeats": mean}
    )
    with pytest.raises(InputError, match=rf"canary_mean_repeats: is {mean:g}, .* is {nearest}$"):
        schedule_of(other, 60, np.ones(50, bool))


@pytest.mark.parametrize("rounds", [12, 28, 36])
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_each_client_in_exactly_so_many_rounds_dealt_evenly(rounds, epochs):
    """The nine cases of the reference program of Andrew et al. (2023)."""
    schedule = schedule_of(Shuffle(rounds=rounds, epochs=epochs), 31)
    table = attendance(schedule, 31).clients
    assert (table.sum(axis=0) == epochs).all()
    for part in np.array_split(table, epochs):
        assert (part.sum(axis=0) == 1).all()
        assert np.ptp(part.sum(axis=1)) <= 1
    sampling = schedule.client_attendance.sampling
    assert sampling == OncePerBlock(epochs, *divmod(rounds, epochs))
    assert schedule.expected_clients == pytest.approx(31 * epochs / rounds)


@pytest.mark.parametrize(("rounds", "epochs", "squared"), [(7, 2, 5), (5, 3, 9), (100, 3, 30)])
@pytest.mark.parametrize("clients", [3, 300])
def test_trees_count_any_round_of_each_of_unequal_parts(clients, rounds, epochs, squared):
    """However few clients the seed draws; the numbers are of all choices of rounds."""
    schedule = schedule_of(Shuffle(rounds=rounds, epochs=epochs), clients)
    assert squared_sensitivity(schedule.client_attendance, Trees(rounds)) == squared


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rounds": 4}, "clients_per_round or epochs: is missing"),
        ({"rounds": 4, "clients_per_round": 2, "epochs": 1}, "both are set"),
    ],
)
def test_one_of_cohort_and_epochs_is_set(keys, message):
    with pytest.raises(ValueError, match=message):
        Shuffle(**keys)


def support(pattern) -> tuple[str, str]:
    """The columns of the page's table: whether it hides rounds, also under a matrix, and E.

    Of a fixed size's two bounds the one that counts on it is the smaller one in some runs.
    """
    schedule = schedule_of(pattern, 60, np.ones(50, bool))
    attendance = schedule.client_attendance
    hides = "yes" if are_hidden(attendance.sampling) else "no"
    if hides == "no" and are_hidden(schedule.canary_attendance.sampling):
        hides = "canaries’ alone"
    if isinstance(pattern, Uniform):
        hides = "[some](participation.md#fixed-size)"
    strategy = Toeplitz((1.0, 0.5), ROUNDS)
    squared, sampling = squared_sensitivity(attendance, strategy), attendance.sampling
    under_matrix = "no" if squared else "unknown"
    if squared and isinstance(sampling, SecretSampling):
        made = release(1.0, sampling, rounds=ROUNDS, client_squared=squared, correlation=strategy)
        under_matrix = "no" if sampling.pair(made, made.client, 1e-5) is None else "yes"
    fields = {name: getattr(pattern, name) for name in pattern.__struct_fields__}
    try:
        schedule_of(type(pattern)(**fields | {"canary_mean_repeats": 2.3}), 60, np.ones(50, bool))
        mean = "any"
    except InputError as error:
        mean = "none" if "cannot be combined with" in str(error) else "some"
    return f"{hides} ({under_matrix})", mean


def are_hidden(sampling: Sampling) -> bool:
    """Whether an attacker without the schedule has a smaller upper bound."""
    made = release(1.0, sampling, rounds=ROUNDS)
    bounds = attacker_bounds(made, made.client, 1e-5)
    secret, known = (
        bound.guarantee.epsilon for bound in (bounds.not_knowing_rounds, bounds.knowing_rounds)
    )
    return bool(secret < 0.99 * known)


def test_the_page_says_what_is_supported():
    text = (Path(__file__).parents[2] / "docs/patterns.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*) \| (.*) \| (.*) \|$", text.partition("## 4.")[2], re.M)
    sizes = {"rounds": ROUNDS, "clients_per_round": 6}
    truncated = Bernoulli(**sizes, largest_round=12)
    for pattern in (*PATTERNS[:-2], truncated):
        name, is_cut = f"`{pattern.__struct_config__.tag}`", pattern is truncated
        (row,) = [
            row
            for row in rows
            if name in row[0].split(", ") and is_cut == ("`largest_round`" in row[0])
        ]
        hides, mean = support(pattern)
        assert row[1].replace("; one round shows all", "") == hides, name
        assert (row[2] if row[2] in ("any", "none") else "some") == mean, name
