"""The hours that a run takes on this machine, from about a minute of its own rounds."""

import contextlib
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fl_audit.config import Config
from fl_audit.formats.folders import RunFolder
from fl_audit.training.observers import FinishedRound, RoundObserver

_FEWEST_ROUNDS = 3
"""The smallest number of rounds that are timed; the first one also builds what all others use."""


@dataclass(frozen=True)
class Calibration:
    """The time that the parts of a run take on the machine that it was measured on.

    Attributes:
      start_seconds: The seconds from config to the end of the first round.
      round_seconds: The seconds of a later round with its scoring and logs, on average.
      rounds_timed: The number of rounds that were trained.
      rounds: The number of rounds of the whole run.
    """

    start_seconds: float
    round_seconds: float
    rounds_timed: int
    rounds: int

    def seconds(self, runs: int = 1, machines: int = 1) -> float:
        """The seconds of several such runs, without their reports, each run on one machine.

        Args:
          runs: The number of runs.
          machines: The number of such machines; each takes the next run when it has finished one.
        """
        one = self.start_seconds + (self.rounds - 1) * self.round_seconds
        return math.ceil(runs / machines) * one

    def to_json(self, runs: int = 1, machines: int = 1) -> dict[str, object]:
        """The JSON object that a plan has under `hours`."""
        return {
            "start_seconds": self.start_seconds,
            "round_seconds": self.round_seconds,
            "rounds_timed": self.rounds_timed,
            "runs": runs,
            "machines": machines,
            "hours": self.seconds(runs, machines) / 3600,
        }


class _EnoughError(Exception):
    """The end of a calibration."""


class _Stopwatch(RoundObserver):
    """The ends of the rounds so far, in seconds since the start."""

    def __init__(self, seconds: float) -> None:
        self.ends: list[float] = []
        self._started = time.perf_counter()
        self._seconds = seconds

    def round_finished(self, finished: FinishedRound) -> None:
        """Takes the time, and ends the run once that was long enough."""
        del finished
        self.ends.append(time.perf_counter() - self._started)
        timed = self.ends[-1] - self.ends[0]
        if len(self.ends) >= _FEWEST_ROUNDS and timed >= self._seconds:
            raise _EnoughError


def calibrate(config: Config, seconds: float = 60.0) -> Calibration:
    """Trains the first rounds of a run in a folder that is thrown away, and times them.

    Imports TensorFlow. What the first round takes beyond a later one, and what is loaded before it,
    counts once.

    Args:
      config: The config of the run.
      seconds: The seconds for rounds after the first; at least three rounds are trained.

    Raises:
      InputError: The config or its data cannot be used.
    """
    watch = _Stopwatch(seconds)
    from fl_audit.training.run.prepare import canaries_csv, prepare
    from fl_audit.training.run.taken_folder import write_identity
    from fl_audit.training.run.train import train
    from fl_audit.training.runtimes.make import make_runtime

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
