"""One display over all runs of a sweep, on standard error."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import read_foreign
from fl_audit.progress import Progress, warn
from fl_audit.sweeps.grid import SweepRun
from fl_audit.sweeps.states import RunState


def count_run(progress: Progress, state: RunState) -> None:
    """Counts a run that has ended, and says at once if it failed."""
    progress.advance()
    if state.error is not None:
        warn(f"{state.name} failed: {state.error}")


def rounds_at_work(runs: Sequence[SweepRun], at_work: Sequence[RunState]) -> str:
    """How many rounds the runs at work have behind them, in words.

    Args:
      runs: All runs of the sweep.
      at_work: The runs that are at work.
    """
    rounds = {run.name: run.config.participation.rounds for run in runs}
    return ", ".join(f"{state.name} {_completed(state, rounds)}" for state in at_work)


def _completed(state: RunState, rounds: Mapping[str, int | None]) -> str:
    completed, of = _rows(RunFolder(state.folder).metrics), rounds[state.name]
    return f"{completed}" if of is None else f"{completed}/{of}"


def _rows(metrics: Path) -> int:
    """The rounds that a run's metrics count so far."""
    try:
        return max(read_foreign(metrics).count(b"\n") - 1, 0)
    except OSError:
        return 0  # not begun
