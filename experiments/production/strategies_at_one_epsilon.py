"""What one run proves under correlated noise, against independent noise of the same epsilon.

Usage: python -m experiments.production.strategies_at_one_epsilon [SEEDS, 10 by default]

Coins, canaries (in one round each), rounds and noise are those of the quickstart with that seed,
its mechanism replaced by each strategy at the noise that guarantees a canary as much. Clients'
updates are not trained: they are of length 1, in directions of their own, and 20 a round
(simulated.py). All strategies of a seed share canaries, clients and fresh noise. Canaries are
scored by `own_rounds`' weights on the aggregates, and by their own aggregate alone; and once more
by those weights with all their rounds in the first half of the run.
"""

import math
import sys
from importlib import resources
from pathlib import Path

import numpy as np

from experiments.production.simulated import presences, simulate
from fl_audit.accounting import attacker_bounds
from fl_audit.array_types import FloatArray
from fl_audit.config import Canaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import GaussianCanaryNull, Null

CLIENTS, DIM, COHORT = 300, 20_000, 20
METHODS_SHOWN = ("threshold_valid", "threshold_gdp")
NOISE = 0.4
"""The noise multiplier of independent noise, which guarantees a canary epsilon 10.3."""

STRATEGIES = {
    "independent": "{kind='gaussian_fixed',clip_norm=1,noise_multiplier=Z}",
    "banded_sqrt 4": "{kind='matrix_factorisation',strategy='banded_sqrt',bands=4,"
    "clip_norm=1,noise_multiplier=Z}",
    "banded_sqrt 32": "{kind='matrix_factorisation',strategy='banded_sqrt',bands=32,"
    "clip_norm=1,noise_multiplier=Z}",
    "sqrt": "{kind='matrix_factorisation',strategy='sqrt',clip_norm=1,noise_multiplier=Z}",
    "blt 3": "{kind='matrix_factorisation',strategy='blt',buffers=3,"
    "clip_norm=1,noise_multiplier=Z}",
    "banded_inverse_sqrt 4": "{kind='matrix_factorisation',strategy='banded_inverse_sqrt',"
    "bands=4,clip_norm=1,noise_multiplier=Z}",
    "tree": "{kind='tree_aggregation',clip_norm=1,noise_multiplier=Z}",
}
"""The mechanisms as config tables, Z left to be set."""


def designed(strategy: str, seed: int) -> RunDesign:
    """The quickstart under a strategy, with noise that guarantees as much as independent noise."""
    path = Path(str(resources.files("fl_audit.pipeline") / "quickstart.toml"))

    def with_noise(multiplier: float) -> RunDesign:
        table = STRATEGIES[strategy].replace("Z", repr(multiplier))
        config = load_config(path, [f"seed={seed}", f"mechanism={table}"])
        assert isinstance(config.canaries, Canaries)
        names = [f"client {i}" for i in range(CLIENTS)]
        return design_run(config, names, config.canaries.count)

    squared = with_noise(1.0).release.canary.squared_sensitivity
    return with_noise(NOISE * math.sqrt(squared or 1.0))


def estimates(run: RunDesign) -> dict[str, float]:
    """The epsilons of one seed, and the mean shift over what the canaries' own rounds allow."""
    seed = run.config.seed
    vectors = np.random.default_rng([seed, 11]).standard_normal((run.num_canaries, DIM), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    there = presences(run)
    early = np.zeros_like(there)
    early[np.arange(len(there)), there.argmax(axis=1) // 2] = 1.0
    anywhere, in_first_half = (simulate(run, vectors, COHORT, seed, own) for own in (there, early))
    found = {}
    for name, scores in (
        ("whitened", anywhere.whitened),
        ("own aggregate", anywhere.own),
        ("first half", in_first_half.whitened),
    ):
        for method in METHODS_SHOWN:
            found[f"{name}, {method}"] = METHODS[method](_setting(run, scores)).epsilon
    allowed = anywhere.allowed[run.included].mean()
    found["shift"] = math.sqrt(DIM) * anywhere.whitened[run.included].mean() / allowed
    found["excluded"] = math.sqrt(DIM) * anywhere.whitened[~run.included].std()
    found["own guarantee"] = epsilon_of_mu(float(allowed), run.delta)
    found["largest own guarantee"] = epsilon_of_mu(float(anywhere.allowed.max()), run.delta)
    return found


def _setting(run: RunDesign, scores: FloatArray) -> AuditSetting:
    null = Null("closed_form", GaussianCanaryNull(DIM), DIM)
    split = CanaryScores(scores[run.included], scores[~run.included])
    return AuditSetting(split, run.delta, run.config.audit.confidence, null)


def main() -> None:
    """Prints a row per strategy: the median, and the range, over the seeds."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 10))
    columns: tuple[str, ...] = ()
    independent: list[float] = []
    for strategy in STRATEGIES:
        runs = [designed(strategy, seed) for seed in seeds]
        limits = [
            attacker_bounds(one.release, one.release.canary, one.delta).knowing_rounds.guarantee
            for one in runs
        ]
        found = [estimates(one) for one in runs]
        if not columns:
            columns = tuple(found[0])
            print(f"| strategy | guaranteed | {' | '.join(columns)} |")
            print("|---" * (2 + len(columns)) + "|")
        cells = [_cell([one[column] for one in found]) for column in columns]
        guaranteed = _cell([limit.epsilon or math.inf for limit in limits])
        print(f"| {strategy} | {guaranteed} | {' | '.join(cells)} |", flush=True)
        for column in ("whitened, threshold_valid", "first half, threshold_valid"):
            proven = [one[column] for one in found]
            independent = independent or proven
            ratios = [mine / theirs for mine, theirs in zip(proven, independent, strict=True)]
            print(f"  {column}, over independent noise's with the same seed: {_cell(ratios)}")


def _cell(values: list[float]) -> str:
    """The median, and the least and the largest."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()
