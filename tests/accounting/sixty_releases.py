"""Sixty releases, and their epsilons by every accountant as recorded on one machine.

python -m tests.accounting.sixty_releases records them anew.
"""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

from fl_audit.accounting import (
    AllocatedRounds,
    BallsInBinsSampling,
    CyclicPoissonSampling,
    FixedRounds,
    FixedSizeSampling,
    Grid,
    MinSeparationSampling,
    Noise,
    OneGroup,
    PoissonSampling,
    Release,
    account,
)
from fl_audit.accounting.selection import price_of_selection
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from tests.accounting.releases import release

RECORDED = Path(__file__).with_name("recorded_epsilons.json")


def epsilons(released: Release, delta: float) -> list[float | None]:
    return [by.epsilon for by in account(released, delta).client.by_accountant]


def price(released: Release, delta: float) -> list[float | None]:
    of_five = price_of_selection([released] * 5, delta)
    return [of_five.composed, of_five.if_drawn]


def _all() -> dict[str, tuple[Callable[[Release, float], list[float | None]], Release, float]]:
    """What is computed of a release at a delta, by a name that says it."""
    samplings = [
        *(PoissonSampling(q) for q in (1e-6, 167 / 341_000, 0.01, 0.08, 0.5)),
        *(FixedSizeSampling(m, n) for m, n in ((1, 10), (60, 100), (20, 300), (167, 341_000))),
        *(CyclicPoissonSampling(0.1, b, t) for b, t in ((2, 50), (10, 10))),
        *(AllocatedRounds(k, 100) for k in (1, 5)),
        BallsInBinsSampling(10, 100),
        MinSeparationSampling(0.05, 5, 100),
        OneGroup(7, 10),
        FixedRounds(3),
        FixedRounds(1930),
    ]
    cases = {
        f"{sampling} at noise {noise}": (epsilons, release(noise, sampling), 1e-6)
        for sampling, noise in itertools.product(samplings, (0.5, 3.0))
    }
    for noise in (0.0644, 0.2, 0.3, 50.0):
        for sampling in (PoissonSampling(0.08), FixedSizeSampling(20, 300)):
            long = release(noise, sampling, rounds=1930)
            cases[f"{sampling} at noise {noise}, 1930 rounds"] = (epsilons, long, 8.2e-7)
    for delta in (1e-12, 1e-3):
        for sampling in (PoissonSampling(0.01), FixedRounds(10)):
            cases[f"{sampling} at delta {delta}"] = (epsilons, release(1.0, sampling), delta)
    for noise in (0.5, 4.0):
        for sampling in (PoissonSampling(0.01), PoissonSampling(0.2), FixedRounds(3)):
            cases[f"{sampling} at noise {noise}, 5 runs"] = (price, release(noise, sampling), 1e-5)
    matrix = Toeplitz(tuple(sqrt_column(8).tolist()), num_rounds=100)
    for sampling in (CyclicPoissonSampling(0.1, 10, 10), OneGroup(10, 10)):
        correlated = release(
            1.0, sampling, distribution="matrix", correlation=matrix, client_squared=50
        )
        cases[f"{sampling} under a matrix"] = (epsilons, correlated, 1e-6)
    for noise in (0.5, 1.0, 2.0, 8.0):
        on_grid = Noise("skellam", noise, noise, 0.0, Grid(100.0, 0.1))
        summed = release(noise, FixedRounds(4), fewest=20).with_noise(on_grid)
        cases[f"Skellam noise {noise}"] = (epsilons, summed, 1e-6)
    return cases


CASES = _all()


if __name__ == "__main__":
    found = {name: compute(of, delta) for name, (compute, of, delta) in CASES.items()}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")
