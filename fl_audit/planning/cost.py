"""The cost of an audit: updates, scoring time, bytes, accuracy, hours."""

import contextlib
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import numpy as np

from fl_audit.accounting.noise_distributions import noise_on_sum
from fl_audit.canaries.store import make_family
from fl_audit.config import Config
from fl_audit.formats.folders import RunFolder
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.resources import available_memory, num_cores
from fl_audit.run.observers import FinishedRound, RoundObserver

_SECONDS = 2.0
"""The target for the time of one scoring; of a slower pool only some canaries are timed."""


@dataclass(frozen=True)
class Cost:
    """The cost that an audit adds to a run.

    Attributes:
      scoring_seconds: Seconds for all cosines of one round, measured once on this machine.
      canaries_timed: Number of timed canaries; if not the whole pool, `scoring_seconds` is scaled
        up in proportion.
      update_bytes: Size of a round's canary updates, at 4 bytes a parameter.
      store_bytes: Size of cached canary vectors; 0 if they are regenerated.
    """

    JSON_COMPUTED: ClassVar[tuple[str, ...]] = ("update_share", "total_scoring_seconds")

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


def measure_cost(run: PlannedRun) -> Cost:
    """Counts updates and bytes, and times the scoring of one round on this machine."""
    seconds, timed = _time_scoring(run)
    is_stored = run.pool.store != "none"
    return Cost(
        clients_per_round=run.schedule.expected_clients,
        canaries_per_round=run.schedule.expected_canaries,
        rounds=run.num_rounds,
        scoring_seconds=seconds,
        canaries_timed=timed,
        update_bytes=round(4 * run.task.dim * run.schedule.expected_canaries),
        log_bytes=4 * run.num_rounds * run.num_canaries,
        store_bytes=2 * run.num_canaries * run.task.dim if is_stored else 0,
    )


def _time_scoring(run: PlannedRun) -> tuple[float, int]:
    """Seconds for one round's cosines, and how many canaries were timed."""
    if run.pool.family == "hadamard":
        return _seconds(run, run.num_canaries, "none"), run.num_canaries
    store: Literal["none", "memory"] = "none"
    most = run.num_canaries
    if run.pool.store != "none":
        # The config's store file is for the whole pool, so a part is cached in half of the memory.
        fitting = available_memory() // (4 * run.task.dim)
        if fitting >= 2:
            store, most = "memory", min(most, fitting)
    few = min(most, 4 * num_cores())
    each = _seconds(run, few, store) / few
    timed = min(most, max(few, int(_SECONDS / each)))
    return _seconds(run, timed, store) / timed * run.num_canaries, timed


def _seconds(run: PlannedRun, count: int, store: Literal["none", "memory"]) -> float:
    """Seconds of one scoring, after a first scoring that fills caches."""
    part = msgspec.structs.replace(run.pool, count=max(count, 2), store=store, store_path=None)
    family = make_family(part, run.config.seed, run.task.dim)
    target = np.ones(run.task.dim, np.float32)
    family.cosines(target)
    started = time.perf_counter()
    family.cosines(target)
    return time.perf_counter() - started


# The effect of canaries on the model, as far as known without training.


@dataclass(frozen=True)
class AccuracyCost:
    """The cost of canaries in accuracy: a smaller step and more noise.

    Attributes:
      dilution: The factor n / (n + m) on the real sum, which is divided by the whole expected
        cohort of n clients and m canaries.
      noise_multiplier: Noise multiplier z of the noise on the sum.
      canary_noise: Standard deviation sqrt(m / d) that m unit vectors in random directions add
        to each coordinate, in clip norms.
      canary_noise_of_run: Standard deviation that canaries add to each coordinate of the sum over
        all rounds, divided by the root of the number of rounds: sqrt(m p / d). Here p is (sum k^2)
        / (sum k) over canaries in k rounds, as a canary's rounds add up along its direction.
      unclipped_quantile: The share of real updates below an adaptive clip norm once it settles,
        gamma (n + m) / n for the target quantile gamma, as no canary is below the clip norm. If
        above 1, the clip norm grows without end. None for a fixed clip norm, or without real
        clients.
    """

    JSON_COMPUTED: ClassVar[tuple[str, ...]] = ("total_noise",)

    dilution: float
    noise_multiplier: float
    canary_noise: float
    canary_noise_of_run: float
    unclipped_quantile: float | None

    @property
    def total_noise(self) -> float:
        """Standard deviation of noise and canaries together, sqrt(z^2 + m p / d), in clip norms."""
        return math.hypot(self.noise_multiplier, self.canary_noise_of_run)


