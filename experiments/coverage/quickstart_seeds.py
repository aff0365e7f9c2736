"""What the quickstart shows at noise multiplier 0.3 on `own_rounds`, over seeds, without training.

Usage: python -m experiments.coverage.quickstart_seeds proven|claimed [SEEDS, 20 by default]

`proven` prints what each method proves, `claimed` how often the claim of the noise as configured is
contradicted, with that noise and with less.

Coins, canaries, rounds and noise are those of the quickstart's config with that seed. Only clients'
updates are not trained: all are a clip norm long, and either cancel or all point one way. These are
the extremes; the noise is 123 clip norms long, and 20 clients' updates are at most 20.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from fl_audit.accounting import attacker_bounds
from fl_audit.attacks.compared_vectors import any_one_of, concentration_row
from fl_audit.attacks.known_rounds import OWN_ROUNDS
from fl_audit.canaries.store import make_family
from fl_audit.config import Canaries
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.null import Null
from fl_audit.verdict import ScoredStatistic, Verdict, curve_tests, reach_verdict
from fl_audit.verdict.claims import configured_claim
from fl_audit.verdict.record import Outcome

METHODS_SHOWN = ("threshold_valid", "threshold_gdp", "one_run_valid", "shift_fit")
CLIENTS, DIM = 300, 167_178
EXTREMES = (0.0, 20.0)
"""The length of the sum of clients' updates, in clip norms."""

NOISE_FACTORS = (1.0, 0.93, 0.5)


def designed(seed: int, *settings: str) -> RunDesign:
    """The quickstart's coins, rounds and noise at a seed, with noise 0.3 or other settings."""
    path = Path(str(resources.files("fl_audit.pipeline") / "quickstart.toml"))
    config = load_config(path, [f"seed={seed}", *(settings or ["mechanism.noise_multiplier=0.3"])])
    assert isinstance(config.canaries, Canaries)
    return design_run(config, [f"client {i}" for i in range(CLIENTS)], config.canaries.count)


def scored(run: RunDesign, common: float, noise_factor: float = 1.0) -> tuple[CanaryScores, Null]:
    """The scores in own rounds of one seed, and what is known of excluded ones.

    Args:
      run: The design.
      common: The length of the sum of clients' updates in a round, in clip norms.
      noise_factor: What is really added of the noise, over what is configured.
    """
    seed, canaries = run.config.seed, run.config.canaries
    assert isinstance(canaries, Canaries)
    family = make_family(canaries, seed, DIM)
    random = np.random.default_rng([seed, 11])
    members = run.own_rounds.members()
    direction = random.standard_normal(DIM)
    direction *= common / np.linalg.norm(direction)
    stddev = noise_factor * run.noise.sum_noise_multiplier
    scores, rows = np.zeros(canaries.count), []
    for index in range(run.schedule.num_rounds):
        aggregate = direction + stddev * random.standard_normal(DIM)
        own = members.get(index, np.zeros(0, np.int64))
        vectors = {int(canary): family.vector(int(canary)) for canary in own}
        for canary in own[run.included[own]]:
            aggregate += vectors[int(canary)]
        rows.append(concentration_row(aggregate.astype(np.float32)))
        for canary in own:
            scores[canary] = vectors[int(canary)] @ aggregate / np.linalg.norm(aggregate)
    compared = any_one_of(np.stack(rows))
    assert compared is not None
    null = Null("closed_form", compared.null_tail(canaries.family, DIM), DIM)
    return CanaryScores(scores[run.included], scores[~run.included]), null


def estimates(run: RunDesign, common: float) -> Mapping[str, float]:
    """The epsilons of one seed, with clients' updates as `scored` has them."""
    scores, null = scored(run, common)
    setting = AuditSetting(scores, run.delta, run.config.audit.confidence, null)
    made = {name: METHODS[name](setting) for name in METHODS_SHOWN}
    return {name: estimate.epsilon for name, estimate in made.items()} | {
        "shift_fit, lower end": made["shift_fit"].lower or 0.0
    }


def verdict_of(run: RunDesign, common: float, noise_factor: float) -> Verdict:
    """The verdict on the noise as configured, claimed at the confidence of the config."""
    claim = configured_claim(run.release, run.delta, [OWN_ROUNDS], is_stated=True)
    assert claim is not None
    statistic = ScoredStatistic(OWN_ROUNDS.name, *scored(run, common, noise_factor))
    return reach_verdict(claim, curve_tests(claim, [statistic], run.config.audit.confidence))


def lower_bound(seeds: Sequence[int]) -> None:
    """Prints a row per extreme: medians, and the range, over the seeds."""
    columns = (*METHODS_SHOWN, "shift_fit, lower end")
    print(f"| sum of clients | guaranteed | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    for common in EXTREMES:
        runs = [designed(seed) for seed in seeds]
        limits = [
            attacker_bounds(one.release, one.release.canary, one.delta).knowing_rounds.guarantee
            for one in runs
        ]
        found = [estimates(one, common) for one in runs]
        cells = [median_and_range([one[column] for one in found]) for column in columns]
        upper_bound = median_and_range([limit.epsilon or math.inf for limit in limits])
        print(f"| {common:g} | {upper_bound} | {' | '.join(cells)} |", flush=True)


def claimed(seeds: Sequence[int]) -> None:
    """Prints a row per extreme and share of the noise: how many seeds contradict the claim."""
    print("| sum of clients | noise for 0.3 | contradicted | p, median and range |")
    print("|---|---|---|---|")
    for common in EXTREMES:
        for factor in NOISE_FACTORS:
            found = [verdict_of(designed(seed), common, factor) for seed in seeds]
            contradicted = sum(one.outcome is Outcome.CONTRADICTED for one in found)
            p = median_and_range([one.p_value or 0.0 for one in found])
            noise = f"{0.3 * factor:.3g}"
            print(f"| {common:g} | {noise} | {contradicted} of {len(found)} | {p} |", flush=True)


def main() -> None:
    """Prints one of the two tables."""
    seeds = range(1, 1 + (int(sys.argv[2]) if len(sys.argv) > 2 else 20))
    {"proven": lower_bound, "claimed": claimed}[sys.argv[1]](seeds)


def median_and_range(values: Sequence[float]) -> str:
    """The median, and the least and the largest."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()
