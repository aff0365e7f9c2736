"""What one run proves under correlated noise, against independent noise of the same epsilon.

Usage: python -m experiments.production.strategies_at_one_epsilon [SEEDS, 10 by default]

Coins, canaries (in one round each), rounds, size of the model and noise are those of the quickstart
with that seed, its mechanism replaced by each strategy at the noise that guarantees a canary as
much; a tree once by its nodes, as accounting counts, and once by its released sums, which show
less. Clients' updates are not trained: they are of length 1, in directions of their own, and 20 a
round (simulated.py). All strategies of a seed share canaries, clients and fresh noise. Canaries are
in one of all rounds, or of the first half (`participation.canary_first_rounds`). They are scored by
`own_rounds`' weights on the aggregates, and by their own aggregate alone.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.coverage import quickstart_seeds
from experiments.coverage.quickstart_seeds import DIM, median_and_range
from experiments.production.simulated import (
    allowed_shifts,
    presences,
    random_directions,
    simulate,
)
from fl_audit.array_types import FloatArray
from fl_audit.config.design import RunDesign
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import GaussianCanaryNull, Null

COHORT = 20
NOISE = 0.4
"""The noise multiplier of independent noise, which guarantees a canary epsilon 10.2."""

_MATRIX = "kind='matrix_factorisation',clip_norm=1,noise_multiplier=Z"
_TREE = "{kind='tree_aggregation',clip_norm=1,noise_multiplier=Z}"
NODES = "tree, by its nodes"

STRATEGIES = {
    "independent": "{kind='gaussian_fixed',clip_norm=1,noise_multiplier=Z}",
    "banded_sqrt 4": f"{{{_MATRIX},strategy='banded_sqrt',bands=4}}",
    "banded_sqrt 32": f"{{{_MATRIX},strategy='banded_sqrt',bands=32}}",
    "sqrt": f"{{{_MATRIX},strategy='sqrt'}}",
    "blt 3": f"{{{_MATRIX},strategy='blt',buffers=3}}",
    "banded_inverse_sqrt 4": f"{{{_MATRIX},strategy='banded_inverse_sqrt',bands=4}}",
    "tree, by released sums": _TREE,
    NODES: _TREE,
}
"""The mechanisms as config tables, Z left to be set."""

PLACEMENTS = {"all rounds": None, "first half": 50}
"""The first rounds that canaries are placed in; None for all of 100."""


def designed(strategy: str, first_rounds: int | None, seed: int) -> RunDesign:
    """The quickstart under a strategy, with noise that guarantees as much as independent noise."""
    first = [] if first_rounds is None else [f"participation.canary_first_rounds={first_rounds}"]

    def with_noise(multiplier: float) -> RunDesign:
        table = STRATEGIES[strategy].replace("Z", repr(multiplier))
        return quickstart_seeds.designed(seed, f"mechanism={table}", *first)

    at_one = with_noise(1.0)
    if strategy == NODES:
        return with_noise(NOISE * math.sqrt(at_one.release.canary.squared_sensitivity or 1.0))
    return with_noise(NOISE * float(allowed_shifts(at_one).max()))


@dataclass(frozen=True)
class Audited:
    """What one run proves, as epsilons.

    Attributes:
      valid: `threshold_valid`, knowing the matrix.
      gdp: `threshold_gdp`, knowing the matrix.
      own_aggregate: `threshold_valid` by the canary's own aggregate alone.
      at_mean: Accounting for a canary of the included ones' mean shift.
      at_most: Accounting for the canary with the largest shift.
      shift: The included canaries' mean shift over what accounting allows them.
      excluded: The standard deviation of excluded canaries' scores; 1 is expected.
    """

    valid: float
    gdp: float
    own_aggregate: float
    at_mean: float
    at_most: float
    shift: float
    excluded: float


def audited(run: RunDesign) -> Audited:
    """The epsilons of one simulated run."""
    seed = run.config.seed
    vectors = random_directions(seed, run.num_canaries, DIM)
    scores = simulate(run, vectors, COHORT, seed, presences(run))
    whitened = math.sqrt(DIM) * scores.whitened
    allowed = float(scores.allowed[run.included].mean())
    return Audited(
        valid=_epsilon("threshold_valid", run, scores.whitened),
        gdp=_epsilon("threshold_gdp", run, scores.whitened),
        own_aggregate=_epsilon("threshold_valid", run, scores.own),
        at_mean=epsilon_of_mu(allowed, run.delta),
        at_most=epsilon_of_mu(float(scores.allowed.max()), run.delta),
        shift=float(whitened[run.included].mean()) / allowed,
        excluded=float(whitened[~run.included].std()),
    )


def _epsilon(method: str, run: RunDesign, scores: FloatArray) -> float:
    null = Null("closed_form", GaussianCanaryNull(DIM), DIM)
    split = CanaryScores(scores[run.included], scores[~run.included])
    return METHODS[method](
        AuditSetting(split, run.delta, run.config.audit.confidence, null)
    ).epsilon


def main() -> None:
    """Prints a table per placement: medians, and ranges, over the seeds."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 10))
    runs: dict[tuple[str, str], list[Audited]] = {}
    for seed in seeds:
        for placement, first in PLACEMENTS.items():
            for strategy in STRATEGIES:
                run = audited(designed(strategy, first, seed))
                runs.setdefault((placement, strategy), []).append(run)
                print(seed, placement, strategy, run, file=sys.stderr, flush=True)
    for placement in PLACEMENTS:
        print(f"Canaries in {placement}:\n")
        _print_table({strategy: runs[placement, strategy] for strategy in STRATEGIES})


def _print_table(runs: Mapping[str, Sequence[Audited]]) -> None:
    columns = (
        "strategy",
        "`threshold_valid`",
        "over independent noise's of the same seed, and mean ± its standard error",
        "`threshold_gdp`",
        "accounting, mean shift",
        "largest",
        "`threshold_gdp` over the latter",
        "seeds above it",
        "`threshold_valid`, own aggregate",
        "shift over allowed",
        "excluded canaries' standard deviation",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for strategy, seeds in runs.items():
        pairs = zip(seeds, runs["independent"], strict=True)
        cells = (
            median_and_range([run.valid for run in seeds]),
            _ratio([run.valid / independent.valid for run, independent in pairs]),
            median_and_range([run.gdp for run in seeds]),
            f"{np.median([run.at_mean for run in seeds]):.3g}",
            f"{np.median([run.at_most for run in seeds]):.3g}",
            median_and_range([run.gdp / run.at_most for run in seeds]),
            str(sum(run.gdp > run.at_most for run in seeds)),
            median_and_range([run.own_aggregate for run in seeds]),
            f"{np.median([run.shift for run in seeds]):.3f}",
            f"{np.median([run.excluded for run in seeds]):.3f}",
        )
        print(f"| {strategy} | {' | '.join(cells)} |")
    print()


def _ratio(ratios: Sequence[float]) -> str:
    """The same of paired ratios, and their mean with its standard error."""
    error = np.std(ratios) / math.sqrt(len(ratios))
    return f"{median_and_range(ratios)}, {np.mean(ratios):.3f} ± {error:.3f}"


if __name__ == "__main__":
    main()