def accuracy_cost(run: PlannedRun) -> AccuracyCost:
    n, m, rule = run.schedule.expected_clients, run.schedule.expected_canaries, run.clip_rule
    participations = np.bincount(run.canary)
    times = float(participations @ participations) / max(int(participations.sum()), 1)
    return AccuracyCost(
        dilution=n / (n + m),
        noise_multiplier=float(noise_on_sum(run.noise, run.schedule.expected_cohort)),
        canary_noise=math.sqrt(m / run.task.dim),
        canary_noise_of_run=math.sqrt(m * times / run.task.dim),
        unclipped_quantile=None if rule is None or not n else rule.target_quantile * (n + m) / n,
    )


# The hours of a run on this machine, from about a minute of its rounds.


_FEWEST_ROUNDS = 3
"""The smallest number of timed rounds; the first round includes setup."""


@dataclass(frozen=True)
class Calibration:
    """The measured time of the parts of a run on this machine.

    Attributes:
      start_seconds: The seconds from the loaded config to the end of the first round.
      round_seconds: The seconds of a later round with its scoring and logs, on average.
    """

    start_seconds: float
    round_seconds: float
    rounds_timed: int
    rounds: int

    def seconds(self, runs: int = 1, machines: int = 1) -> float:
        """The seconds of `runs` such runs, without reports, one at a time on each machine."""
        one_run = self.start_seconds + (self.rounds - 1) * self.round_seconds
        return math.ceil(runs / machines) * one_run

    def to_json(self, runs: int = 1, machines: int = 1) -> dict[str, object]:
        """The JSON object under `hours` of a plan."""
        return {
            "start_seconds": self.start_seconds,
            "round_seconds": self.round_seconds,
            "rounds_timed": self.rounds_timed,
            "runs": runs,
            "machines": machines,
            "hours": self.seconds(runs, machines) / 3600,
        }


class _EnoughError(Exception):
    """Raised to end a calibration."""


class _Stopwatch(RoundObserver):
    """Records when each round ended, in seconds since the start."""

    def __init__(self, seconds: float) -> None:
        self.ends: list[float] = []
        self._started = time.perf_counter()
        self._seconds = seconds

    def round_finished(self, finished: FinishedRound) -> None:
        """Records the time, and ends the run after enough rounds and seconds."""
        self.ends.append(time.perf_counter() - self._started)
        timed = self.ends[-1] - self.ends[0]
        if len(self.ends) >= _FEWEST_ROUNDS and timed >= self._seconds:
            raise _EnoughError


def calibrate(config: Config, seconds: float = 60.0) -> Calibration:
    """Trains the first rounds of a run in a temporary folder, and times them.

    Imports the runtime's framework. Loading and the slower first round are in `start_seconds`.
    """
    watch = _Stopwatch(seconds)
    from fl_audit.engines.prepare import canaries_csv, prepare
    from fl_audit.engines.runtimes import make_runtime
    from fl_audit.run.folder_and_checkpoints import write_identity
    from fl_audit.run.train import train

    run = prepare(config)
    with tempfile.TemporaryDirectory() as parent:
        folder = RunFolder(Path(parent) / "calibration")
        folder.path.mkdir()
        write_identity(folder, config, canaries_csv(run))
        with contextlib.suppress(_EnoughError):
            train(run, make_runtime(run, folder.worker_log), folder, (watch,))
    later = max(len(watch.ends) - 1, 1)
    return Calibration(
        start_seconds=watch.ends[0],
        round_seconds=(watch.ends[-1] - watch.ends[0]) / later,
        rounds_timed=len(watch.ends),
        rounds=run.num_rounds,
    )
