"""What a direction that clients have in common takes from an attacker who knows the matrix.

Usage: python -m experiments.production.common_direction [SEEDS, 8 by default]

Runs are those of `strategies_at_one_epsilon` with canaries of the first half, in two dimensions. A
share of each client's squared length lies in one direction that is the same in all rounds, so that
a round's 20 clients add up in it. Canaries are scored with the weights of `own_rounds`, the inverse
of the noise's covariance over rounds times the canary's rounds; and with the inverse of the
aggregates' own Gram matrix in its place, which knows clients and noise. Printed is the mean shift
of included canaries over what accounting allows.
"""

import itertools
import math
import sys

import numpy as np

from experiments.coverage.quickstart_seeds import DIM
from experiments.production.simulated import allowed_shifts, precision, presences, symmetric_root
from experiments.production.strategies_at_one_epsilon import COHORT, designed
from fl_audit.array_types import FloatArray

STRATEGIES = ("independent", "sqrt", "tree, by released sums")
DIMS = (20_000, DIM)
SHARES = (0.0, 0.1, 0.5)


def shares_of_shift(strategy: str, dim: int, common: float, seed: int) -> tuple[float, ...]:
    """The mean shifts of one run over what accounting allows, by both kinds of weights."""
    run = designed(strategy, 50, seed)
    there, weights = presences(run), precision(run)
    random = np.random.default_rng([seed, 5])
    shape = (run.num_rounds, dim)
    vectors = random.standard_normal((run.num_canaries, dim), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    root = symmetric_root(weights) * run.noise.sum_noise_multiplier
    aggregates = root.astype(np.float32) @ random.standard_normal(shape, np.float32)
    direction = random.standard_normal(dim, np.float32)
    direction *= COHORT * math.sqrt(common) / np.linalg.norm(direction)
    own = math.sqrt(COHORT * (1 - common) / dim)
    aggregates += direction + random.standard_normal(shape, np.float32) * np.float32(own)
    aggregates += (there * run.included[:, None]).T.astype(np.float32) @ vectors
    products = (vectors @ aggregates.T).astype(np.float64)
    gram = (aggregates @ aggregates.T).astype(np.float64)
    allowed = allowed_shifts(run)[run.included].mean()

    def share(rows: FloatArray) -> float:
        lengths = np.sqrt(np.einsum("ct,ts,cs->c", rows, gram, rows, optimize=True))
        cosines = np.sum(rows * products, axis=1) / lengths
        return float(math.sqrt(dim) * cosines[run.included].mean() / allowed)

    return share(there @ weights), share(there @ np.linalg.inv(gram))


def main() -> None:
    """Prints a row per strategy, dimension and share."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 8))
    print(
        "| strategy | d | common share | weights of the matrix | of the aggregates' Gram matrix |"
    )
    print("|---|---|---|---|---|")
    for strategy, dim, common in itertools.product(STRATEGIES, DIMS, SHARES):
        runs = np.array([shares_of_shift(strategy, dim, common, seed) for seed in seeds])
        cells = [f"{mean:.2f}" for mean in runs.mean(axis=0)]
        print(f"| {strategy} | {dim:,} | {common:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
