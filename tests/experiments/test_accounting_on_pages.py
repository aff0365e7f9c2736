"""Upper bounds on experiments' pages, from accounting of their configs: nothing is trained."""

import pytest
from experiment_pages import ROOT, page_text, row_of

from fl_audit.accounting import Accounting, account
from fl_audit.config import Canaries
from fl_audit.config.design import design_run
from fl_audit.config.file import load_config
from fl_audit.number_words import epsilon_text, upper_bound_text

slow = pytest.mark.slow

PATTERNS = {
    "once in the run": [],
    "four times": ["participation.canary_repeats=4"],
    "once per epoch": ["participation.canaries=once_per_epoch"],
    "Poisson sampling": ["participation.kind=bernoulli"],
    "every tenth round": [
        "participation.kind=min_separation",
        "participation.separation=10",
        "participation.canaries=most_frequent",
    ],
}
"""The variants of participation_patterns/sweep.toml, by the first words of their row."""


def accounted(config: str, num_clients: int, settings: list[str]) -> Accounting:
    loaded = load_config(ROOT / "experiments" / config, settings)
    assert isinstance(loaded.canaries, Canaries)
    clients = [f"client {i}" for i in range(num_clients)]
    design = design_run(loaded, clients, loaded.canaries.count)
    return account(design.release, design.delta)


def of_canary(config: str, num_clients: int, noise: float, settings: list[str]) -> str:
    noisy = [*settings, f"mechanism.noise_multiplier={noise}"]
    return epsilon_text(accounted(config, num_clients, noisy).canary.epsilon)


@slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern):
    config = "participation_patterns/config.toml"
    found = [of_canary(config, 299, noise, PATTERNS[pattern]) for noise in (0.1, 0.2)]
    assert row_of("participation_patterns", pattern) == found


@slow
def test_shakespeare():
    found = accounted("shakespeare/config.toml", 299, ["mechanism.noise_multiplier=0.02"])
    client, canary = (f"{party.epsilon:,.0f}" for party in (found.client, found.canary))
    said = f"{client} to a real client (5 rounds), {canary} to a canary (1 round)"
    assert f"Analytical ε with noise: {said}" in page_text("shakespeare")


@slow
def test_emnist():
    found = [of_canary("emnist/small.toml", 300, noise, []) for noise in (0.1, 0.3)]
    assert f"ε ≤ {found[0]} at 0.1 and {found[1]} at 0.3" in page_text("emnist")


@slow
@pytest.mark.parametrize("noise", ["0.0644", "0.1023", "0.1836", "0.2344"])
def test_the_stand_in_of_stack_overflow(noise):
    noisy = [f"mechanism.noise_multiplier={noise}"]
    canary = accounted("stackoverflow/small.toml", 3000, noisy).canary
    found = upper_bound_text(canary.epsilon)
    rows = page_text("stackoverflow").partition(
        "beside the upper bound from accounting for a canary"
    )[2]
    (row,) = (
        line for line in rows.splitlines() if line.startswith(f"| {noise} | ") and "…" in line
    )
    assert row.endswith(f"| {found} |")
