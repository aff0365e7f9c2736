"""The cost of an audit beside the training: updates, time to score, bytes."""

import dataclasses
import math
import time
from dataclasses import dataclass

import msgspec
import numpy as np

from fl_audit.canaries.store import make_family
from fl_audit.cores import num_cores
from fl_audit.planning.planned_run import PlannedRun

_SECONDS = 2.0
"""The longest time for one scoring; a pool that would take longer is timed on a part of it."""


@dataclass(frozen=True)
class Cost:
    """What an audit adds to a run.

    Attributes:
      clients_per_round: Expected number of real clients in a round.
      canaries_per_round: Expected number of canaries in a round, each one additional update.
      rounds: Number of rounds of training.
      scoring_seconds: Seconds for all cosines of one round, measured once on this machine.
      canaries_timed: Number of canaries that were timed; where fewer than the pool,
        `scoring_seconds` is scaled in proportion.
      update_bytes: Size of a round's canary updates, at 4 bytes a parameter.
      log_bytes: Size of the log of every canary's cosine with every round.
      store_bytes: Size of the canary vectors that the config keeps; 0 where they are made anew.
    """

    clients_per_round: float
    canaries_per_round: float
    rounds: int
    scoring_seconds: float
    canaries_timed: int
    update_bytes: int
    log_bytes: int
    store_bytes: int

    @property
    def update_share(self) -> float:
        """Expected canaries over expected real clients; infinite without real clients."""
        if self.clients_per_round == 0:
            return math.inf
        return self.canaries_per_round / self.clients_per_round

    @property
    def total_scoring_seconds(self) -> float:
        """Seconds for scoring all rounds."""
        return self.rounds * self.scoring_seconds

    def to_json(self) -> dict[str, object]:
        """The JSON object that a plan has under `cost`."""
        return {
            **dataclasses.asdict(self),
            "update_share": self.update_share,
            "total_scoring_seconds": self.total_scoring_seconds,
        }


def measure_cost(run: PlannedRun) -> Cost:
    """Counts updates and bytes, and times the scoring of one round on this machine."""
    seconds, timed = _time_scoring(run)
    kept = run.pool.store != "none"
    return Cost(
        clients_per_round=run.schedule.expected_clients,
        canaries_per_round=run.schedule.expected_canaries,
        rounds=run.num_rounds,
        scoring_seconds=seconds,
        canaries_timed=timed,
        update_bytes=round(4 * run.task.dim * run.schedule.expected_canaries),
        log_bytes=4 * run.num_rounds * run.num_canaries,
        store_bytes=2 * run.num_canaries * run.task.dim if kept else 0,
    )


def _time_scoring(run: PlannedRun) -> tuple[float, int]:
    """Seconds for one round's cosines, and how many canaries were timed."""
    if run.pool.family == "hadamard":
        return _seconds(run, run.num_canaries), run.num_canaries
    few = min(run.num_canaries, 4 * num_cores())
    each = _seconds(run, few) / few
    timed = min(run.num_canaries, max(few, int(_SECONDS / each)))
    return _seconds(run, timed) / timed * run.num_canaries, timed


def _seconds(run: PlannedRun, count: int) -> float:
    """Seconds of one scoring, after a first one that makes what is kept between calls."""
    # The config's store file is of the whole pool, so that a part of the pool is kept in memory.
    store = "none" if run.pool.store == "none" else "memory"
    part = msgspec.structs.replace(run.pool, count=max(count, 2), store=store, store_path=None)
    family = make_family(part, run.config.seed, run.task.dim)
    target = np.ones(run.task.dim, np.float32)
    family.cosines(target)
    started = time.perf_counter()
    family.cosines(target)
    return time.perf_counter() - started
