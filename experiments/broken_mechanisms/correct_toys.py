"""Correct runs of an engine in NumPy, many and varied, and what is said of their claims.

Usage: python -m experiments.broken_mechanisms.correct_toys RESULTS.jsonl [RUNS, else 360]

The claims are those of `correct.py`, in turns. All else a seed draws: pattern, noise, model,
family, number of canaries and of rounds. The server adds Gaussian noise to the sum of clipped
updates. A run is trained, logged, scored and checked as any other; then its verdict is reached as
in its report, of which nothing else is made. The module continues where an earlier call stopped.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.broken_mechanisms.audited_run import fill_folder
from experiments.broken_mechanisms.correct import claims_table, said_of_claim, with_claim
from experiments.broken_mechanisms.results import append, read
from fl_audit import config as tables
from fl_audit.attacks.attacker import SeenRound
from fl_audit.engines.engine import CohortReader, Engine, TrainedRound, Weights
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.report.build import run_verdict
from fl_audit.report.checks import checks_of_run, run_canary_check
from fl_audit.report.finished_run import read_finished_run

CLIP = 0.3


def main() -> None:
    """Makes the runs that the results lack, and prints the table."""
    results = Path(sys.argv[1])
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 360
    done = {row["seed"] for row in read(results)}
    for seed in sorted(set(range(1, 1 + runs)) - done):
        with tempfile.TemporaryDirectory() as folder:
            append(results, {"seed": seed, **audit(seed, Path(folder) / "run")})
    print(claims_table(read(results)))


def audit(seed: int, path: Path) -> dict[str, Any]:
    """Trains the run of a seed into a new folder, and says what its verdict is."""
    config = drawn_config(seed)
    pattern = config.participation
    is_tested_live = isinstance(pattern, tables.Shuffle) and pattern.canaries == "repeats"
    run = with_claim(prepare(config), is_tested_live, seed)
    finished = read_finished_run(fill_folder(run, NoisySums(run), path))
    checks, canary_check = checks_of_run(finished), run_canary_check(finished)
    verdict = run_verdict(finished, checks, canary_check)
    assert verdict is not None, "a configured noise is tested where nothing is claimed"
    return {
        "pattern": str(pattern.__struct_config__.tag),
        "noise": run.config.mechanism.noise_multiplier,  # type: ignore[attr-defined]
        "dim": run.task.classifier.dim,
        "rounds": run.schedule.num_rounds,
        "canaries": run.num_canaries,
        "family": run.config.canaries.family,  # type: ignore[union-attr]
        **said_of_claim(verdict),
        "stopped_after": finished.record.stopped_after,
        "arrival": canary_check.state,
        "failed": [check.name for check in checks.results if check.failed],
    }


def drawn_config(seed: int) -> tables.Config:
    """The config of a seed, without a claim."""
    random = np.random.default_rng((24, seed))
    rounds = int(random.choice([5, 10, 20]))
    drawn = {"rounds": rounds, "clients_per_round": 8}
    patterns: list[tuple[tables.Participation, float]] = [
        (tables.Shuffle(rounds=rounds, clients_per_round=8), 0.4),
        (tables.Shuffle(**drawn, canaries="once_per_epoch"), 0.2),
        (tables.EveryRound(rounds=rounds), 0.2),
        (tables.MinSeparation(**drawn, separation=2), 0.1),
        (tables.Uniform(**drawn), 0.05),
        (tables.Bernoulli(**drawn), 0.05),
    ]
    pattern, _ = patterns[int(random.choice(len(patterns), p=[share for _, share in patterns]))]
    each = (
        1 if isinstance(pattern, tables.Shuffle) and pattern.canaries == "repeats" else rounds**0.5
    )
    noise = float(random.choice([0.3, 0.5, 1.0, 2.0]) * each)
    return tables.Config(
        seed=1000 + seed,
        task=tables.DigitsTask(num_clients=40, hidden=(int(random.choice([4, 16, 64])),)),
        mechanism=tables.GaussianFixed(noise_multiplier=noise, clip_norm=CLIP),
        participation=pattern,
        canaries=tables.Canaries(
            count=int(random.choice([40, 100, 200, 400])),
            max_per_round=400,
            family=str(random.choice(["rademacher", "hadamard", "gaussian"])),  # type: ignore[arg-type]
        ),
        audit=tables.Audit(delta=1e-3),
        log=tables.Log(checkpoint_every=rounds, evaluate_every=rounds),
    )


class NoisySums(Engine):
    """An engine whose clients send random vectors, some of them longer than the clip norm."""

    description = "noisy sums in NumPy"

    def __init__(self, run: PreparedRun) -> None:
        """Takes the run that it trains."""
        self._run = run

    def begin(self) -> np.ndarray:
        """The initial model, as one vector."""
        parts = self._run.task.classifier.initial_weights
        return np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)

    def reader(self, run: PreparedRun) -> CohortReader:
        """See `Engine`."""
        return run.cohort_data.round_data

    def run_round(self, state: np.ndarray, data: Any, index: int) -> TrainedRound:
        """Clips, sums, adds noise and divides; the learning rate of the server is 1."""
        run, dim = self._run, len(state)
        random = np.random.default_rng((run.config.seed, index))
        lengths = random.uniform(0.2, 3.0, len(data.clients)) * CLIP
        updates = [length / dim**0.5 * random.standard_normal(dim) for length in lengths]
        updates += [2 * CLIP * run.family.vector(int(canary)) for canary in data.canaries]
        total = np.zeros(dim)
        for update in updates:
            total += update * min(1, CLIP / float(np.linalg.norm(update)))
        stddev = CLIP * run.config.mechanism.noise_multiplier  # type: ignore[attr-defined]
        total += random.normal(0, stddev, dim)
        aggregate = (total / run.schedule.expected_cohort).astype(np.float32)
        after = state + aggregate
        return TrainedRound(after, SeenRound(index, state, aggregate, after, CLIP), stddev, 1.0)

    def weights(self, state: np.ndarray) -> Weights:
        """The model, as one array."""
        return [state]

    def leaves(self, state: np.ndarray) -> list[np.ndarray]:
        """The state, as a checkpoint has it."""
        return [state]

    def from_leaves(self, like: np.ndarray, leaves: Any) -> np.ndarray:
        """The state of a checkpoint."""
        return np.asarray(leaves[0])

    def evaluator(self, run: PreparedRun) -> Any:
        """An accuracy that is not used."""
        return lambda weights: 0.5


if __name__ == "__main__":
    main()
