"""Speed and memory of scoring canaries, against making them one by one with TensorFlow.

`python -m benchmarks.canaries` takes about four minutes on two idle cores. Every race checks first
that the scores are those of the explicit vectors.
"""

import functools
import os
from collections.abc import Sequence

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from benchmarks.equality import check
from benchmarks.peak_memory import in_new_process, megabytes
from benchmarks.peers import stateless_normal
from benchmarks.timing import Race, race, seconds, times, wall_time
from fl_audit.canaries.families import FAMILIES

DIM = 4_050_748
"""Number of parameters of the next-word LSTM of Reddi et al. 2020."""

COUNT = 2000

TIMED = {"gaussian": 200, "rademacher": 800, "hadamard": COUNT}
"""Number of canaries that a race scores; all but hadamard's are scored one by one."""

PEERS = 40

DIMS = (10**5, 10**6, DIM, 10**7, 10**8)
COUNTS = (100, 1000, 10_000, 100_000)

COORDINATES = 10**9
"""Number of coordinates drawn for a number of the table by dim, unless all are scored at once."""


def main() -> None:
    """Prints the tables."""
    print(f"Scoring {COUNT:,} canaries, d = {DIM:,}, {os.cpu_count()} cores; peer:")
    print("tf.random.stateless_normal, one canary after another. Times of both are those of the")
    print("canaries in brackets and in proportion for the rest.")
    print(f"{'':58}{'ours':>10}  {'peer':>10}  how many times as fast (range)")
    for family, timed in TIMED.items():
        line = f"{family} ({timed:,} timed, {PEERS} of the peer)"
        print(f"{line:58}{score_race(family, timed)}", flush=True)
    print("\nPeak memory of a process that scores them, TensorFlow and the vector included:")
    for family in FAMILIES:
        peak = in_new_process("one_score", family=family, dim=DIM, count=COUNT)["peak"]
        print(f"{family:58}{megabytes(peak):>10}", flush=True)
    by_dim()
    by_count()


def score_race(family: str, timed: int) -> Race:
    """Races our scoring of the whole pool against the peer's."""
    target = np.random.default_rng(1).standard_normal(DIM, np.float32)
    tensor = tf.constant(target)
    pool = FAMILIES[family](0, timed, DIM)
    check_scores(pool.cosines(target), [pool.vector(j) for j in range(3)], target)
    peers = stateless_normal.cosines(tensor, 3)
    check_scores(peers, [stateless_normal.vector(DIM, j).numpy() for j in range(3)], target)
    taken = race(
        lambda: pool.cosines(target),
        lambda: stateless_normal.cosines(tensor, PEERS),
        turns=7,
        laps=10 if family == "hadamard" else 1,
    )
    return taken.per(timed / COUNT, PEERS / COUNT)


def check_scores(
    scores: npt.NDArray[np.float64],
    vectors: Sequence[npt.NDArray[np.float32]],
    target: npt.NDArray[np.float32],
) -> None:
    """Checks the first scores against float64, to a thousandth of the null's deviation."""
    exact = target.astype(np.float64)
    exact /= np.linalg.norm(exact)
    wide = [vector.astype(np.float64) for vector in vectors]
    expected = [float(v @ exact) / np.linalg.norm(v) for v in wide]
    check(scores[: len(expected)], expected, 1e-3 / target.size**0.5)


def by_dim() -> None:
    """Prints time, ratio and memory for growing models."""
    print(f"\nBy d, {COUNT:,} canaries, a process each: time (times as fast as the peer), peak")
    print("memory. All but hadamard in proportion from as many canaries as 10^9 coordinates hold.")
    families = (*FAMILIES, "tensorflow")
    print(f"{'d':>12}" + "".join(f"{family:>27}" for family in families))
    for dim in DIMS:
        runs = {family: pool_in_new_process(family, dim) for family in families}
        peer = runs["tensorflow"][0]
        cells = [
            f"{seconds(took)} ({times(peer / took)}) {megabytes(peak)}"
            for took, peak in runs.values()
        ]
        print(f"{dim:>12,}" + "".join(f"{cell:>27}" for cell in cells), flush=True)


def pool_in_new_process(family: str, dim: int) -> tuple[float, float]:
    """The seconds for the whole pool, and the peak memory in bytes."""
    count = COUNT if family == "hadamard" else min(COUNT, max(8, COORDINATES // dim))
    run = in_new_process("one_score", family=family, dim=dim, count=count)
    return run["seconds"] * COUNT / count, run["peak"]


def by_count() -> None:
    """Prints the time for growing pools."""
    print("\nBy k")
    print(f"{'':34}" + "".join(f"{count:>14,}" for count in COUNTS))
    for family, dim in [*((name, DIMS[0]) for name in FAMILIES), ("hadamard", DIM)]:
        target = np.random.default_rng(1).standard_normal(dim, np.float32)
        pools = [FAMILIES[family](0, count, dim) for count in COUNTS]
        pools[0].cosines(target)
        cells = [seconds(wall_time(functools.partial(pool.cosines, target))) for pool in pools]
        line = f"{family}, d = {dim:,}"
        print(f"{line:34}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
