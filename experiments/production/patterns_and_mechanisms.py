"""Five participation patterns by five mechanisms, at equal utility and at equal epsilon.

Usage: python -m experiments.production.patterns_and_mechanisms TABLE.csv PICTURE.png [SEEDS, 10]

Utility is the root mean square of the noise on prefix sums, which is what stands in the model.
Canaries participate like clients. Nothing is trained: clients' updates are of length 1 in random
directions (simulated.py). The estimate is `shift_fit`.
"""

import csv
import dataclasses
import functools
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import optimize

from experiments.production.simulated import prefix_error, presences, simulate
from fl_audit.accounting import attacker_bounds
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.null import GaussianCanaryNull, Null

ROUNDS, CLIENTS, COHORT, CANARIES = 120, 300, 20, 500
"""Our choice; 20 of 300 clients make an epoch of 15 rounds, of which there are 8."""

DIM = 20_000
DELTA = 1e-3
NOISE = 1.0
"""The noise multiplier of independent noise, whose utility the others have in the first half."""

EPSILON = 8.0
"""The upper bound for a canary whose rounds are known, in the second half."""

PATTERNS = {
    "shuffle": "canaries='once_per_epoch'",
    "min_separation": "separation=15",
    "cyclic_poisson": "separation=5",
    "b_min_sep": "separation=5",
    "bernoulli": "",
}
MECHANISMS = {
    "independent": "{kind='gaussian_fixed',clip_norm=1,noise_multiplier=Z}",
    "bands 4": "{kind='matrix_factorisation',strategy='banded_sqrt',bands=4,"
    "clip_norm=1,noise_multiplier=Z}",
    "bands 32": "{kind='matrix_factorisation',strategy='banded_sqrt',bands=32,"
    "clip_norm=1,noise_multiplier=Z}",
    "blt 3": "{kind='matrix_factorisation',strategy='blt',buffers=3,"
    "clip_norm=1,noise_multiplier=Z}",
    "tree": "{kind='tree_aggregation',clip_norm=1,noise_multiplier=Z}",
}
"""The mechanisms as config tables, Z left to be set."""

SCENES = ("equal utility", f"equal epsilon {EPSILON:g}")


@functools.cache
def designed(pattern: str, mechanism: str, noise: float, seed: int) -> RunDesign:
    """A run of the quickstart's clients under a pattern and a mechanism."""
    path = Path(__file__).parent / "digits.toml"
    keys = f"kind='{pattern}',rounds={ROUNDS},clients_per_round={COHORT},{PATTERNS[pattern]}"
    settings = [
        f"seed={seed}",
        f"audit.delta={DELTA}",
        f"canaries.count={CANARIES}",
        f"participation={{{keys.rstrip(',')}}}",
        f"mechanism={MECHANISMS[mechanism].replace('Z', repr(noise))}",
    ]
    config = load_config(path, settings)
    return design_run(config, [f"client {i}" for i in range(CLIENTS)], CANARIES)


def upper_bounds(run: RunDesign) -> tuple[float | None, float | None]:
    """The upper bounds for a canary whose rounds are known, and are not; None where unknown."""
    bounds = attacker_bounds(run.release, run.release.canary, DELTA)
    return bounds.knowing_rounds.guarantee.epsilon, bounds.not_knowing_rounds.guarantee.epsilon


