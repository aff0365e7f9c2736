"""Five participation patterns by five mechanisms, at equal utility and at equal epsilon.

Usage: python -m experiments.production.patterns_and_mechanisms TABLE.csv PICTURE.png [SEEDS, 10]

Utility is the root mean square of the noise on prefix sums, the noise in the model.
Canaries participate like clients. Nothing is trained: clients' updates are of length 1 in random
directions (simulated.py). The estimate is `shift_fit`.
"""

import csv
import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

from experiments.production.simulated import (
    prefix_error,
    presences,
    random_directions,
    simulate,
)
from fl_audit.accounting import attacker_bounds
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_config
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import GaussianCanaryNull, Null

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    canary, is_independent = at_one.release.canary, at_one.release.correlation is None
    squared = canary.sampling.most_drawn if is_independent else canary.squared_sensitivity
    if squared is not None:  # one Gaussian mechanism, so that hidden rounds need no accounting here
        return math.sqrt(squared) * _noise_where(lambda z: epsilon_of_mu(1 / z, DELTA))
    if upper_bounds(at_one)[0] is None:
        return None
    return _noise_where(lambda z: upper_bounds(designed(pattern, mechanism, z, 1))[0] or math.inf)


def _noise_where(epsilon: Callable[[float], float]) -> float:
    """The noise multiplier of which a falling function is `EPSILON`."""

    def excess(log_noise: float) -> float:
        return math.log(epsilon(math.exp(log_noise)) / EPSILON)

    return math.exp(optimize.brentq(excess, math.log(0.1), math.log(100.0), xtol=1e-5))


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a scene, pattern and mechanism come to; a row of the table.

    Attributes:
      scene: Equal utility or equal epsilon.
      pattern: The participation pattern.
      mechanism: The mechanism.
      seeds: The number of simulated runs; 0 where no noise has that upper bound, for none is known.
      noise_multiplier: That of the independent noise before it is correlated.
      prefix_error: The root mean square of the noise on prefix sums, in clip norms.
      upper_known: The upper bound for a canary whose rounds are known; None where none is known.
      upper_secret: That for one whose rounds are secret.
      lower: `threshold_valid` knowing the rounds, the median over seeds.
      lower_least: The least.
      lower_most: The largest.
      estimate: `shift_fit`, the median over seeds.
      estimate_least: The least.
      estimate_most: The largest.
    """

    scene: str
    pattern: str
    mechanism: str
    seeds: int = 0
    noise_multiplier: float | None = None
    prefix_error: float | None = None
    upper_known: float | None = None
    upper_secret: float | None = None
    lower: float | None = None
    lower_least: float | None = None
    lower_most: float | None = None
    estimate: float | None = None
    estimate_least: float | None = None
    estimate_most: float | None = None


def cell(scene: str, pattern: str, mechanism: str, seeds: Sequence[int]) -> Cell:
    """Simulates a cell."""
    noise = noise_of(scene, pattern, mechanism)
    if noise is None:
        return Cell(scene, pattern, mechanism)
    run = designed(pattern, mechanism, noise, 1)
    runs = [estimates(designed(pattern, mechanism, noise, seed), seed) for seed in seeds]
    lower, estimate = ((float(np.median(e)), min(e), max(e)) for e in zip(*runs, strict=True))
    utility_and_bounds = (noise, prefix_error(run), *upper_bounds(run))
    return Cell(scene, pattern, mechanism, len(runs), *utility_and_bounds, *lower, *estimate)


def estimates(run: RunDesign, seed: int) -> tuple[float, float]:
    """`threshold_valid` and `shift_fit` of one simulated run."""
    vectors = random_directions(seed, CANARIES, DIM)
    scores = simulate(run, vectors, COHORT, seed, presences(run)).whitened
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
    names, patterns = list(MECHANISMS), list(PATTERNS)
    width = len(names) + 1.5
    for column, scene in enumerate(SCENES):
        error, epsilon = axes[:, column]
        error.set_title(scene.replace("epsilon", "upper bound ε ="))
        error.set_ylabel("error of prefix sums")
        epsilon.set_ylabel("ε of a canary")
        epsilon.set_xticks(
            [at * width + 2 for at in range(len(patterns))],
            [name.replace("_", "\n", 1) for name in patterns],
        )
        for one in cells:
            if one.scene == scene:
                number = names.index(one.mechanism)
                place = patterns.index(one.pattern) * width + number
                _draw_cell(one, error, epsilon, place, f"C{number}")
        epsilon.set_ylim(0, None)
    black = {"marker": "_", "ls": "", "mew": 2}
    handles = [
        *(plt.Rectangle((0, 0), 1, 1, color=f"C{at}", label=name) for at, name in enumerate(names)),
        plt.Line2D([], [], color="black", label="upper bound, rounds known", **black),
        plt.Line2D([], [], color="grey", label="upper bound, rounds secret", **black),
        plt.Line2D([], [], marker="o", ls="", color="C7", label="estimate"),
        plt.Rectangle((0, 0), 1, 1, color="C7", alpha=0.5, label="lower bound (95 %), with range"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(path, dpi=110)


def _draw_cell(one: Cell, error: "Axes", epsilon: "Axes", place: float, colour: str) -> None:
    if one.lower is None or one.estimate is None or one.prefix_error is None:
        words = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": 6, "color": colour}
        across = epsilon.get_xaxis_transform()
        epsilon.text(place, 0.02, "no upper bound", transform=across, **words)
        return
    error.bar(place, one.prefix_error, color=colour)
    epsilon.bar(place, one.lower, color=colour, alpha=0.5)
    epsilon.vlines(place, one.lower_least, one.lower_most, color=colour, lw=1)
    epsilon.plot(place, one.estimate, "o", color=colour, markersize=4)
    if one.upper_known is not None:
        epsilon.plot(place, one.upper_known, "_", color="black", markersize=9, mew=2)
    if one.upper_secret is not None and one.upper_secret != one.upper_known:
        epsilon.plot(place, one.upper_secret, "_", color="grey", markersize=9, mew=2)


def write(cells: Sequence[Cell], path: Path) -> None:
    """Writes a row per cell, numbers in four digits."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(field.name for field in dataclasses.fields(Cell))
        for one in cells:
            values = dataclasses.astuple(one)
            rows.writerow(f"{v:.4g}" if isinstance(v, float) else v for v in values)


def read(path: Path) -> list[Cell]:
    """The cells of a table that `write` has written."""

    def number(text: str) -> float | None:
        return float(text) if text else None

    with path.open(newline="") as file:
        return [
            Cell(scene, pattern, mechanism, int(seeds), *map(number, numbers))
            for scene, pattern, mechanism, seeds, *numbers in list(csv.reader(file))[1:]
        ]


def main() -> None:
    """Simulates the cells that the table has not, writes it and the picture.

    The table is written after each cell, so that the command goes on where it was interrupted;
    cells of another number of seeds are made again.
    """
    table, picture = map(Path, sys.argv[1:3])
    seeds = range(1, 1 + (int(sys.argv[3]) if len(sys.argv) > 3 else 10))
    keys = list(itertools.product(SCENES, PATTERNS, MECHANISMS))
    cells = {(c.scene, c.pattern, c.mechanism): c for c in (read(table) if table.exists() else ())}
    for key in keys:
        if key not in cells or cells[key].seeds not in (0, len(seeds)):
            cells[key] = cell(*key, seeds)
            print(cells[key], flush=True)
            write([cells[key] for key in keys if key in cells], table)
    draw(list(cells.values()), picture)


if __name__ == "__main__":
    main()
