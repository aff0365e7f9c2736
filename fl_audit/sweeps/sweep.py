"""A sweep from its file to the comparison of its runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from fl_audit.comparison import compare, render_comparison
from fl_audit.engines.ray_cluster import check_ray
from fl_audit.formats.folders import locked
from fl_audit.formats.text_files import unfinished_files, write_text
from fl_audit.progress import Progress, bar
from fl_audit.sweeps.grid import SweepRun, read_grid
from fl_audit.sweeps.on_ray import run_on_ray
from fl_audit.sweeps.progress import count_run, rounds_at_work
from fl_audit.sweeps.states import RunState, found_state, write_states

_SHARED = "shared"
"""The folder of what the runs read alike, such as a parsed text, until all are finished."""


def plan_sweep(path: Path, out: Path) -> tuple[RunState, ...]:
    """The runs of a sweep and which of them are finished; starts and writes nothing.

    Args:
      path: The sweep's file.
      out: The sweep's folder, which need not exist.

    Raises:
      InputError: The file cannot be used, or a run's folder is taken by something else.
    """
    return _found_states(read_grid(path), out)


def _found_states(runs: Sequence[SweepRun], out: Path) -> tuple[RunState, ...]:
    """The states of all runs before the sweep starts any; the display is for thousands of them.

    Raises:
      InputError: A run's folder is taken by something else.
    """
    looked = bar(runs, "folders", "run", delay=1)
    return tuple(found_state(run, out) for run in looked)


def run_sweep(path: Path, out: Path, jobs: int | None = None) -> tuple[RunState, ...]:
    """Runs all that is not finished, then writes the comparison's page; returns all states.

    Args:
      path: The sweep's file.
      out: The sweep's folder, new or that of an earlier call.
      jobs: The number of runs at a time; None lets the machine decide.

    Raises:
      InputError: See `plan_sweep`; or another sweep is at work in the folder.
      ModuleNotFoundError: Ray is not installed though a run is to be made.
    """
    runs = read_grid(path)
    if any(state.state != "finished" for state in _found_states(runs, out)):
        check_ray()
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        for left in unfinished_files(out):
            left.unlink()
        states = _run_rest(runs, out, jobs)
        _compare(states, out)
    return states


def _run_rest(runs: Sequence[SweepRun], out: Path, jobs: int | None) -> tuple[RunState, ...]:
    """Runs what is not finished; sweep.json follows every end."""
    states = {state.name: state for state in _found_states(runs, out)}
    work = [(run, states[run.name]) for run in runs if states[run.name].state != "finished"]
    write_states(list(states.values()), out)
    if not work:
        return tuple(states.values())
    with Progress("sweep", len(runs), "run", done=len(runs) - len(work)) as progress:

        def ended(state: RunState) -> None:
            states[state.name] = state
            write_states(list(states.values()), out)
            count_run(progress, state)

        run_on_ray(
            work,
            out / _SHARED,
            jobs,
            ended,
            lambda at_work: progress.note(rounds_at_work(runs, at_work)),
        )
    if all(state.state == "finished" for state in states.values()):
        shutil.rmtree(out / _SHARED, ignore_errors=True)
    return tuple(states.values())


def _compare(states: Sequence[RunState], out: Path) -> None:
    """Writes the page over the finished runs, where there are two to compare."""
    finished = [state.folder for state in states if state.state == "finished"]
    if len(finished) >= 2:
        write_text(out / "compare.html", render_comparison(compare(finished)))
