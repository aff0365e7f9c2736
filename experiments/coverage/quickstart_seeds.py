"""What the quickstart proves at noise multiplier 0.3 on `own_rounds`, over seeds, without training.

Usage: python experiments/coverage/quickstart_seeds.py [SEEDS, 20 by default]

Coins, canaries, rounds and noise are those of the quickstart's config with that seed. Only clients'
updates are not trained: all are a clip norm long, and either cancel or all point one way. These are
the extremes; the noise is 123 clip norms long, and 20 clients' updates are at most 20.
"""

import math
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import numpy as np

from fl_audit.accounting import attacker_bounds
from fl_audit.attacks.statistics import any_one_of, concentration_row
from fl_audit.canaries.store import make_family
from fl_audit.config import Canaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.null import Null

METHODS_SHOWN = ("threshold_valid", "threshold_gdp", "one_run_valid", "shift_fit")
CLIENTS, DIM = 300, 167_178


def designed(seed: int) -> RunDesign:
    """The quickstart's coins, rounds and noise at a seed."""
    path = Path(str(resources.files("fl_audit.pipeline") / "quickstart.toml"))
    config = load_config(path, [f"seed={seed}", "mechanism.noise_multiplier=0.3"])
    assert isinstance(config.canaries, Canaries)
    return design_run(config, [f"client {i}" for i in range(CLIENTS)], config.canaries.count)


def estimates(run: RunDesign, common: float) -> Mapping[str, float]:
    """The epsilons of one seed.

    Args:
      run: The design.
      common: The length of the sum of clients' updates in a round, in clip norms.
    """
    seed, canaries = run.config.seed, run.config.canaries
    assert isinstance(canaries, Canaries)
    family = make_family(canaries, seed, DIM)
    random = np.random.default_rng([seed, 11])
    members = run.own_rounds.members()
    direction = random.standard_normal(DIM)
    direction *= common / np.linalg.norm(direction)
    scores, rows = np.zeros(canaries.count), []
    for index in range(run.schedule.num_rounds):
        aggregate = direction + run.noise.sum_noise_multiplier * random.standard_normal(DIM)
        own = members.get(index, np.zeros(0, np.int64))
        vectors = {int(canary): family.vector(int(canary)) for canary in own}
        for canary in own[run.included[own]]:
            aggregate += vectors[int(canary)]
        rows.append(concentration_row(aggregate.astype(np.float32)))
        for canary in own:
            scores[canary] = vectors[int(canary)] @ aggregate / np.linalg.norm(aggregate)
    compared = any_one_of(np.stack(rows))
    assert compared is not None
    setting = AuditSetting(
        CanaryScores(scores[run.included], scores[~run.included]),
        run.delta,
        run.config.audit.confidence,
        Null("closed_form", compared.null_tail(canaries.family, DIM), DIM),
    )
    made = {name: METHODS[name](setting) for name in METHODS_SHOWN}
    return {name: estimate.epsilon for name, estimate in made.items()} | {
        "shift_fit, lower end": made["shift_fit"].lower or 0.0
    }


def main() -> None:
    """Prints a row per extreme: medians, and the range, over the seeds."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 20))
    columns = (*METHODS_SHOWN, "shift_fit, lower end")
    print(f"| sum of clients | guaranteed | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    for common in (0.0, 20.0):
        runs = [designed(seed) for seed in seeds]
        limits = [
            attacker_bounds(one.release, one.release.canary, one.delta).knowing_rounds.guarantee
            for one in runs
        ]
        found = [estimates(one, common) for one in runs]
        cells = [_cell([one[column] for one in found]) for column in columns]
        guaranteed = _cell([limit.epsilon or math.inf for limit in limits])
        print(f"| {common:g} | {guaranteed} | {' | '.join(cells)} |", flush=True)


def _cell(values: list[float]) -> str:
    """The median, and the least and the largest."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()
