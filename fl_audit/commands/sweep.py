"""`fl-audit sweep`: many runs of one config side by side, and their comparison."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands import exit_status
from fl_audit.commands.parser import Commands, add_calibrate, add_command, check_calibrate
from fl_audit.commands.printing import print_json, print_lines
from fl_audit.errors import InputError, visible

if TYPE_CHECKING:
    from fl_audit.sweeps import RunState


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _sweep,
        name="sweep",
        summary="all runs of a grid of configs, and their comparison",
        description=(
            "Run all combinations of a grid, several at a time. Called again, it skips finished "
            "runs and continues interrupted ones. Exits with status 1 if a run failed."
        ),
        example="fl-audit sweep grid.toml --out runs/grid --dry-run",
    )
    parser.add_argument(
        "grid", metavar="GRID.toml", type=Path, help="the base config, and the keys that change"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the sweep's folder")
    parser.add_argument("--dry-run", action="store_true", help="list the runs, start nothing")
    add_calibrate(
        parser,
        "with --dry-run, without --json: train one run's first rounds for SECONDS (default: 60), "
        "to estimate hours",
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        help="runs at a time; default: one per GPU, or one per core with 2 GiB of memory each",
    )
    parser.add_argument("--json", action="store_true", help="print sweep.json")


def _sweep(arguments: argparse.Namespace) -> int:
    from fl_audit.sweeps import plan_sweep, run_sweep, sweep_json

    if arguments.jobs is not None and arguments.jobs < 1:
        raise InputError(f"--jobs: must be at least 1, got {arguments.jobs}")
    if arguments.jobs is not None and arguments.dry_run:
        raise InputError(f"--jobs {arguments.jobs}: is not for --dry-run, which starts no run")
    seconds = arguments.calibrate
    check_calibrate(seconds)
    if seconds is not None and (arguments.json or not arguments.dry_run):
        raise InputError(f"--calibrate {seconds:g}: is only for --dry-run without --json")
    if arguments.dry_run:
        states = plan_sweep(arguments.grid, arguments.out)
    else:
        states = run_sweep(arguments.grid, arguments.out, arguments.jobs)
    if arguments.json:
        print_json(sweep_json(states))
    else:
        print_lines(_lines(states, arguments.out, arguments.dry_run))
        if arguments.dry_run:
            print(_hours(states, arguments.grid, seconds))
    failed = [state for state in states if state.state == "failed"]
    for state in failed:
        print(visible(f"fl-audit: {state.name} failed: {state.error}"), file=sys.stderr)
    return exit_status.RUN_FAILED if failed else 0


def _hours(states: "Sequence[RunState]", grid: Path, seconds: float | None) -> str:
    """Predicted time of the remaining runs, from a calibration if requested, else finished runs."""
    from fl_audit.sweeps import read_grid
    from fl_audit.sweeps.sweep import calibrated, hours_line, time_of_finished

    runs = read_grid(grid)
    left = [run for run, state in zip(runs, states, strict=True) if state.state != "finished"]
    if not left:
        return "hours: none, as all runs are finished"
    if seconds is not None:
        time = calibrated(left[0].config, left[0].name, seconds)
    elif (elapsed := time_of_finished(states)) is not None:
        time = elapsed
    else:
        return "hours: not measured; --calibrate trains the first rounds of a run for a minute"
    return hours_line(runs, states, time)


def _lines(states: "Sequence[RunState]", out: Path, is_dry: bool) -> list[str]:
    """Lines on the runs' states and number, and, unless dry, on the table and page of the sweep."""
    counts = {word: sum(s.state == word for s in states) for word in ("finished", "failed")}
    rest = len(states) - sum(counts.values())
    numbers = [f"{number} {word}" for word, number in counts.items() if number]
    lines = [f"{state.state:<9} {state.name}" for state in states]
    lines.append(
        f"runs: {len(states)}; {', '.join([*numbers, *([f'{rest} to run'] * bool(rest))])}"
    )
    if is_dry:
        return lines
    if counts["finished"]:
        lines.append(f"table: {out / 'results.csv'}")
    if counts["finished"] >= 2:
        return [*lines, f"page: {out / 'compare.html'}"]
    return [*lines, "no page: a comparison needs two finished runs"]
