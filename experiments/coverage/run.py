"""The rate at which each bound exceeds the truth on mechanisms of known epsilon; see README.md.

Usage: python -m experiments.coverage.run [RUNS, 200 by default]
"""

import sys

import numpy as np
from scipy import stats

from fl_audit.estimators.known_mechanisms import (
    KnownMechanism,
    bounds_on,
    gaussian,
    laplace,
    pathological,
    randomised_response,
)

METHODS = (
    "threshold_valid",
    "one_run_valid",
    "threshold_gdp",
    "one_run_fdp",
    "threshold_jeffreys",
    "threshold_clopper_pearson",
    "one_run",
    "bayes",
)


def mechanisms(epsilon: float) -> list[KnownMechanism]:
    """One mechanism of each kind, with this epsilon."""
    return [
        randomised_response(epsilon),
        laplace(epsilon),
        gaussian(epsilon, delta=1e-5),
        gaussian(epsilon, delta=1e-5, dim=10**6),
        pathological(epsilon, delta=1e-3, beta=0.1),
    ]


def main() -> None:
    """Prints a row per mechanism, epsilon and number of canaries."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"| mechanism | k | ε | {' | '.join(METHODS)} |")
    print("|---" * (len(METHODS) + 3) + "|")
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        for num_canaries in (100, 1000):
            for mechanism in mechanisms(epsilon):
                print(row(mechanism, num_canaries, runs), flush=True)
    print(f"\n{runs} runs; more than {stats.binom.isf(1e-6, runs, 0.05):.0f} failures of a 95 %")
    print("bound have probability below 1e-6.")


def row(mechanism: KnownMechanism, num_canaries: int, runs: int) -> str:
    """A row of failures in percent and, as a share of the true epsilon, medians by method."""
    found = bounds_on(mechanism, METHODS, num_canaries=num_canaries, runs=runs, seed=1)
    cells = []
    for method in METHODS:
        failures = 100 * np.mean(found[method] > mechanism.epsilon * (1 + 1e-9))
        cells.append(f"{failures:.1f} % ({np.median(found[method]) / mechanism.epsilon:.2f})")
    return f"| {mechanism.name} | {num_canaries} | {mechanism.epsilon:g} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
