"""What one run proves under correlated noise, against independent noise of the same epsilon.

Usage: python experiments/production/strategies_at_one_epsilon.py [SEEDS, 10 by default]

Coins, canaries (in one round each), rounds and noise are those of the quickstart with that seed,
its mechanism replaced by each strategy at the noise that guarantees a canary as much. Clients'
updates are not trained: they are of length 1, in directions of their own, and 20 a round. Canaries
are scored by `own_rounds`' weights on the aggregates, and by their own aggregate alone.
"""

import math
import sys
from importlib import resources
from pathlib import Path

import numpy as np
from scipy import signal

from fl_audit.accounting import attacker_bounds
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray
from fl_audit.attacks.compared_vectors import any_one_of, concentration_row
from fl_audit.canaries.store import make_family
from fl_audit.config import Canaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import Null

CLIENTS, DIM, COHORT = 300, 167_178, 20
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


def noised(run: RunDesign, random: np.random.Generator) -> FloatArray:
    """The noise of all aggregates in clip norms, of shape (rounds, DIM)."""
    fresh = random.standard_normal((run.num_rounds, DIM), np.float32)
    fresh *= np.float32(run.noise.sum_noise_multiplier)
    correlation = run.release.correlation
    if correlation is None:
        return fresh
    assert isinstance(correlation, Toeplitz)
    return np.asarray(signal.lfilter([1.0], correlation.first_column, fresh, axis=0))


def estimates(run: RunDesign) -> dict[str, float]:
    """The epsilons of one seed, and the mean shift over what the canaries' own rounds allow."""
    seed, canaries = run.config.seed, run.config.canaries
    assert isinstance(canaries, Canaries)
    family = make_family(canaries, seed, DIM)
    random = np.random.default_rng([seed, 12])
    members, rounds = run.own_rounds.members(), run.num_rounds
    aggregates = noised(run, random)
    for index in range(rounds):
        clients = random.standard_normal(DIM, np.float32)  # a random direction of length sqrt(20)
        aggregates[index] += clients * math.sqrt(COHORT / DIM)
        for canary in members.get(index, np.zeros(0, np.int64)):
            if run.included[canary]:
                aggregates[index] += family.vector(int(canary))
    correlation = run.release.correlation
    weights = np.eye(rounds) if correlation is None else correlation.weights(np.eye(rounds))
    lengths = np.sqrt(np.diag(weights)) / run.noise.sum_noise_multiplier
    whitened = weights.astype(np.float32) @ aggregates
    own = {name: np.zeros(canaries.count) for name in ("whitened", "own aggregate")}
    allowed = np.zeros(canaries.count)
    for index, there in members.items():
        allowed[there] = lengths[index]
        for canary in there:
            vector = family.vector(int(canary))
            for name, seen in (("whitened", whitened), ("own aggregate", aggregates)):
                own[name][canary] = vector @ seen[index] / np.linalg.norm(seen[index])
    compared = any_one_of(np.stack([concentration_row(row) for row in whitened]))
    assert compared is not None
    null = Null("closed_form", compared.null_tail(canaries.family, DIM), DIM)
    found = {}
    for name, scores in own.items():
        split = CanaryScores(scores[run.included], scores[~run.included])
        setting = AuditSetting(split, run.delta, run.config.audit.confidence, null)
        for method in METHODS_SHOWN:
            found[f"{name}, {method}"] = METHODS[method](setting).epsilon
    allowed = allowed[run.included]
    found["shift"] = math.sqrt(DIM) * own["whitened"][run.included].mean() / allowed.mean()
    found["excluded"] = math.sqrt(DIM) * own["whitened"][~run.included].std()
    found["own guarantee"] = epsilon_of_mu(float(allowed.mean()), run.delta)
    return found


def main() -> None:
    """Prints a row per strategy: the median, and the range, over the seeds."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 10))
    columns: tuple[str, ...] = ()
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


def _cell(values: list[float]) -> str:
    """The median, and the least and the largest."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()
