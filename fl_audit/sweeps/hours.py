"""The hours of a sweep's remaining runs on this machine, from measured times."""

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
      start_seconds: Seconds before the second round; 0 if only rounds were timed.
      source: What was measured, in words.
    """

    start_seconds: float
    round_seconds: float
    source: str


def time_of_finished(states: Sequence[RunState]) -> RunTime | None:
    """The mean time of the finished runs' rounds, if any."""
    round_seconds = []
    for folder in (RunFolder(state.folder) for state in states if state.state == "finished"):
        if folder.record.exists():
            record = read_record(folder)
            round_seconds.append(
                (record.training_seconds + record.scoring_seconds) / record.rounds_done
            )
    if not round_seconds:
        return None
    return RunTime(
        0.0,
        sum(round_seconds) / len(round_seconds),
        f"{count(len(round_seconds), 'finished run')} of the sweep",
    )


def calibrated(config: Config, name: str, seconds: float) -> RunTime:
    """The time of a run, from training its first rounds now on all cores."""
    from fl_audit.planning.cost import calibrate

    measured = calibrate(config, seconds)
    source = f"{count(measured.rounds_timed, 'round')} of {name}, trained now"
    return RunTime(measured.start_seconds, measured.round_seconds, source)


def hours_line(runs: Sequence[SweepRun], states: Sequence[RunState], time: RunTime) -> str:
    """One line: the time of the remaining runs one after another, if each takes `time`."""
    left = [
        run.config.participation.rounds
        for run, state in zip(runs, states, strict=True)
        if state.state != "finished"
    ]
    rounds = [number for number in left if number is not None]
    if not rounds:
        return "hours: not known, as the runs' logs set their rounds"
    seconds = sum(time.start_seconds + number * time.round_seconds for number in rounds)
    measured = f"{significant(time.round_seconds, 2)} s a round, as {time.source} took"
    return f"hours: about {duration(seconds)} for {count(len(rounds), 'run')} in turn; {measured}"