def noise_of(scene: str, pattern: str, mechanism: str) -> float | None:
    """The noise multiplier of a cell; None where no upper bound is known."""
    at_one = designed(pattern, mechanism, 1.0, 1)
    if scene == SCENES[0]:
        independent = designed(pattern, "independent", NOISE, 1)
        return prefix_error(independent) / prefix_error(at_one)
    if upper_bounds(at_one)[0] is None:
        return None

    def excess(log_noise: float) -> float:
        reached = upper_bounds(designed(pattern, mechanism, math.exp(log_noise), 1))[0]
        assert reached is not None
        return math.log(reached / EPSILON)

    return math.exp(optimize.brentq(excess, math.log(0.1), math.log(100.0), xtol=1e-5))


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a scene, pattern and mechanism come to.

    Attributes:
      scene: Equal utility or equal epsilon.
      pattern: The participation pattern.
      mechanism: The mechanism.
      noise_multiplier: That of the independent noise before it is correlated.
      prefix_error: The root mean square of the noise on prefix sums, in clip norms.
      known: The upper bound for a canary whose rounds are known; None where none is known.
      hidden: That for one whose rounds are secret.
      proven: `threshold_valid` of each seed, knowing the rounds.
      estimated: `shift_fit` of each seed.
    """

    scene: str
    pattern: str
    mechanism: str
    noise_multiplier: float
    prefix_error: float
    known: float | None
    hidden: float | None
    proven: tuple[float, ...]
    estimated: tuple[float, ...]


def cell(scene: str, pattern: str, mechanism: str, seeds: Sequence[int]) -> Cell | None:
    """Simulates a cell; None where its noise is not known."""
    noise = noise_of(scene, pattern, mechanism)
    if noise is None:
        return None
    run = designed(pattern, mechanism, noise, 1)
    found = [estimates(designed(pattern, mechanism, noise, seed), seed) for seed in seeds]
    proven, estimated = zip(*found, strict=True)
    return Cell(
        scene, pattern, mechanism, noise, prefix_error(run), *upper_bounds(run), proven, estimated
    )


@functools.lru_cache(maxsize=1)
def vectors(seed: int) -> np.ndarray:
    """The canaries, random directions, float32 of shape (CANARIES, DIM)."""
    drawn = np.random.default_rng([seed, 11]).standard_normal((CANARIES, DIM), np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def estimates(run: RunDesign, seed: int) -> tuple[float, float]:
    """`threshold_valid` and `shift_fit` of one simulated run."""
    scores = simulate(run, vectors(seed), COHORT, seed, presences(run)).whitened
    split = CanaryScores(scores[run.included], scores[~run.included])
    null = Null("closed_form", GaussianCanaryNull(DIM), DIM)
    setting = AuditSetting(split, DELTA, 0.95, null)
    return METHODS["threshold_valid"](setting).epsilon, METHODS["shift_fit"](setting).epsilon


def draw(cells: Sequence[Cell], path: Path) -> None:
    """Draws a panel per scene: upper bounds, estimate and lower bound, and utility above."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        2, 2, figsize=(11, 7), sharex=True, height_ratios=[1, 3], layout="constrained"
    )
    names, run = list(MECHANISMS), {(one.scene, one.pattern) for one in cells}
    for column, scene in enumerate(SCENES):
        error, epsilon = axes[:, column]
        error.set_title(scene.replace("epsilon", "upper bound ε ="))
        for at, (pattern, mechanism) in enumerate((p, m) for p in PATTERNS for m in MECHANISMS):
            place = at + 1.5 * (at // len(names))
            colour = f"C{names.index(mechanism)}"
            one = next(
                (
                    c
                    for c in cells
                    if (c.scene, c.pattern, c.mechanism) == (scene, pattern, mechanism)
                ),
                None,
            )
            if one is None:
                epsilon.text(
                    place,
                    0.02,
                    "no upper bound" if (scene, pattern) in run else "not run",
                    rotation=90,
                    ha="center",
                    va="bottom",
                    fontsize=6,
                    color=colour,
                    transform=epsilon.get_xaxis_transform(),
                )
                continue
            error.bar(place, one.prefix_error, color=colour)
            proven, estimated = np.median(one.proven), np.median(one.estimated)
            epsilon.bar(place, proven, color=colour, alpha=0.5)
            epsilon.plot(place, estimated, "o", color=colour, markersize=4)
            if one.known is not None:
                epsilon.plot(place, one.known, "_", color="black", markersize=9, mew=2)
            if one.hidden is not None and one.hidden != one.known:
                epsilon.plot(place, one.hidden, "_", color="grey", markersize=9, mew=2)
        width = len(names) + 1.5
        epsilon.set_xticks(
            [at * width + 2 for at in range(len(PATTERNS))],
            [name.replace("_", "\n", 1) for name in PATTERNS],
        )
        error.set_ylabel("error of prefix sums")
        epsilon.set_ylabel("ε of a canary")
        epsilon.set_ylim(0, None)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=f"C{at}", label=name) for at, name in enumerate(names)
    ]
    handles += [
        plt.Line2D(
            [], [], marker="_", ls="", color="black", mew=2, label="upper bound, rounds known"
        ),
        plt.Line2D(
            [], [], marker="_", ls="", color="grey", mew=2, label="upper bound, rounds secret"
        ),
        plt.Line2D([], [], marker="o", ls="", color="C7", label="estimate"),
        plt.Rectangle((0, 0), 1, 1, color="C7", alpha=0.5, label="lower bound (95 %)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=110)


def write(cells: Sequence[Cell], path: Path) -> None:
    """Writes a row per cell, with medians and ranges over seeds."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            [
                "scene",
                "pattern",
                "mechanism",
                "noise_multiplier",
                "prefix_error",
                "upper_known",
                "upper_secret",
                "lower",
                "lower_least",
                "lower_most",
                "estimate",
                "seeds",
            ]
        )
        for one in cells:
            numbers = [
                one.noise_multiplier,
                one.prefix_error,
                one.known,
                one.hidden,
                float(np.median(one.proven)),
                min(one.proven),
                max(one.proven),
                float(np.median(one.estimated)),
            ]
            rows.writerow(
                [one.scene, one.pattern, one.mechanism]
                + ["" if n is None else f"{n:.4g}" for n in numbers]
                + [len(one.proven)]
            )


def main() -> None:
    """Simulates all cells, writes the table and the picture."""
    table, picture = map(Path, sys.argv[1:3])
    seeds = range(1, 1 + (int(sys.argv[3]) if len(sys.argv) > 3 else 10))
    cells = []
    for scene in SCENES:
        for pattern in PATTERNS:
            for mechanism in MECHANISMS:
                one = cell(scene, pattern, mechanism, seeds)
                if one is None:
                    print(scene, pattern, mechanism, "no upper bound is known", flush=True)
                    continue
                cells.append(one)
                known = "none known" if one.known is None else f"{one.known:.3g}"
                print(
                    f"{scene}, {pattern}, {mechanism}: error {one.prefix_error:.3g}, upper "
                    f"{known}, lower {np.median(one.proven):.3g}, "
                    f"estimate {np.median(one.estimated):.3g}",
                    flush=True,
                )
    write(cells, table)
    draw(cells, picture)


if __name__ == "__main__":
    main()
