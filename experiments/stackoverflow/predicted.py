"""The numbers of Table 3 as a plan predicts them, and by a second simulation that shares no code.

    python -m experiments.stackoverflow.predicted --trials 9

prints Markdown: a row for each noise multiplier, a column for each of the paper's four estimates,
`median (lowest … highest)` over simulated runs at all points of the range of the unknowns (docs/
plan.md). Nothing is trained, and no data is read.

The second simulation is about the column `lo-all`. In units of the clip norm, the noised sum of a
round is about A = sqrt(n^2 + z^2 d) long, at most, for n clients whose updates are parallel; an
excluded canary's cosine with it is normal with deviation 1 / sqrt(d), and a canary of the round is
moved by 1 / A. So its score in standard units is the largest of 2,048 normal numbers, one of which
has the mean sqrt(d) / A if the canary was observed. The bound is the largest over thresholds, with
Jeffreys' one-sided limits at 95 % of both rates, as section 5 of the paper describes it.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from experiments.stackoverflow.tables import COHORT, DELTA, PAPER, ROUNDS
from fl_audit.attacks.all_iterates import MAX
from fl_audit.attacks.final_model import FINAL
from fl_audit.config import Config
from fl_audit.config.file import load_config
from fl_audit.planning.planned_run import PlannedRun, plan_run
from fl_audit.planning.predicted_background import ENDS, MIDDLE
from fl_audit.planning.prediction import sample
from fl_audit.tasks.facts import load_task_facts

CONFIG = Path(__file__).parent / "config.toml"
NUMBERS = 'task={kind="numbers", num_clients=342477, dim=4050748, initial_norm=51.8}'

ASKED = [
    (MAX, "threshold_jeffreys"),
    (MAX, "gaussian_fit"),
    (FINAL, "threshold_jeffreys"),
    (FINAL, "gaussian_fit"),
]
"""The paper's columns: lo-all, est-all, lo-final, est-final."""

_DIM, _CANARIES = 4_050_748, 1_000

Floats = npt.NDArray[np.float64]


def planned(noise: float, clip_norm: float) -> PlannedRun:
    """The paper's run at one noise multiplier and first clip norm, of which no data is read."""
    changed = [
        NUMBERS,
        f"mechanism.noise_multiplier={noise}",
        f"mechanism.clip_norm={clip_norm}",
    ]
    config: Config = load_config(CONFIG, changed)
    return plan_run(config, load_task_facts(config.task, config.seed))


def predicted(run: PlannedRun, trials: int) -> list[str]:
    """A cell for each of the paper's columns."""
    middle = sample(run, MIDDLE, trials, ASKED)
    ends = [sample(run, unknowns, trials, ASKED) for unknowns in ENDS]
    cells = []
    for statistic, method in ASKED:
        key = (statistic.name, method)
        everything = np.concatenate([found[key] for found in (middle, *ends)])
        cells.append(_cell(middle[key], everything))
    return cells


def _cell(middle: npt.ArrayLike, everything: npt.ArrayLike) -> str:
    """The median of some runs, and the range of all."""
    low, high = np.min(everything), np.max(everything)
    return f"{np.median(middle):.3g} ({low:.3g} … {high:.3g})"


def second_simulation(noise: float, random: np.random.Generator) -> float:
    """The largest Jeffreys bound over thresholds on simulated maxima of 1,000 + 1,000 canaries."""
    shift = np.sqrt(_DIM) / np.hypot(COHORT, noise * np.sqrt(_DIM))
    null = random.standard_normal((2 * _CANARIES, ROUNDS)).max(axis=1)
    observed, unobserved = null[:_CANARIES], null[_CANARIES:]
    own = shift + random.standard_normal(_CANARIES)
    return jeffreys_bound(np.maximum(observed, own), unobserved)


def jeffreys_bound(observed: Floats, unobserved: Floats) -> float:
    """The largest log((1 - delta - FNR) / FPR) over thresholds, with 95 % limits of both rates."""
    thresholds = np.concatenate([observed, unobserved])
    positives = (observed >= thresholds[:, None]).sum(axis=1)
    false_positives = (unobserved >= thresholds[:, None]).sum(axis=1)
    n = len(observed)
    least_tpr = stats.beta.ppf(0.05, positives + 0.5, n - positives + 0.5)
    most_fpr = stats.beta.ppf(0.95, false_positives + 0.5, n - false_positives + 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.log((least_tpr - DELTA) / most_fpr)
    return float(np.nanmax(bounds))


def main() -> None:
    """Reads the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=9, help="simulated runs at each point")
    parser.add_argument("--clip-norm", type=float, default=0.1, help="the first clip norm")
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    sys.stdout.write("| noise | lo-all | est-all | lo-final | est-final | lo-all, second |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for noise in PAPER:
        second = [second_simulation(noise, random) for _ in range(arguments.trials)]
        run = planned(noise, arguments.clip_norm)
        cells = [*predicted(run, arguments.trials), _cell(second, second)]
        sys.stdout.write(f"| {noise} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
