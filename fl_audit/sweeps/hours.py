"""The hours that a sweep's remaining runs take on this machine, by what was measured on it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fl_audit.config import Config
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import read_record
from fl_audit.number_words import count, duration, significant
from fl_audit.sweeps.sweep import RunState, SweepRun


@dataclass(frozen=True)
class RunTime:
    """The time of a run on this machine.

    Attributes:
      start_seconds: The seconds before its second round; 0 where only rounds were timed.
      round_seconds: The seconds of a round, with its scoring.
      source: What was measured, in words.
    """

    start_seconds: float
    round_seconds: float
    source: str


def time_of_finished(states: Sequence[RunState]) -> RunTime | None:
    """The mean time of the finished runs' rounds; None where there are none."""
    each = []
    for folder in (RunFolder(state.folder) for state in states if state.state == "finished"):
        if folder.record.exists():
            record = read_record(folder)
            each.append((record.training_seconds + record.scoring_seconds) / record.rounds_done)
    if not each:
        return None
    return RunTime(0.0, sum(each) / len(each), f"{count(len(each), 'finished run')} of the sweep")


def calibrated(config: Config, name: str, seconds: float) -> RunTime:
    """The time of a run whose first rounds are trained now, on all cores.

    Args:
      config: The config of the run.
      name: Its name, for people.
      seconds: The seconds for rounds after the first.

    Raises:
      InputError: The config or its data cannot be used.
    """
    from fl_audit.planning.cost import calibrate

    measured = calibrate(config, seconds)
    source = f"{count(measured.rounds_timed, 'round')} of {name}, trained now"
    return RunTime(measured.start_seconds, measured.round_seconds, source)


def hours_line(runs: Sequence[SweepRun], states: Sequence[RunState], time: RunTime) -> str:
    """One line: how long the runs take that are left, one after another.

    Args:
      runs: All runs of the sweep.
      states: Their states, in the same order.
      time: The measured time, which is taken for every run.
    """
    left = [
        run.config.participation.rounds
        for run, state in zip(runs, states, strict=True)
        if state.state != "finished"
    ]
    rounds = [number for number in left if number is not None]
    if not rounds:
        return "hours: not known, as the runs' logs set their rounds"
    seconds = sum(time.start_seconds + number * time.round_seconds for number in rounds)
    each = f"{significant(time.round_seconds, 2)} s a round, as {time.source} took"
    return f"hours: about {duration(seconds)} for {count(len(rounds), 'run')} in turn; {each}"
