"""What it costs to score canaries by an attacker who knows the matrix, in time of a processor.

Usage: python -m benchmarks.whitening

Aggregates of 4,050,748 parameters, banded square root of 32 bands, canaries in one round each. A
round is scored in turns by `own_rounds` without the matrix and with it. At the end of training
canaries' weights are made, and the lengths of their sums, from logs alone.
"""

import functools
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.attacks.attacker import AttackContext, SeenRound
from fl_audit.attacks.known_rounds import KnownRoundsAttacker
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.canaries.families import FAMILIES
from fl_audit.config import Audit
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics, metrics_text

DIM, ROUNDS, TURNS = 4_050_748, 20, 3


def attacker(
    folder: Path, family: str, canaries: int, correlation: Toeplitz | None
) -> KnownRoundsAttacker:
    """An attacker of a new run."""
    folder.mkdir()
    run = RunFolder(folder)
    run.metrics.write_text(
        metrics_text(
            RoundMetrics(number, 10, 10, 1.0, 1.0, DIM**0.5, math.nan, None, 1.0, 1.0)
            for number in range(1, ROUNDS + 1)
        )
    )
    rounds = np.random.default_rng(1).integers(ROUNDS, size=(canaries, 1))
    context = AttackContext(
        canaries=FAMILIES[family](seed=1, num_canaries=canaries, dim=DIM),
        num_canaries=canaries,
        num_rounds=ROUNDS,
        audit=Audit(),
        initial=np.zeros(DIM, np.float32),
        folder=run,
        family=family,
        canary_rounds=OwnRounds(tuple(rounds)),
        seed=1,
        correlation=correlation,
    )
    return KnownRoundsAttacker.from_context(context)


def processor_seconds(function: Callable[[], object]) -> float:
    """The time of a processor that a call takes."""
    before = time.process_time()
    function()
    return time.process_time() - before


def main() -> None:
    """Prints a row for each family and number of canaries."""
    strategy = Toeplitz.from_column(sqrt_column(32), ROUNDS)
    random = np.random.default_rng(2)
    aggregates = [random.standard_normal(DIM, np.float32) for _ in range(TURNS)]
    model = np.zeros(DIM, np.float32)
    print("family       canaries  a round without  with the matrix  more       the end")
    for family, canaries in itertools.product(("hadamard", "gaussian"), (1, 500, 2000)):
        with tempfile.TemporaryDirectory() as folder:
            plain = attacker(Path(folder) / "plain", family, canaries, None)
            knowing = attacker(Path(folder) / "knowing", family, canaries, strategy)
            rounds = ROUNDS if family == "hadamard" else TURNS
            without, with_matrix = [], []
            for index in range(rounds):
                seen = SeenRound(index, model, aggregates[index % TURNS], model, 1.0)
                with_matrix.append(processor_seconds(functools.partial(knowing.see_round, seen)))
                if index < TURNS:
                    without.append(processor_seconds(functools.partial(plain.see_round, seen)))
            knowing.flush()
            end = processor_seconds(functools.partial(knowing.scores, None))
            mine, theirs = map(statistics.median, (without, with_matrix))
            print(
                f"{family:12} {canaries:8} {1000 * mine:13.0f} ms {1000 * theirs:12.0f} ms "
                f"{1000 * (theirs - mine):5.0f} ms {1000 * end:7.0f} ms of {rounds} rounds",
                flush=True,
            )


if __name__ == "__main__":
    main()
